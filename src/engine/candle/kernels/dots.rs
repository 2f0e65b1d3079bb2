//! Dot products of stored rows with activations, written once for all instruction sets. Everything here is
//! `inline(always)`, so that it is compiled inside the function that enables the instructions of `L`.
#![allow(
    clippy::needless_range_loop,
    reason = "the indices address several arrays"
)]

use super::lanes::{BLOCK, LANES, Lanes};
use super::rounded::{Q8Block, Q8Part};
use super::{Block, Rows};

/// `out[t, r] = rows[r] . x[t]` in tiles of `R` rows by `T` tokens.
#[inline(always)]
pub fn dots<L: Lanes, const R: usize, const T: usize>(
    l: L,
    rows: Rows<'_>,
    x: &[&[Block]],
    out: &mut [f32],
) {
    let Some(first) = x.first() else { return };
    let count = out.len() / x.len();
    match rows {
        Rows::Bf16(bytes) => {
            let matrix = Bf16Rows {
                bytes,
                row: bytes.len() / count.max(1),
            };
            tiles::<_, _, R, T>(l, matrix, count, x, out);
        }
        Rows::F32(values) => {
            let matrix = F32Rows {
                values,
                row: values.len() / count.max(1),
            };
            tiles::<_, _, R, T>(l, matrix, count, x, out);
        }
        Rows::Mxfp4 { blocks, scales } => {
            let matrix = Mxfp4Rows {
                blocks: blocks.as_chunks().0,
                scales,
                row: first.len(),
            };
            tiles::<_, _, R, T>(l, matrix, count, x, out);
        }
        Rows::Q8(blocks) => {
            let matrix = Q8Rows {
                blocks,
                row: first.len(),
            };
            tiles::<_, _, R, T>(l, matrix, count, x, out);
        }
    }
}

#[inline(always)]
fn tiles<L: Lanes, M: Matrix, const R: usize, const T: usize>(
    l: L,
    matrix: M,
    count: usize,
    x: &[&[Block]],
    out: &mut [f32],
) {
    let mut r = 0;
    while r + R <= count {
        strip::<_, _, R, T>(l, matrix, r, count, x, out);
        r += R;
    }
    while r < count {
        strip::<_, _, 1, T>(l, matrix, r, count, x, out);
        r += 1;
    }
}

/// `R` rows with all tokens: the rows stay in the nearest cache.
#[inline(always)]
fn strip<L: Lanes, M: Matrix, const R: usize, const T: usize>(
    l: L,
    matrix: M,
    r: usize,
    count: usize,
    x: &[&[Block]],
    out: &mut [f32],
) {
    let rows: [M::Row; R] = std::array::from_fn(|i| matrix.row(r + i));
    let (wide, rest) = x.as_chunks::<T>();
    let (pairs, single) = rest.as_chunks::<2>();
    let mut out = out.chunks_exact_mut(count.max(1));
    for x in wide {
        put(l, r, tile(l, rows, *x), &mut out);
    }
    for x in pairs {
        put(l, r, tile(l, rows, *x), &mut out);
    }
    for x in single {
        put(l, r, tile(l, rows, [*x]), &mut out);
    }
}

#[inline(always)]
fn put<L: Lanes, const R: usize, const T: usize>(
    l: L,
    r: usize,
    tile: [[L::V; R]; T],
    out: &mut std::slice::ChunksExactMut<'_, f32>,
) {
    for acc in tile {
        let Some(out) = out.next() else { return };
        let out = &mut out[r..r + R];
        let (fours, rest) = acc.as_chunks::<4>();
        let (out_fours, out_rest) = out.as_chunks_mut::<4>();
        for (out, acc) in out_fours.iter_mut().zip(fours) {
            *out = l.sum4(*acc);
        }
        for (out, acc) in out_rest.iter_mut().zip(rest) {
            *out = l.sum(*acc);
        }
    }
}

/// The accumulators of `R` rows by `T` tokens. Each steps through the columns in order, whatever `R` and `T` are.
#[inline(always)]
fn tile<L: Lanes, W: Row, const R: usize, const T: usize>(
    l: L,
    rows: [W; R],
    x: [&[Block]; T],
) -> [[L::V; R]; T] {
    let blocks = rows[0].blocks();
    let mut acc = [[l.splat(0.0); R]; T];
    {
        // Equal lengths that the compiler can see take the bound checks out of the loop.
        let (mut rows, mut x) = (rows, x);
        for row in &mut rows {
            *row = row.cut(blocks);
        }
        for x in &mut x {
            *x = &x[..blocks];
        }
        for i in 0..blocks {
            for r in 0..R {
                if T == 1 && R > 1 {
                    rows[r].prefetch(l, i, R);
                }
                let w = rows[r].block(l, i);
                for t in 0..T {
                    acc[t][r] = step(l, w, &x[t][i], acc[t][r]);
                }
            }
        }
    }
    for r in 0..R {
        if let Some(w) = rows[r].tail(l) {
            for t in 0..T {
                acc[t][r] = step(l, w, &x[t][blocks], acc[t][r]);
            }
        }
    }
    acc
}

