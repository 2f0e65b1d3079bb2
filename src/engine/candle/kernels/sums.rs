//! Weighted sums of stored rows, written once for all instruction sets, see [`super::dots`].
#![allow(
    clippy::needless_range_loop,
    reason = "the indices address several arrays"
)]

use super::lanes::{LANES, Lanes};
use super::{Columns, Values};

/// `acc[g, ..] += sum over i of p[g, i] * values[i, ..]`, `i` by `i` in order: `G` rows of `acc` at once, in strips of
/// `C` times [`LANES`] columns.
#[inline(always)]
pub fn accumulate<L: Lanes, const G: usize, const C: usize>(
    l: L,
    p: &[f32],
    p_stride: usize,
    n: usize,
    columns: Columns<'_>,
    acc: &mut [f32],
) {
    let Columns {
        values,
        stride,
        first,
        width,
    } = columns;
    match values {
        Values::Bf16(bytes) => {
            let source = Bf16Columns {
                bytes,
                stride,
                first,
            };
            accumulate_from::<_, _, G, C>(l, p, p_stride, n, source, width, acc);
        }
        Values::F32(values) => {
            let source = F32Columns {
                values,
                stride,
                first,
            };
            accumulate_from::<_, _, G, C>(l, p, p_stride, n, source, width, acc);
        }
        Values::I8(bytes) => {
            let source = I8Columns {
                bytes,
                stride,
                first,
            };
            accumulate_from::<_, _, G, C>(l, p, p_stride, n, source, width, acc);
        }
    }
}

#[inline(always)]
fn accumulate_from<L: Lanes, S: Source, const G: usize, const C: usize>(
    l: L,
    p: &[f32],
    stride: usize,
    n: usize,
    source: S,
    width: usize,
    acc: &mut [f32],
) {
    let whole = width / (C * LANES) * (C * LANES);
    for (i, acc) in acc.chunks_mut(G * width).enumerate() {
        let group = acc.len() / width;
        let here = Factors {
            p: &p[i * G * stride..],
            stride,
            n,
        };
        let mut from = 0;
        while from < whole {
            if group == G {
                columns::<_, _, G, C>(l, here, source, from, width, acc);
            } else {
                singles::<_, _, C>(l, here, source, from, width, acc);
            }
            from += C * LANES;
        }
        while from + LANES <= width {
            if group == G {
                columns::<_, _, G, 1>(l, here, source, from, width, acc);
            } else {
                singles::<_, _, 1>(l, here, source, from, width, acc);
            }
            from += LANES;
        }
        if from < width {
            last(l, here, source, from, width, acc);
        }
    }
}

#[inline(always)]
fn singles<L: Lanes, S: Source, const C: usize>(
    l: L,
    p: Factors<'_>,
    source: S,
    from: usize,
    width: usize,
    acc: &mut [f32],
) {
    for (g, acc) in acc.chunks_exact_mut(width).enumerate() {
        columns::<_, _, 1, C>(l, p.from(g), source, from, width, acc);
    }
}

#[inline(always)]
fn columns<L: Lanes, S: Source, const G: usize, const C: usize>(
    l: L,
    p: Factors<'_>,
    source: S,
    from: usize,
    width: usize,
    acc: &mut [f32],
) {
    let n = p.n;
    let p: [&[f32]; G] = std::array::from_fn(|g| p.row(g));
    let mut sums = [[l.splat(0.0); C]; G];
    for (sums, acc) in sums.iter_mut().zip(acc.chunks_exact(width)) {
        for (sum, acc) in sums.iter_mut().zip(acc[from..].as_chunks().0) {
            *sum = l.load(acc);
        }
    }
    for i in 0..n {
        let row = source.row(i, from, C * LANES);
        let mut v = [l.splat(0.0); C];
        for c in 0..C {
            v[c] = S::load(row, l, c);
        }
        for g in 0..G {
            let p = l.splat(p[g][i]);
            for c in 0..C {
                sums[g][c] = l.mul_add(p, v[c], sums[g][c]);
            }
        }
    }
    for (sums, acc) in sums.iter().zip(acc.chunks_exact_mut(width)) {
        for (sum, acc) in sums.iter().zip(acc[from..].as_chunks_mut().0) {
            l.store(*sum, acc);
        }
    }
}

