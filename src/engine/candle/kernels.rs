//! The CPU's arithmetic: products with weights as they are stored and the two halves of attention, one thread each.
//!
//! All of it is two loops: dot products of stored rows with activations ([`Kernels::dots`]) and weighted sums of
//! stored rows ([`Kernels::accumulate`]). A result is defined by its order of additions: a dot product has
//! sixteen accumulators that step through the columns in blocks of 32, first the even columns of a block and then the
//! odd ones, weight decoded and scaled before the fused multiply-add, and a fixed tree sums them at the end. A
//! weighted sum adds row by row. So, within a set of kernels, no result depends on how many rows, tokens or keys are
//! processed together, bit for bit; the AVX2 and the AVX-512 set give the same bits, and so does the portable one
//! where the target fuses (Arm).
//!
//! Even columns first, because the two nibbles of an MXFP4 byte, and the two halves of a 32-bit word of BF16, then
//! decode without a shuffle. Activations are brought into that order once ([`Activations`]).
#![allow(
    clippy::inline_always,
    reason = "an intrinsic is inlined only into a function that enables its instructions"
)]

mod activation;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dots;
mod int8;
mod keys;
mod lanes;
mod packed;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod portable;
mod rounded;
mod sums;
#[cfg(test)]
pub(super) mod tests;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod words;

use std::ops::Range;

pub use keys::Keys;
pub use lanes::LANES;
pub use packed::{Bf16, Integers, Strips};
pub use rounded::{Grid, Pairs, Q8Block, QUAD, Quad, Quantized, inverse, q8_from_bf16};

use crate::engine::Compute;
pub use lanes::BLOCK;

/// 32 activations: the 16 with an even column, then the 16 with an odd one.
pub type Block = [[f32; LANES]; 2];

/// Activations in the order in which weights are decoded; rows are filled up with zeros to whole blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activations {
    blocks: Vec<Block>,
    /// Blocks of a row.
    row: usize,
}

impl Activations {
    /// From `x` `[n, cols]` in plain order.
    pub fn new(x: &[f32], cols: usize) -> Self {
        assert!(
            cols > 0 && x.len().is_multiple_of(cols),
            "{} values in rows of {cols}",
            x.len()
        );
        let row = cols.div_ceil(BLOCK);
        let mut blocks = vec![Block::default(); x.len() / cols * row];
        for (blocks, x) in blocks.chunks_exact_mut(row).zip(x.chunks_exact(cols)) {
            split(x, blocks);
        }
        Self { blocks, row }
    }
    /// The blocks of row `i`.
    pub fn row(&self, i: usize) -> &[Block] {
        &self.blocks[i * self.row..][..self.row]
    }
}

/// One row into blocks. The last one keeps what it holds beyond the row.
fn split(x: &[f32], blocks: &mut [Block]) {
    let (whole, rest) = x.as_chunks::<BLOCK>();
    for (block, x) in blocks.iter_mut().zip(whole) {
        for i in 0..LANES {
            block[0][i] = x[2 * i];
            block[1][i] = x[2 * i + 1];
        }
    }
    if let Some(block) = blocks.get_mut(whole.len()) {
        for (i, x) in rest.iter().enumerate() {
            block[i % 2][i / 2] = *x;
        }
    }
}