#[inline(always)]
fn step<L: Lanes>(l: L, [evens, odds]: [L::V; 2], x: &Block, acc: L::V) -> L::V {
    let acc = l.mul_add(evens, l.load(&x[0]), acc);
    l.mul_add(odds, l.load(&x[1]), acc)
}

/// A matrix as stored.
trait Matrix: Copy {
    type Row: Row;
    fn row(self, r: usize) -> Self::Row;
}

/// A row as stored, read in blocks of [`BLOCK`] columns.
trait Row: Copy {
    /// Whole blocks.
    fn blocks(self) -> usize;
    /// The first `blocks` blocks.
    fn cut(self, blocks: usize) -> Self;
    /// Asks for what lies `rows` rows after block `i`.
    #[inline(always)]
    fn prefetch<L: Lanes>(self, _: L, _: usize, _: usize) {}
    /// The even and the odd elements of block `i`.
    fn block<L: Lanes>(self, l: L, i: usize) -> [L::V; 2];
    /// The columns after the last whole block, filled up with zeros.
    fn tail<L: Lanes>(self, l: L) -> Option<[L::V; 2]>;
}

#[derive(Clone, Copy)]
struct Bf16Rows<'a> {
    bytes: &'a [u8],
    row: usize,
}

#[derive(Clone, Copy)]
struct Bf16Row<'a> {
    blocks: &'a [[u8; 2 * BLOCK]],
    tail: &'a [u8],
}

impl<'a> Matrix for Bf16Rows<'a> {
    type Row = Bf16Row<'a>;
    #[inline(always)]
    fn row(self, r: usize) -> Self::Row {
        let (blocks, tail) = self.bytes[r * self.row..][..self.row].as_chunks();
        Bf16Row { blocks, tail }
    }
}

impl Row for Bf16Row<'_> {
    #[inline(always)]
    fn blocks(self) -> usize {
        self.blocks.len()
    }
    #[inline(always)]
    fn cut(self, blocks: usize) -> Self {
        Self {
            blocks: &self.blocks[..blocks],
            ..self
        }
    }
    #[inline(always)]
    fn prefetch<L: Lanes>(self, l: L, i: usize, rows: usize) {
        let row = size_of_val(self.blocks) + self.tail.len();
        l.prefetch(self.blocks[i].as_ptr().wrapping_add(rows * row));
    }
    #[inline(always)]
    fn block<L: Lanes>(self, l: L, i: usize) -> [L::V; 2] {
        l.split_bf16(&self.blocks[i])
    }
    #[inline(always)]
    fn tail<L: Lanes>(self, l: L) -> Option<[L::V; 2]> {
        if self.tail.is_empty() {
            return None;
        }
        let mut block = [0; 2 * BLOCK];
        block[..self.tail.len()].copy_from_slice(self.tail);
        Some(l.split_bf16(&block))
    }
}

#[derive(Clone, Copy)]
struct F32Rows<'a> {
    values: &'a [f32],
    row: usize,
}

#[derive(Clone, Copy)]
struct F32Row<'a> {
    blocks: &'a [[f32; BLOCK]],
    tail: &'a [f32],
}

impl<'a> Matrix for F32Rows<'a> {
    type Row = F32Row<'a>;
    #[inline(always)]
    fn row(self, r: usize) -> Self::Row {
        let (blocks, tail) = self.values[r * self.row..][..self.row].as_chunks();
        F32Row { blocks, tail }
    }
}

impl Row for F32Row<'_> {
    #[inline(always)]
    fn blocks(self) -> usize {
        self.blocks.len()
    }
    #[inline(always)]
    fn cut(self, blocks: usize) -> Self {
        Self {
            blocks: &self.blocks[..blocks],
            ..self
        }
    }
    #[inline(always)]
    fn block<L: Lanes>(self, l: L, i: usize) -> [L::V; 2] {
        l.split_f32(&self.blocks[i])
    }
    #[inline(always)]
    fn tail<L: Lanes>(self, l: L) -> Option<[L::V; 2]> {
        if self.tail.is_empty() {
            return None;
        }
        let mut block = [0.0; BLOCK];
        block[..self.tail.len()].copy_from_slice(self.tail);
        Some(l.split_f32(&block))
    }
}

