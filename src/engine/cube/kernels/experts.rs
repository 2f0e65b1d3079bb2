//! The MLPs of the chosen experts: gate and up, activation, down, weighted sum.
//!
//! Which experts a token uses stays on the device. A few tokens (`decode`) read the rows of their experts one by
//! one; many (`prefill`) are first grouped by expert (`sort`), so that a weight is unpacked once for a whole tile
//! of them. A weight comes in pieces of whole experts; each piece is one launch that does the slots of its experts.

mod decode;
mod packed;
mod prefill;
mod sort;
#[cfg(test)]
mod tests;

use std::ops::Range;

use cubecl::prelude::*;

use super::{Buffer, Gpu};
pub use packed::Kind;

/// Up to here tokens are not grouped: they would rarely share an expert.
pub const DECODE_TOKENS: usize = 8;

/// One product of all experts: the packed weight `[experts, rows, cols]` in pieces, and the bias.
pub struct ExpertWeights {
    /// How the weight is packed.
    pub kind: Kind,
    /// How many experts there are.
    pub experts: usize,
    /// Rows of each; for gate and up twice the intermediate size, row `2j` the gate and `2j + 1` the up of `j`.
    pub rows: usize,
    /// Values of a row, a multiple of 32.
    pub cols: usize,
    /// The weight of consecutive experts.
    pub pieces: Vec<Piece>,
    /// `[experts, rows]`, f32.
    pub bias: Buffer,
}

/// The packed weight of some experts.
pub struct Piece {
    /// Which ones.
    pub experts: Range<usize>,
    /// `[experts, rows, cols]`: four words for each 32 values (MXFP4), or a word for two (BF16; checkpoints have
    /// `[experts, cols, rows]`).
    pub words: Buffer,
    /// MXFP4: the E8M0 bytes `[experts, rows, cols / 32]` of this piece, four to a word, without gaps.
    pub scales: Option<Buffer>,
}

impl ExpertWeights {
    /// A weight of these parts.
    ///
    /// # Panics
    /// If a length is not what the numbers ask for, or a piece is missing.
    pub fn new(
        kind: Kind,
        (experts, rows, cols): (usize, usize, usize),
        pieces: Vec<Piece>,
        bias: Buffer,
    ) -> Self {
        assert!(cols > 0 && cols.is_multiple_of(32) && rows > 0 && bias.len >= experts * rows);
        let mut next = 0;
        for Piece {
            experts,
            words,
            scales,
        } in &pieces
        {
            assert!(experts.start == next && !experts.is_empty());
            next = experts.end;
            let values = experts.len() * rows * cols;
            assert!(words.len >= 4 * values / kind.values());
            // The kernels count values in 32 bits.
            assert!(u32::try_from(values).is_ok());
            let scale_words = scales.as_ref().map_or(0, |scales| scales.len);
            assert!(kind == Kind::Bf16 || scale_words >= (values / 32).div_ceil(4));
        }
        assert_eq!(next, experts);
        Self {
            kind,
            experts,
            rows,
            cols,
            pieces,
            bias,
        }
    }

    /// 16-byte vectors of a row.
    const fn vectors(&self) -> usize {
        self.cols / self.kind.values()
    }
}

/// The experts of each piece where an array may have at most `limit` bytes: as few pieces as can be.
///
/// # Panics
/// If a single expert is larger.
pub fn pieces(
    kind: Kind,
    (experts, rows, cols): (usize, usize, usize),
    limit: u64,
) -> Vec<Range<usize>> {
    let bytes = (16 * rows * cols / kind.values()) as u64;
    let held = usize::try_from(limit / bytes).unwrap_or(usize::MAX);
    assert!(
        held > 0,
        "an expert of {bytes} bytes on a device that binds {limit}"
    );
    let count = experts.div_ceil(held);
    (0..count)
        .map(|i| i * experts / count..(i + 1) * experts / count)
        .collect()
}

/// What [`experts`] writes between its launches, all words.
pub struct Work {
    /// The activations of each slot; where tokens are many, in the order of `order`.
    pub t: Buffer,
    /// Where each expert begins in `order`.
    pub offsets: Buffer,
    /// The slots, grouped by expert.
    pub order: Buffer,
    /// The outputs of each slot.
    pub products: Buffer,
}

/// The words that the buffers of a [`Work`] need at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkSizes {
    /// `[n, top_k, intermediate]`
    pub t: usize,
    /// `[experts + 1]`
    pub offsets: usize,
    /// `[n, top_k]`
    pub order: usize,
    /// `[n, top_k, hidden]`; almost nothing where all tokens are few.
    pub products: usize,
}

impl Work {
    /// What up to `n` tokens need.
    pub fn sizes(
        n: usize,
        top_k: usize,
        gate_up: &ExpertWeights,
        down: &ExpertWeights,
    ) -> WorkSizes {
        let slots = n * top_k;
        WorkSizes {
            t: slots * down.cols,
            offsets: gate_up.experts + 1,
            order: slots,
            products: if n > DECODE_TOKENS {
                slots * down.rows
            } else {
                1
            },
        }
    }

    /// Buffers of these sizes.
    pub fn new<R: Runtime>(gpu: &Gpu<R>, sizes: WorkSizes) -> Self {
        Self {
            t: gpu.empty(sizes.t),
            offsets: gpu.empty(sizes.offsets),
            order: gpu.empty(sizes.order),
            products: gpu.empty(sizes.products),
        }
    }
}

/// `y[token] = residual[token] + sum over slots of weight * (down · t + bias)`, where `t` is the activation of the
/// slot's expert: gate and up of `x`, the gate at most `limit`, the up within `-limit..=limit`,
/// `t = gate * sigmoid(1.702 gate) * (up + 1)`.
///
/// `x`, `residual`, `y` `[n, hidden]`; `ids` (u32) and `weights` (f32) `[n, top_k]` as `route` gives them. `y` is
/// none of the others. Ids that are no expert give anything, but nothing outside the buffers is touched.
#[allow(clippy::too_many_arguments, reason = "all of them meet here")]
pub fn experts<R: Runtime>(
    gpu: &Gpu<R>,
    x: &Buffer,
    residual: &Buffer,
    ids: &Buffer,
    weights: &Buffer,
    n: usize,
    top_k: usize,
    gate_up: &ExpertWeights,
    down: &ExpertWeights,
    limit: f32,
    work: &Work,
    y: &Buffer,
) {
    assert!(n > 0 && top_k > 0 && gate_up.rows == 2 * down.cols);
    assert!(gate_up.cols == down.rows && gate_up.experts == down.experts);
    if n <= DECODE_TOKENS {
        decode::gate_up(gpu, x, ids, (n, top_k), gate_up, limit, &work.t);
        decode::down(gpu, &work.t, residual, (ids, weights), (n, top_k), down, y);
    } else {
        let tile = prefill::Tile::new(n * top_k, gate_up.experts);
        sort::by_expert(gpu, ids, n * top_k, gate_up.experts, work);
        prefill::gate_up(gpu, x, (n, top_k), gate_up, limit, tile, work);
        prefill::down(gpu, (n, top_k), down, tile, work);
        prefill::sum(gpu, residual, weights, (n, top_k), down.rows, work, y);
    }
}
