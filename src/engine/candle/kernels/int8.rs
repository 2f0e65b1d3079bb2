//! Products of packed weights with integer activations, written once for all instruction sets, see [`super::dots`].
//!
//! Dots of a row with few tokens go along the row, four blocks at a time. With many tokens, sixteen rows are decoded
//! into a strip, a row to a lane, which every token then passes: no sum over lanes is left, and a weight is decoded
//! once. Sums within a block are exact integers; over the blocks both ways add in f32, in different orders.
#![allow(
    clippy::needless_range_loop,
    reason = "the indices address several arrays"
)]

use super::Rows;
use std::ops::Range;

use super::lanes::{Ahead, BLOCK, LANES, Lanes};
use super::rounded::{Q8Block, Q8Part, Q8Quad, Quad};
use super::words::{V, Words};

/// Tokens from which on a strip is worth its decoding.
pub const STRIP_TOKENS: usize = 4;

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Sixteen rows of one block: words of four columns, even ones first; and the scale of each row.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct StripBlock {
    words: [[i32; LANES]; 8],
    scale: [f32; LANES],
}

/// Room for a strip.
pub type Strip = Vec<StripBlock>;

/// `out[t, r] = rows[r] . x[t]`; `R` rows at a time along the rows, `T` tokens at a time through a strip.
#[inline(always)]
pub fn dots<X: Words, const R: usize, const T: usize, const P: usize>(
    w: X,
    rows: Rows<'_>,
    x: &[&[Quad<P>]],
    strip: &mut Strip,
    out: &mut [f32],
) {
    let count = out.len() / x.len();
    match rows {
        Rows::Mxfp4 { blocks, scales } => {
            let row = scales.len() / count;
            let matrix = Mxfp4 {
                blocks: blocks.as_chunks().0,
                scales,
                row,
            };
            all::<_, _, R, T, P>(w, matrix, count, x, strip, out);
        }
        Rows::Q8(blocks) => {
            let matrix = Q8 {
                blocks,
                row: blocks.len() / count,
            };
            all::<_, _, R, T, P>(w, matrix, count, x, strip, out);
        }
        Rows::Bf16(_) | Rows::F32(_) => unreachable!("the caller has packed rows"),
    }
}

#[inline(always)]
fn all<X: Words, M: Packed, const R: usize, const T: usize, const P: usize>(
    w: X,
    matrix: M,
    count: usize,
    x: &[&[Quad<P>]],
    strip: &mut Strip,
    out: &mut [f32],
) {
    let mut r = 0;
    if x.len() >= STRIP_TOKENS {
        while r + LANES <= count {
            matrix.strip(w, r, strip);
            let steps = strip.len() * x.len().div_ceil(T);
            let next = r + LANES..(r + 2 * LANES).min(count);
            let mut ahead = Ahead::new(matrix.bytes(next), steps);
            through::<_, M, T, P>(w, strip, x, r, count, &mut ahead, out);
            r += LANES;
        }
    }
    while r + R <= count {
        along_all::<_, _, R, P>(w, matrix, r, x, count, out);
        r += R;
    }
    while r < count {
        along_all::<_, _, 1, P>(w, matrix, r, x, count, out);
        r += 1;
    }
}

#[inline(always)]
fn along_all<X: Words, M: Packed, const R: usize, const P: usize>(
    w: X,
    matrix: M,
    r: usize,
    x: &[&[Quad<P>]],
    count: usize,
    out: &mut [f32],
) {
    let (pairs, single) = x.as_chunks::<2>();
    for (t, x) in pairs.iter().enumerate() {
        along::<_, _, R, 2, P>(w, matrix, r, *x, count, &mut out[2 * t * count..]);
    }
    let last = x.len() - 1;
    for x in single {
        along::<_, _, R, 1, P>(w, matrix, r, [*x], count, &mut out[last * count..]);
    }
}