#[derive(Clone, Copy)]
struct Mxfp4Rows<'a> {
    blocks: &'a [[u8; BLOCK / 2]],
    scales: &'a [u8],
    row: usize,
}

#[derive(Clone, Copy)]
struct Mxfp4Row<'a> {
    blocks: &'a [[u8; BLOCK / 2]],
    scales: &'a [u8],
}

impl<'a> Matrix for Mxfp4Rows<'a> {
    type Row = Mxfp4Row<'a>;
    #[inline(always)]
    fn row(self, r: usize) -> Self::Row {
        Mxfp4Row {
            blocks: &self.blocks[r * self.row..][..self.row],
            scales: &self.scales[r * self.row..][..self.row],
        }
    }
}

impl Row for Mxfp4Row<'_> {
    #[inline(always)]
    fn blocks(self) -> usize {
        self.blocks.len()
    }
    #[inline(always)]
    fn cut(self, blocks: usize) -> Self {
        Self {
            blocks: &self.blocks[..blocks],
            scales: &self.scales[..blocks],
        }
    }
    #[inline(always)]
    fn prefetch<L: Lanes>(self, l: L, i: usize, rows: usize) {
        l.prefetch(
            (&raw const self.blocks[i])
                .wrapping_add(rows * self.blocks.len())
                .cast(),
        );
    }
    #[inline(always)]
    fn block<L: Lanes>(self, l: L, i: usize) -> [L::V; 2] {
        l.split_mxfp4(&self.blocks[i], self.scales[i])
    }
    #[inline(always)]
    fn tail<L: Lanes>(self, _: L) -> Option<[L::V; 2]> {
        None
    }
}

#[derive(Clone, Copy)]
struct Q8Rows<'a> {
    blocks: &'a [Q8Block],
    /// Blocks of a row; the last one may be filled up.
    row: usize,
}

#[derive(Clone, Copy)]
struct Q8Row<'a> {
    row: &'a [Q8Block],
    /// Of these so many are used.
    blocks: usize,
}

impl<'a> Matrix for Q8Rows<'a> {
    type Row = Q8Row<'a>;
    #[inline(always)]
    fn row(self, r: usize) -> Self::Row {
        Q8Row {
            row: &self.blocks[r * self.row..][..self.row],
            blocks: self.row,
        }
    }
}

impl Row for Q8Row<'_> {
    #[inline(always)]
    fn blocks(self) -> usize {
        self.blocks
    }
    #[inline(always)]
    fn cut(self, blocks: usize) -> Self {
        Self { blocks, ..self }
    }
    #[inline(always)]
    fn block<L: Lanes>(self, l: L, i: usize) -> [L::V; 2] {
        let (quad, b) = (Q8Part::of(self.row, i / 4), i % 4);
        let scale = quad.scale(b);
        [
            l.scaled_i8(&quad.evens[b], scale),
            l.scaled_i8(&quad.odds[b], scale),
        ]
    }
    #[inline(always)]
    fn tail<L: Lanes>(self, _: L) -> Option<[L::V; 2]> {
        None
    }
}

/// Rows to f32, each in its own order.
#[inline(always)]
pub fn unpack<L: Lanes>(l: L, rows: Rows<'_>, cols: usize, out: &mut [f32]) {
    for (r, out) in out.chunks_exact_mut(cols).enumerate() {
        match rows {
            Rows::Bf16(bytes) => unpack_row(
                l,
                Bf16Rows {
                    bytes,
                    row: 2 * cols,
                }
                .row(r),
                out,
            ),
            Rows::F32(values) => unpack_row(l, F32Rows { values, row: cols }.row(r), out),
            Rows::Mxfp4 { blocks, scales } => {
                let matrix = Mxfp4Rows {
                    blocks: blocks.as_chunks().0,
                    scales,
                    row: cols / BLOCK,
                };
                unpack_row(l, matrix.row(r), out);
            }
            Rows::Q8(blocks) => {
                let matrix = Q8Rows {
                    blocks,
                    row: cols.div_ceil(BLOCK),
                };
                unpack_row(l, matrix.row(r), out);
            }
        }
    }
}

#[inline(always)]
fn unpack_row<L: Lanes, W: Row>(l: L, row: W, out: &mut [f32]) {
    for (i, out) in out.chunks_mut(BLOCK).enumerate() {
        let block = if i < row.blocks() {
            Some(row.block(l, i))
        } else {
            row.tail(l)
        };
        let Some([evens, odds]) = block else { return };
        let mut split = [[0.0; LANES]; 2];
        l.store(evens, &mut split[0]);
        l.store(odds, &mut split[1]);
        for (j, out) in out.iter_mut().enumerate() {
            *out = split[j % 2][j / 2];
        }
    }
}
