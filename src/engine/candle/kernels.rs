//! The CPU's arithmetic: products with weights as they are stored and the two halves of attention, one thread each.
//!
//! All of it is two loops: dot products of stored rows with activations ([`Kernels::dots`]) and weighted sums of
//! stored rows ([`Kernels::accumulate_columns`]). A result is defined by its order of additions: a dot product has
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

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dots;
mod int8;
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

use half::bf16;

pub use packed::{Bf16, Integers, Strips};
pub use rounded::{Grid, Pairs, Q8Quad, QUAD, Quad, Quantized};

use crate::engine::Compute;
use lanes::{BLOCK, LANES};

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
    /// 8 bits with a scale for each 32 columns; a row is filled up to whole quads.
    Q8(&'a [Q8Quad]),
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
            Self::Q8(quads) => Self::Q8(&quads[cut(cols.div_ceil(QUAD))]),
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
            Self::Q8(quads) => assert_eq!(
                quads.len(),
                count * cols.div_ceil(QUAD),
                "quads of {count} 8-bit rows of {cols}"
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

/// Keys or values of one kv head at consecutive positions, `[n, head_dim]`.
#[derive(Clone, Copy, Debug)]
pub enum KvRun<'a> {
    /// A history in BF16.
    Bf16(&'a [bf16]),
    /// A history in f32.
    F32(&'a [f32]),
}

impl<'a> KvRun<'a> {
    fn len(self) -> usize {
        match self {
            KvRun::Bf16(values) => values.len(),
            KvRun::F32(values) => values.len(),
        }
    }
    fn rows(self) -> Rows<'a> {
        match self {
            KvRun::Bf16(values) => Rows::Bf16(bytemuck::cast_slice(values)),
            KvRun::F32(values) => Rows::F32(values),
        }
    }
    fn values(self) -> Values<'a> {
        match self {
            KvRun::Bf16(values) => Values::Bf16(bytemuck::cast_slice(values)),
            KvRun::F32(values) => Values::F32(values),
        }
    }
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
    /// `p`: `[G, n]`; `columns`: at least `n` rows; `acc`: `[G, width]`.
    pub fn accumulate_columns(&self, p: &[f32], columns: Columns<'_>, acc: &mut [f32]) {
        let Columns {
            values,
            stride,
            first,
            width,
        } = columns;
        if p.is_empty() || acc.is_empty() {
            return;
        }
        assert!(
            width > 0 && acc.len().is_multiple_of(width),
            "{} sums in rows of {width}",
            acc.len()
        );
        let group = acc.len() / width;
        assert!(
            p.len().is_multiple_of(group),
            "{} factors for {group} rows",
            p.len()
        );
        let held = match values {
            Values::Bf16(bytes) => bytes.len() / 2,
            Values::F32(values) => values.len(),
        };
        assert!(
            first + width <= stride && p.len() / group * stride <= held,
            "columns outside the matrix"
        );
        dispatch!(self.accumulate(p, columns, acc));
    }

    /// Attention logits of the query heads that share a kv head: `out[h, i] = scale * (q[h] . keys[i])`.
    ///
    /// # Shapes
    /// `q`: `[group, head_dim]`; `keys`: `[n, head_dim]`; `out`: `[group, n]`.
    pub fn scores(&self, q: &[f32], head_dim: usize, keys: KvRun<'_>, scale: f32, out: &mut [f32]) {
        /// Query heads split at a time; a head of 256 fits.
        const HEADS: usize = 8;
        const BLOCKS: usize = 8;
        assert!(
            head_dim > 0 && q.len().is_multiple_of(head_dim),
            "{} values in heads of {head_dim}",
            q.len()
        );
        let n = keys.len() / head_dim;
        assert_eq!(keys.len(), n * head_dim, "values of {n} keys of {head_dim}");
        assert_eq!(out.len(), q.len() / head_dim * n, "logits of {n} keys");
        if n == 0 {
            return;
        }
        let row = head_dim.div_ceil(BLOCK);
        if row > BLOCKS {
            let q = Activations::new(q, head_dim);
            let q: Vec<&[Block]> = q.blocks.chunks_exact(row).collect();
            self.dots(keys.rows(), head_dim, &q, out);
        } else {
            for (q, out) in q.chunks(HEADS * head_dim).zip(out.chunks_mut(HEADS * n)) {
                let mut blocks = [Block::default(); HEADS * BLOCKS];
                let heads = q.len() / head_dim;
                for (q, blocks) in q.chunks_exact(head_dim).zip(blocks.chunks_exact_mut(row)) {
                    split(q, blocks);
                }
                let mut x: [&[Block]; HEADS] = [&[]; HEADS];
                for (x, blocks) in x.iter_mut().zip(blocks.chunks_exact(row)) {
                    *x = blocks;
                }
                self.dots(keys.rows(), head_dim, &x[..heads], out);
            }
        }
        for logit in out {
            *logit *= scale;
        }
    }

    /// `acc[h] += sum over i of p[h, i] * values[i]`, key by key, so that a range of keys may come in several runs.
    ///
    /// # Shapes
    /// `p`: `[group, n]`; `values`: `[n, head_dim]`; `acc`: `[group, head_dim]`.
    pub fn accumulate(&self, p: &[f32], values: KvRun<'_>, head_dim: usize, acc: &mut [f32]) {
        assert!(
            head_dim > 0 && acc.len().is_multiple_of(head_dim),
            "{} sums in heads of {head_dim}",
            acc.len()
        );
        assert_eq!(
            p.len() * head_dim,
            acc.len() / head_dim * values.len(),
            "a factor for each head and key"
        );
        let columns = Columns {
            values: values.values(),
            stride: head_dim,
            first: 0,
            width: head_dim,
        };
        self.accumulate_columns(p, columns, acc);
    }
}