/// `R` rows with `T` tokens, along the rows.
#[inline(always)]
fn along<X: Words, M: Packed, const R: usize, const T: usize, const P: usize>(
    w: X,
    matrix: M,
    r: usize,
    x: [&[Quad<P>]; T],
    count: usize,
    out: &mut [f32],
) {
    let l = w.lanes();
    let whole = matrix.whole_quads();
    let mut acc = [[l.splat(0.0); R]; T];
    {
        // Equal lengths that the compiler can see take the bound checks out of the loop.
        let mut rows = [matrix.row(r, whole); R];
        for i in 1..R {
            rows[i] = matrix.row(r + i, whole);
        }
        let x = x.map(|x| &x[..whole]);
        let next = matrix.at(r + R);
        for q in 0..whole {
            for i in 0..R {
                matrix.prefetch::<_, R>(l, next, q, i);
                let (weights, scales) = M::quad(w, rows[i], q);
                for t in 0..T {
                    acc[t][i] = step::<_, M, P>(w, weights, scales, &x[t][q], acc[t][i]);
                }
            }
        }
    }
    if let Some(x) = x[0].get(whole).map(|_| x.map(|x| &x[whole])) {
        let next = matrix.at(r + R);
        for i in 0..R {
            if i % 2 == 0 {
                matrix.prefetch::<_, R>(l, next, whole, i / 2);
            }
            let (weights, scales) = matrix.tail(w, r + i);
            for t in 0..T {
                acc[t][i] = step::<_, M, P>(w, weights, scales, x[t], acc[t][i]);
            }
        }
    }
    for t in 0..T {
        let (fours, rest) = acc[t].as_chunks::<4>();
        let mut at = t * count + r;
        for four in fours {
            out[at..at + 4].copy_from_slice(&l.sum4(*four));
            at += 4;
        }
        for one in rest {
            out[at] = l.sum(*one);
            at += 1;
        }
    }
}

#[inline(always)]
fn step<X: Words, M: Packed, const P: usize>(
    w: X,
    [evens, odds]: [X::W; 2],
    scales: V<X>,
    x: &Quad<P>,
    acc: V<X>,
) -> V<X> {
    let l = w.lanes();
    let mut sum = w.load_words(&x.offset);
    if P == 2 {
        let high = &x.planes[0];
        let sums = M::dot(w, w.splat_word(0), evens, w.load_words(&high[0]));
        let sums = M::dot(w, sums, odds, w.load_words(&high[1]));
        sum = w.add(sum, w.times_128(sums));
    }
    let low = &x.planes[P - 1];
    sum = M::dot(w, sum, evens, w.load_words(&low[0]));
    sum = M::dot(w, sum, odds, w.load_words(&low[1]));
    l.mul_add(w.to_f32(sum), w.mul(scales, l.load(&x.scale)), acc)
}

/// All tokens through a strip.
#[inline(always)]
fn through<X: Words, M: Packed, const T: usize, const P: usize>(
    w: X,
    strip: &Strip,
    x: &[&[Quad<P>]],
    r: usize,
    count: usize,
    ahead: &mut Ahead<'_>,
    out: &mut [f32],
) {
    let (wide, rest) = x.as_chunks::<T>();
    let (fours, rest) = rest.as_chunks::<4>();
    let mut out = out.chunks_exact_mut(count);
    for x in wide {
        put(w, r, tile::<_, M, T, P>(w, strip, *x, ahead), &mut out);
    }
    for x in fours {
        put(w, r, tile::<_, M, 4, P>(w, strip, *x, ahead), &mut out);
    }
    match *rest {
        [a, b, c] => put(
            w,
            r,
            tile::<_, M, 3, P>(w, strip, [a, b, c], ahead),
            &mut out,
        ),
        [a, b] => put(w, r, tile::<_, M, 2, P>(w, strip, [a, b], ahead), &mut out),
        [a] => put(w, r, tile::<_, M, 1, P>(w, strip, [a], ahead), &mut out),
        _ => {}
    }
}