/// The columns that do not fill the lanes.
#[inline(always)]
fn last<L: Lanes, S: Source>(
    l: L,
    p: Factors<'_>,
    source: S,
    from: usize,
    width: usize,
    acc: &mut [f32],
) {
    let len = width - from;
    for (g, acc) in acc.chunks_exact_mut(width).enumerate() {
        let mut buffer = [0.0; LANES];
        buffer[..len].copy_from_slice(&acc[from..]);
        let mut sum = l.load(&buffer);
        for (i, p) in p.row(g).iter().enumerate() {
            sum = l.mul_add(
                l.splat(*p),
                S::load_partial(source.row(i, from, len), l),
                sum,
            );
        }
        l.store(sum, &mut buffer);
        acc[from..].copy_from_slice(&buffer[..len]);
    }
}

/// Rows of factors, of which the first `n` count.
#[derive(Clone, Copy)]
struct Factors<'a> {
    p: &'a [f32],
    stride: usize,
    n: usize,
}

impl<'a> Factors<'a> {
    #[inline(always)]
    fn row(self, g: usize) -> &'a [f32] {
        &self.p[g * self.stride..][..self.n]
    }
    /// Row `g` and what follows.
    #[inline(always)]
    fn from(self, g: usize) -> Self {
        Self {
            p: &self.p[g * self.stride..],
            ..self
        }
    }
}

/// A matrix of which a range of columns is read, row by row.
trait Source: Copy {
    type Row: Copy;
    fn row(self, i: usize, from: usize, width: usize) -> Self::Row;
    /// Lanes `c`.
    fn load<L: Lanes>(row: Self::Row, l: L, c: usize) -> L::V;
    /// Fewer than [`LANES`], filled up with zeros.
    fn load_partial<L: Lanes>(row: Self::Row, l: L) -> L::V;
}

#[derive(Clone, Copy)]
struct Bf16Columns<'a> {
    bytes: &'a [u8],
    stride: usize,
    first: usize,
}

impl<'a> Source for Bf16Columns<'a> {
    type Row = &'a [u8];
    #[inline(always)]
    fn row(self, i: usize, from: usize, width: usize) -> Self::Row {
        &self.bytes[2 * (i * self.stride + self.first + from)..][..2 * width]
    }
    #[inline(always)]
    fn load<L: Lanes>(row: Self::Row, l: L, c: usize) -> L::V {
        l.bf16(&row.as_chunks().0[c])
    }
    #[inline(always)]
    fn load_partial<L: Lanes>(row: Self::Row, l: L) -> L::V {
        let mut buffer = [0; 2 * LANES];
        buffer[..row.len()].copy_from_slice(row);
        l.bf16(&buffer)
    }
}

#[derive(Clone, Copy)]
struct F32Columns<'a> {
    values: &'a [f32],
    stride: usize,
    first: usize,
}

impl<'a> Source for F32Columns<'a> {
    type Row = &'a [f32];
    #[inline(always)]
    fn row(self, i: usize, from: usize, width: usize) -> Self::Row {
        &self.values[i * self.stride + self.first + from..][..width]
    }
    #[inline(always)]
    fn load<L: Lanes>(row: Self::Row, l: L, c: usize) -> L::V {
        l.load(&row.as_chunks().0[c])
    }
    #[inline(always)]
    fn load_partial<L: Lanes>(row: Self::Row, l: L) -> L::V {
        let mut buffer = [0.0; LANES];
        buffer[..row.len()].copy_from_slice(row);
        l.load(&buffer)
    }
}

#[derive(Clone, Copy)]
struct I8Columns<'a> {
    bytes: &'a [u8],
    stride: usize,
    first: usize,
}

impl<'a> Source for I8Columns<'a> {
    type Row = &'a [u8];
    #[inline(always)]
    fn row(self, i: usize, from: usize, width: usize) -> Self::Row {
        &self.bytes[i * self.stride + self.first + from..][..width]
    }
    #[inline(always)]
    fn load<L: Lanes>(row: Self::Row, l: L, c: usize) -> L::V {
        l.i8(&row.as_chunks().0[c])
    }
    #[inline(always)]
    fn load_partial<L: Lanes>(row: Self::Row, l: L) -> L::V {
        let mut buffer = [0; LANES];
        buffer[..row.len()].copy_from_slice(row);
        l.i8(&buffer)
    }
}