/// Rows of a matrix, one after the other, as stored. Bytes need no alignment.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Little-endian BF16.
    Bf16(&'a [u8]),
    /// Plain f32.
    F32(&'a [f32]),
    /// 16 bytes of `blocks` and one of `scales` for 32 columns; the low nibble is the even column.
    Mxfp4 {
        /// `[rows, cols / 32, 16]`
        blocks: &'a [u8],
        /// `[rows, cols / 32]`
        scales: &'a [u8],
    },
    /// 8 bits with a scale for each 32 columns; a row is filled up to whole blocks.
    Q8(&'a [Q8Block]),
}

impl Rows<'_> {
    /// Rows of `range` out of a matrix with `cols` columns.
    pub fn slice(self, cols: usize, range: Range<usize>) -> Self {
        let cut = |width: usize| width * range.start..width * range.end;
        match self {
            Self::Bf16(bytes) => Self::Bf16(&bytes[cut(2 * cols)]),
            Self::F32(values) => Self::F32(&values[cut(cols)]),
            Self::Mxfp4 { blocks, scales } => Self::Mxfp4 {
                blocks: &blocks[cut(cols / 2)],
                scales: &scales[cut(cols / BLOCK)],
            },
            Self::Q8(blocks) => Self::Q8(&blocks[cut(cols.div_ceil(BLOCK))]),
        }
    }
    /// Panics where this is not `count` rows of `cols` columns.
    fn check(self, count: usize, cols: usize) {
        match self {
            Self::Bf16(bytes) => assert_eq!(
                bytes.len(),
                2 * count * cols,
                "bytes of {count} BF16 rows of {cols}"
            ),
            Self::F32(values) => assert_eq!(
                values.len(),
                count * cols,
                "values of {count} rows of {cols}"
            ),
            Self::Mxfp4 { blocks, scales } => {
                assert!(
                    cols.is_multiple_of(BLOCK),
                    "MXFP4 rows of {cols}, which is no multiple of {BLOCK}"
                );
                assert_eq!(
                    blocks.len(),
                    count * cols / 2,
                    "bytes of {count} MXFP4 rows of {cols}"
                );
                assert_eq!(
                    scales.len(),
                    count * cols / BLOCK,
                    "scales of {count} MXFP4 rows of {cols}"
                );
            }
            Self::Q8(blocks) => assert_eq!(
                blocks.len(),
                count * cols.div_ceil(BLOCK),
                "blocks of {count} 8-bit rows of {cols}"
            ),
        }
    }
}

/// Values of [`Columns`].
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Little-endian BF16.
    Bf16(&'a [u8]),
    /// Plain f32.
    F32(&'a [f32]),
    /// Signed bytes.
    I8(&'a [u8]),
}

impl Values<'_> {
    fn len(self) -> usize {
        match self {
            Self::Bf16(bytes) => bytes.len() / 2,
            Self::F32(values) => values.len(),
            Self::I8(bytes) => bytes.len(),
        }
    }
    /// Rows of `range` out of a matrix with `cols` columns.
    pub fn slice(self, cols: usize, range: Range<usize>) -> Self {
        let cut = |width: usize| width * range.start..width * range.end;
        match self {
            Self::Bf16(bytes) => Self::Bf16(&bytes[cut(2 * cols)]),
            Self::F32(values) => Self::F32(&values[cut(cols)]),
            Self::I8(bytes) => Self::I8(&bytes[cut(cols)]),
        }
    }
}

/// The columns `first .. first + width` of a row-major matrix whose rows have `stride` values.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The whole matrix.
    pub values: Values<'a>,
    /// Values of a row.
    pub stride: usize,
    /// The first column.
    pub first: usize,
    /// Columns.
    pub width: usize,
}

#[derive(Clone, Copy)]
enum Set {
    Portable(portable::Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
}

/// One set of kernels; each for a kind of CPU.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// One of [`Kernels::NAMES`].
    pub name: &'static str,
    set: Set,
    /// Integer products, if it has them.
    pub integers: Option<Integers>,
    /// BF16 products of many tokens, if it has them.
    pub bf16: Option<Bf16>,
}

/// Runs `$method` of whatever set this is.
macro_rules! dispatch {
    ($self:ident . $method:ident ( $($argument:expr),* )) => {
        match $self.set {
            Set::Portable(set) => set.$method($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(set) => set.$method($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Set::Avx512(set) => set.$method($($argument),*),
        }
    };
}

impl Kernels {
    /// Every set, fastest first.
    pub const NAMES: [&'static str; 5] =
        ["avx512-bf16", "avx512-vnni", "avx512", "avx2", "portable"];

    /// The fastest set that this CPU can run.
    pub fn detect() -> Self {
        Self::NAMES
            .into_iter()
            .find_map(Self::by_name)
            .expect("the portable set runs everywhere")
    }

    /// Every set that this CPU can run, fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().filter_map(Self::by_name)
    }

    /// What activations are rounded to when `choice` is asked for: the fastest that is no further from f32 than the
    /// official model in BF16 where nothing is, and f32 where this set has no instructions for the choice.
    pub const fn compute(&self, choice: Option<Compute>) -> Compute {
        match choice {
            Some(Compute::Bf16) | None if self.bf16.is_some() => Compute::Bf16,
            None if self.has_vnni() => Compute::Int16,
            Some(choice @ (Compute::Int8 | Compute::Int16)) if self.integers.is_some() => choice,
            _ => Compute::F32,
        }
    }

    const fn has_vnni(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(Integers::Vnni(_)) = self.integers {
            return true;
        }
        false
    }

    /// The set of that name, if there is one and this CPU can run it.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = Self::NAMES.into_iter().find(|known| *known == name)?;
        let portable = Self {
            name,
            set: Set::Portable(portable::Portable),
            integers: None,
            bf16: None,
        };
        if name == "portable" {
            return Some(portable);
        }
        #[cfg(target_arch = "x86_64")]
        return portable.on_x86();
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// The set of this name, beginning with the portable one.
    #[cfg(target_arch = "x86_64")]
    fn on_x86(mut self) -> Option<Self> {
        let avx2 = avx2::Avx2::detect()?;
        self.set = Set::Avx2(avx2);
        self.integers = Some(Integers::Avx2(avx2));
        if self.name == "avx2" {
            return Some(self);
        }
        self.set = Set::Avx512(avx512::Avx512::detect()?);
        if self.name == "avx512" {
            return Some(self);
        }
        self.integers = Some(Integers::Vnni(vnni::Vnni::detect()?));
        if self.name == "avx512-vnni" {
            return Some(self);
        }
        self.bf16 = Some(Bf16::Avx512(pairs::Avx512Bf16::detect()?));
        Some(self)
    }

    /// `out[t, r] = rows[r] . x[t]`.
    ///
    /// # Shapes
    /// `rows`: `[R, cols]`; `x`: `N` rows of [`Activations`] made with `cols` columns; `out`: `[N, R]`.
    pub fn dots(&self, rows: Rows<'_>, cols: usize, x: &[&[Block]], out: &mut [f32]) {
        if x.is_empty() || out.is_empty() {
            return;
        }
        assert!(
            cols > 0 && out.len().is_multiple_of(x.len()),
            "{} results of {} tokens",
            out.len(),
            x.len()
        );
        rows.check(out.len() / x.len(), cols);
        for x in x {
            assert_eq!(
                x.len(),
                cols.div_ceil(BLOCK),
                "blocks of {cols} activations"
            );
        }
        dispatch!(self.dots(rows, x, out));
    }

    /// The gated activation of gpt-oss over `gate_up + bias`, which alternate gate and up and are twice as long as
    /// `out`: `gate * sigmoid(1.702 * gate) * (up + 1)`, gate clamped from above and up from both sides.
    pub fn swiglu(&self, gate_up: &[f32], bias: &[f32], limit: f32, out: &mut [f32]) {
        dispatch!(self.swiglu(gate_up, bias, limit, out));
    }

    /// `out = x + bias`
    pub fn add(&self, x: &[f32], bias: &[f32], out: &mut [f32]) {
        dispatch!(self.add(x, bias, out));
    }

    /// Turns logits into `e^(logit - largest)` and gives their sum.
    pub fn exponentials(&self, logits: &mut [f32], largest: f32) -> f32 {
        dispatch!(self.exponentials(logits, largest))
    }

    /// The largest of `logits` and `start`.
    pub fn largest(&self, logits: &[f32], start: f32) -> f32 {
        dispatch!(self.largest(logits, start))
    }

    /// Rows decoded to f32: `out` is `[R, cols]`.
    pub fn unpack(&self, rows: Rows<'_>, cols: usize, out: &mut [f32]) {
        assert!(
            cols > 0 && out.len().is_multiple_of(cols),
            "{} values in rows of {cols}",
            out.len()
        );
        rows.check(out.len() / cols, cols);
        dispatch!(self.unpack(rows, cols, out));
    }

    /// `acc[g, j] += sum over i of p[g, i] * columns[i, j]`, added in the order of `i`.
    ///
    /// # Shapes
    /// `p`: `[G, stride]`, of which the first `n` of each row count; `columns`: at least `n` rows; `acc`:
    /// `[G, width]`.
    pub fn accumulate(
        &self,
        p: &[f32],
        stride: usize,
        n: usize,
        columns: Columns<'_>,
        acc: &mut [f32],
    ) {
        let width = columns.width;
        if n == 0 || acc.is_empty() {
            return;
        }
        assert!(
            width > 0 && acc.len().is_multiple_of(width),
            "{} sums in rows of {width}",
            acc.len()
        );
        let group = acc.len() / width;
        assert!(
            n <= stride && (group - 1) * stride + n <= p.len(),
            "{} factors for {group} rows of {n}",
            p.len()
        );
        assert!(
            columns.first + width <= columns.stride && n * columns.stride <= columns.values.len(),
            "columns outside the matrix"
        );
        dispatch!(self.accumulate(p, stride, n, columns, acc));
    }

    /// Attention logits: `out[r, i] = q[r] . keys[i]`.
    ///
    /// # Shapes
    /// `q`: `[rows, width]`; `out`: `[rows, stride]`, of which sixteen values are written for each group of keys.
    pub fn scores(&self, q: &[f32], width: usize, keys: Keys<'_>, out: &mut [f32], stride: usize) {
        assert!(
            width > 0 && width.is_multiple_of(4) && q.len().is_multiple_of(width),
            "{} values in queries of {width}",
            q.len()
        );
        let written = keys.groups(width) * LANES;
        assert!(
            written <= stride && q.len() / width * stride <= out.len(),
            "{written} logits of a query in rows of {stride}"
        );
        dispatch!(self.scores(q, width, keys, out, stride));
    }
}