#[inline(always)]
fn put<X: Words, const T: usize>(
    w: X,
    r: usize,
    tile: [V<X>; T],
    out: &mut std::slice::ChunksExactMut<'_, f32>,
) {
    for sums in tile {
        let Some(out) = out.next() else { return };
        if let Some(out) = out[r..].first_chunk_mut() {
            w.lanes().store(sums, out);
        }
    }
}

#[inline(always)]
fn tile<X: Words, M: Packed, const T: usize, const P: usize>(
    w: X,
    strip: &Strip,
    x: [&[Quad<P>]; T],
    ahead: &mut Ahead<'_>,
) -> [V<X>; T] {
    let l = w.lanes();
    let quads = strip.len().div_ceil(4);
    let x = x.map(|x| &x[..quads]);
    let mut acc = [l.splat(0.0); T];
    for (q, blocks) in strip.chunks(4).enumerate() {
        for (b, block) in blocks.iter().enumerate() {
            ahead.step(l);
            let mut words = [w.splat_word(0); 8];
            for i in 0..8 {
                words[i] = w.load_words(&block.words[i]);
            }
            let scale = l.load(&block.scale);
            for t in 0..T {
                let x = &x[t][q];
                let mut sum = w.splat_word(x.offset[4 * b]);
                if P == 2 {
                    let high = plane::<_, M>(w, &words, &x.planes[0], b, w.splat_word(0));
                    sum = w.add(sum, w.times_128(high));
                }
                sum = plane::<_, M>(w, &words, &x.planes[P - 1], b, sum);
                let scale = w.mul(scale, l.splat(x.scale[4 * b]));
                acc[t] = l.mul_add(w.to_f32(sum), scale, acc[t]);
            }
        }
    }
    acc
}

#[inline(always)]
fn plane<X: Words, M: Packed>(
    w: X,
    words: &[X::W; 8],
    x: &[[i32; LANES]; 2],
    b: usize,
    mut sum: X::W,
) -> X::W {
    for half in 0..2 {
        for i in 0..4 {
            sum = M::dot(
                w,
                sum,
                words[4 * half + i],
                w.splat_word(x[half][4 * b + i]),
            );
        }
    }
    sum
}

/// A matrix of packed rows.
trait Packed: Copy {
    type Row: Copy;
    type At: Copy;
    fn whole_quads(self) -> usize;
    /// The first `whole` quads of row `r`.
    fn row(self, r: usize, whole: usize) -> Self::Row;
    /// Where row `r` begins, which may be past the last one.
    fn at(self, r: usize) -> Self::At;
    /// Asks for the next `R` rows, which begin at `at`: once for each of their quads, in the order of their lines.
    fn prefetch<L: Lanes, const R: usize>(self, l: L, at: Self::At, q: usize, i: usize);
    /// The even and the odd columns of four blocks, and their scales, each in the lanes of its block.
    fn quad<X: Words>(w: X, row: Self::Row, q: usize) -> ([X::W; 2], V<X>);
    /// The quad of row `r` that is not whole, filled up with zeros.
    fn tail<X: Words>(self, w: X, r: usize) -> ([X::W; 2], V<X>);
    fn dot<X: Words>(w: X, acc: X::W, weights: X::W, x: X::W) -> X::W;
    /// Where the rows are.
    fn bytes(&self, rows: Range<usize>) -> &[u8];
    /// Decodes rows `r .. r + 16`.
    fn strip<X: Words>(self, w: X, r: usize, strip: &mut Strip);
}

#[derive(Clone, Copy)]
struct Mxfp4<'a> {
    blocks: &'a [[u8; BLOCK / 2]],
    scales: &'a [u8],
    /// Blocks of a row.
    row: usize,
}

/// 64 bytes of nibbles, and the scales of their blocks.
type Mxfp4Row<'a> = (&'a [[u8; 2 * BLOCK]], &'a [[u8; 4]]);

impl<'a> Mxfp4<'a> {
    #[inline(always)]
    fn blocks(self, r: usize) -> (&'a [[u8; BLOCK / 2]], &'a [u8]) {
        let at = r * self.row;
        (
            &self.blocks[at..][..self.row],
            &self.scales[at..][..self.row],
        )
    }
}

impl<'a> Packed for Mxfp4<'a> {
    type Row = Mxfp4Row<'a>;
    type At = (*const u8, *const u8);
    #[inline(always)]
    fn whole_quads(self) -> usize {
        self.row / 4
    }
    #[inline(always)]
    fn row(self, r: usize, whole: usize) -> Self::Row {
        let (blocks, scales) = self.blocks(r);
        let quads = blocks.as_flattened().as_chunks().0;
        (&quads[..whole], &scales.as_chunks().0[..whole])
    }
    #[inline(always)]
    fn at(self, r: usize) -> Self::At {
        let at = r * self.row;
        (
            self.blocks.as_ptr().wrapping_add(at).cast(),
            self.scales.as_ptr().wrapping_add(at),
        )
    }
    #[inline(always)]
    fn prefetch<L: Lanes, const R: usize>(
        self,
        l: L,
        (blocks, scales): Self::At,
        q: usize,
        i: usize,
    ) {
        l.prefetch(blocks.wrapping_add(LINE * (q * R + i)));
        // A quad has four bytes of scales.
        if i == 0 && (q * R).is_multiple_of(LINE / 4) {
            l.prefetch(scales.wrapping_add(4 * q * R));
        }
    }
    #[inline(always)]
    fn quad<X: Words>(w: X, (quads, scales): Self::Row, q: usize) -> ([X::W; 2], V<X>) {
        let packed = w.load_bytes(&quads[q]);
        ([w.low(packed), w.high(packed)], w.e8m0(scales[q]))
    }
    #[inline(always)]
    fn tail<X: Words>(self, w: X, r: usize) -> ([X::W; 2], V<X>) {
        let (blocks, scales) = self.blocks(r);
        let (blocks, scales) = (blocks.as_chunks::<4>().1, scales.as_chunks::<4>().1);
        let scale = |i: usize| scales.get(i).copied().unwrap_or(0);
        let packed = w.load_blocks(blocks);
        (
            [w.low(packed), w.high(packed)],
            w.e8m0([scale(0), scale(1), scale(2), scale(3)]),
        )
    }
    #[inline(always)]
    fn dot<X: Words>(w: X, acc: X::W, weights: X::W, x: X::W) -> X::W {
        w.dot_mxfp4(acc, weights, x)
    }
    #[inline(always)]
    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        self.blocks[rows.start * self.row..rows.end * self.row].as_flattened()
    }
    #[inline(always)]
    fn strip<X: Words>(self, w: X, r: usize, strip: &mut Strip) {
        let blocks = &self.blocks[r * self.row..][..LANES * self.row];
        let scales = &self.scales[r * self.row..][..LANES * self.row];
        strip.resize(self.row, EMPTY);
        for (c, strip) in strip.chunks_mut(LANES).enumerate() {
            // The scales of up to sixteen blocks of sixteen rows.
            let mut bytes = [[0; LANES]; LANES];
            for i in 0..LANES {
                let scales = &scales[i * self.row + LANES * c..][..strip.len()];
                bytes[i][..scales.len()].copy_from_slice(scales);
            }
            let bytes = w.transpose(bytes.each_ref());
            for (j, block) in strip.iter_mut().enumerate() {
                let mut rows = [&blocks[0]; LANES];
                for i in 0..LANES {
                    rows[i] = &blocks[i * self.row + LANES * c + j];
                }
                let packed = w.transpose(rows);
                for i in 0..4 {
                    w.store_words(w.low(packed[i]), &mut block.words[i]);
                    w.store_words(w.high(packed[i]), &mut block.words[4 + i]);
                }
                w.lanes()
                    .store(w.e8m0_byte(bytes[j / 4], j % 4), &mut block.scale);
            }
        }
    }
}

const EMPTY: StripBlock = StripBlock {
    words: [[0; LANES]; 8],
    scale: [0.0; LANES],
};

#[derive(Clone, Copy)]
struct Q8<'a> {
    blocks: &'a [Q8Block],
    /// Blocks of a row.
    row: usize,
}

impl<'a> Packed for Q8<'a> {
    type Row = &'a [Q8Quad];
    type At = *const u8;
    #[inline(always)]
    fn whole_quads(self) -> usize {
        self.row / 4
    }
    #[inline(always)]
    fn row(self, r: usize, whole: usize) -> Self::Row {
        let blocks = &self.blocks[r * self.row..][..4 * whole];
        &bytemuck::cast_slice(blocks.as_flattened())[..whole]
    }
    #[inline(always)]
    fn at(self, r: usize) -> Self::At {
        self.blocks.as_ptr().wrapping_add(r * self.row).cast()
    }
    #[inline(always)]
    fn prefetch<L: Lanes, const R: usize>(self, l: L, at: Self::At, q: usize, i: usize) {
        // The lines that end in this quad, of those that lie in the quads of one step.
        const QUAD: usize = size_of::<Q8Quad>();
        let step = at.wrapping_add(q * R * QUAD);
        for line in i * QUAD / LINE..(i + 1) * QUAD / LINE {
            l.prefetch(step.wrapping_add(LINE * line));
        }
    }
    #[inline(always)]
    fn quad<X: Words>(w: X, row: Self::Row, q: usize) -> ([X::W; 2], V<X>) {
        let quad = &row[q];
        let (evens, odds) = (w.load_bytes(&quad.evens), w.load_bytes(&quad.odds));
        ([w.q8(evens), w.q8(odds)], w.bf16_by_block(quad.scales))
    }
    #[inline(always)]
    fn tail<X: Words>(self, w: X, r: usize) -> ([X::W; 2], V<X>) {
        let row = &self.blocks[r * self.row..][..self.row];
        let quad = Q8Part::of(row, self.row / 4);
        let mut scales = [[0; 2]; 4];
        for (i, scale) in quad.scales.iter().enumerate() {
            scales[i] = *scale;
        }
        let (evens, odds) = (w.load_blocks(quad.evens), w.load_blocks(quad.odds));
        let scales = *scales.as_flattened().first_chunk().unwrap_or(&[0; 8]);
        ([w.q8(evens), w.q8(odds)], w.bf16_by_block(scales))
    }
    #[inline(always)]
    fn dot<X: Words>(w: X, acc: X::W, weights: X::W, x: X::W) -> X::W {
        w.dot_q8(acc, weights, x)
    }
    #[inline(always)]
    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        self.blocks[rows.start * self.row..rows.end * self.row].as_flattened()
    }
    #[inline(always)]
    fn strip<X: Words>(self, w: X, r: usize, strip: &mut Strip) {
        let blocks = &self.blocks[r * self.row..][..LANES * self.row];
        strip.resize(self.row, EMPTY);
        for (q, strip) in strip.chunks_mut(4).enumerate() {
            let quads: [Q8Part<'_>; LANES] =
                std::array::from_fn(|i| Q8Part::of(&blocks[i * self.row..][..self.row], q));
            for (b, block) in strip.iter_mut().enumerate() {
                for half in 0..2 {
                    let mut rows = [&[0; LANES]; LANES];
                    for i in 0..LANES {
                        let bytes = if half == 0 {
                            quads[i].evens
                        } else {
                            quads[i].odds
                        };
                        rows[i] = &bytes[b];
                    }
                    let words = w.transpose(rows);
                    for i in 0..4 {
                        w.store_words(w.q8(words[i]), &mut block.words[4 * half + i]);
                    }
                }
                for i in 0..LANES {
                    block.scale[i] = quads[i].scale(b);
                }
            }
        }
    }
}
