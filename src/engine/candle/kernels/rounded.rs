//! Activations rounded for products that have instructions for it, and weights rounded to 8 bits.
//!
//! For integer products a block of 32 activations has one scale and is kept as one plane of int8, or as two: `scale * (128 high + low)`,
//! about 15 bits, which lies closer to f32 than BF16 does. Four blocks make a quad, in the order in which the nibbles
//! of four MXFP4 blocks come out of 64 bytes: the even columns of each block, then the odd ones.

use half::bf16;

use super::lanes::{BLOCK, LANES};

/// Columns of a quad.
pub const QUAD: usize = 4 * BLOCK;

/// 128 activations in `P` planes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Quad<const P: usize> {
    /// The most significant plane first; of each the even columns of four blocks, then the odd ones, four to a word.
    pub planes: [[[i32; LANES]; 2]; P],
    /// What a dot with unsigned weights starts from: in the first lane of each block its sum times minus the zero
    /// point of the weights.
    pub offset: [i32; LANES],
    /// The scale of each block times the unit of the weights, four times.
    pub scale: [f32; LANES],
}

impl<const P: usize> Default for Quad<P> {
    fn default() -> Self {
        Self {
            planes: [[[0; LANES]; 2]; P],
            offset: [0; LANES],
            scale: [0.0; LANES],
        }
    }
}

/// Rows of activations in `P` planes, filled up with zeros to whole quads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantized<const P: usize> {
    quads: Vec<Quad<P>>,
    row: usize,
}

impl<const P: usize> Quantized<P> {
    /// Room for `n` rows of `cols` values.
    pub fn zeros(n: usize, cols: usize) -> Self {
        let row = cols.div_ceil(QUAD);
        Self {
            quads: vec![Quad::default(); n * row],
            row,
        }
    }
    /// The quads of row `i`.
    pub fn row(&self, i: usize) -> &[Quad<P>] {
        &self.quads[i * self.row..][..self.row]
    }
    /// The rows one after the other, to be filled.
    pub fn rows_mut(&mut self) -> std::slice::ChunksExactMut<'_, Quad<P>> {
        self.quads.chunks_exact_mut(self.row)
    }
    /// What the planes stand for, `[n, cols]`: what a product over them sees instead of the activations.
    #[cfg(test)]
    pub fn values(&self, cols: usize, grid: Grid) -> Vec<f32> {
        let mut values = Vec::new();
        for quads in self.quads.chunks_exact(self.row) {
            values.extend((0..cols).map(|col| {
                let (quad, block, i) = (col / QUAD, col % QUAD / BLOCK, col % BLOCK);
                let word = 4 * block + i / 2 / 4;
                let quad = &quads[quad];
                let plane = |p: usize| {
                    let bytes = quad.planes[p][i % 2][word].to_le_bytes();
                    f64::from(bytes[i / 2 % 4] as i8)
                };
                let whole = (0..P).fold(0.0, |sum, p| 128.0 * sum + plane(p));
                (whole * f64::from(quad.scale[4 * block] / grid.unit)) as f32
            }));
        }
        values
    }
}

/// What packed weights are made of: integers, as the instructions want them, less `zero`, times `unit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// What was added to make them unsigned.
    pub zero: i32,
    /// What one step is worth, beside the scale of a block.
    pub unit: f32,
}

/// Rounds a row, for weights of `grid`.
#[inline(always)]
pub fn quantize<const P: usize>(x: &[f32], grid: Grid, quads: &mut [Quad<P>]) {
    for (x, quad) in x.chunks(QUAD).zip(quads) {
        for (b, x) in x.chunks(BLOCK).enumerate() {
            let mut block = [0.0; BLOCK];
            block[..x.len()].copy_from_slice(x);
            quantize_block(&block, grid, b, quad);
        }
    }
}

#[inline(always)]
fn quantize_block<const P: usize>(x: &[f32; BLOCK], grid: Grid, b: usize, quad: &mut Quad<P>) {
    let steps = if P == 1 { 127.0 } else { 127.0 * 128.0 };
    let largest = largest(x);
    let scale = largest / steps;
    let inverse = inverse(scale);
    let mut sum = 0;
    for half in 0..2 {
        let mut planes = [[0_i8; LANES]; P];
        for i in 0..LANES {
            let q = to_integer(x[2 * i + half] * inverse);
            sum += q;
            if P == 1 {
                planes[0][i] = q as i8;
            } else {
                let high = (q + 64) >> 7;
                planes[0][i] = high as i8;
                planes[P - 1][i] = (q - (high << 7)) as i8;
            }
        }
        for (plane, bytes) in quad.planes.iter_mut().zip(&planes) {
            for word in 0..4 {
                let bytes = std::array::from_fn(|i| bytes[4 * word + i] as u8);
                plane[half][4 * b + word] = i32::from_le_bytes(bytes);
            }
        }
    }
    quad.offset[4 * b] = -grid.zero * sum;
    quad.scale[4 * b..4 * b + 4].fill(scale * grid.unit);
}

/// What values of `scale` are multiplied with to become steps of it. Subnormals round to zero; a scale that is NaN or
/// infinite says so by itself.
#[inline(always)]
pub fn inverse(scale: f32) -> f32 {
    if scale >= f32::MIN_POSITIVE {
        1.0 / scale
    } else {
        0.0
    }
}

/// The largest magnitude. As integers, because there NaN is larger than all others and does not get lost.
#[inline(always)]
fn largest(x: &[f32; BLOCK]) -> f32 {
    let mut bits = [0; LANES];
    for i in 0..LANES {
        let [a, b] = [x[i], x[LANES + i]].map(|x| x.to_bits() & 0x7fff_ffff);
        bits[i] = a.max(b);
    }
    f32::from_bits(bits.into_iter().fold(0, u32::max))
}

/// To the nearest integer, halves to even; for less than 2^22. An addition that the compiler vectorises.
#[inline(always)]
fn to_integer(x: f32) -> i32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23
    let bits = (x + MAGIC).to_bits();
    (bits as i32).wrapping_sub(MAGIC.to_bits() as i32)
}

/// Rows of activations rounded to BF16, two to a word, filled up with zeros to whole blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    words: Vec<u32>,
    row: usize,
}

impl Pairs {
    /// Room for `n` rows of `cols` values.
    pub fn zeros(n: usize, cols: usize) -> Self {
        let row = cols.next_multiple_of(BLOCK) / 2;
        Self {
            words: vec![0; n * row],
            row,
        }
    }
    /// The words of row `i`.
    pub fn row(&self, i: usize) -> &[u32] {
        &self.words[i * self.row..][..self.row]
    }
    /// The rows one after the other, to be filled.
    pub fn rows_mut(&mut self) -> std::slice::ChunksExactMut<'_, u32> {
        self.words.chunks_exact_mut(self.row)
    }
}

/// Rounds a row to nearest, halves to even.
#[inline(always)]
pub fn round(x: &[f32], words: &mut [u32]) {
    let (pairs, rest) = x.as_chunks::<2>();
    for (word, pair) in words.iter_mut().zip(pairs) {
        *word = bf16_bits(pair[0]) >> 16 | bf16_bits(pair[1]) & 0xffff_0000;
    }
    if let [last] = rest {
        words[pairs.len()] = bf16_bits(*last) >> 16;
    }
}

/// Rounded to BF16 in the upper half; what is in the lower is left over. NaN stays NaN.
#[inline(always)]
fn bf16_bits(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    if x.is_nan() {
        bits | 0x0040_0000
    } else {
        rounded
    }
}

/// What a block of 32 weights takes in 8 bits: a byte each, and a BF16 scale. A row of them is laid out by quads, the
/// last one of the blocks that are left: of `n` blocks `16 n` bytes of even columns, as many of odd ones, and `n` scales.
pub type Q8Block = [u8; BLOCK + 2];

/// Four blocks of [`Q8Block`], in the order of [`Quad`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q8Quad {
    /// The even columns of four blocks.
    pub evens: [u8; 64],
    /// The odd ones.
    pub odds: [u8; 64],
    /// BF16, little-endian.
    pub scales: [u8; 8],
}

/// The bytes of some blocks that lie together as a quad, whole or not.
#[derive(Clone, Copy)]
pub struct Q8Part<'a> {
    /// `[blocks, 16]`
    pub evens: &'a [[u8; LANES]],
    /// `[blocks, 16]`
    pub odds: &'a [[u8; LANES]],
    /// `[blocks]` of little-endian BF16.
    pub scales: &'a [[u8; 2]],
}

impl<'a> Q8Part<'a> {
    /// Quad `q` of a row.
    #[inline(always)]
    pub fn of(row: &'a [Q8Block], q: usize) -> Self {
        let blocks = &row[4 * q..];
        let n = blocks.len().min(4);
        let bytes = blocks[..n].as_flattened();
        let (evens, rest) = bytes.split_at(LANES * n);
        let (odds, scales) = rest.split_at(LANES * n);
        Self {
            evens: evens.as_chunks().0,
            odds: odds.as_chunks().0,
            scales: scales.as_chunks().0,
        }
    }

    /// The scale of block `b`.
    #[inline(always)]
    pub fn scale(self, b: usize) -> f32 {
        bf16::from_le_bytes(self.scales[b]).to_f32()
    }
}

/// Rounds a row of BF16 `weights`, little-endian, to 8 bits; what is missing of the last block is zero. The scale is the
/// largest magnitude of a block over 127, rounded up to BF16, so that no value is clipped.
pub fn q8_from_bf16(weights: &[u8], row: &mut [Q8Block]) {
    for (weights, blocks) in weights.chunks(2 * QUAD).zip(row.chunks_mut(4)) {
        let n = blocks.len();
        let (evens, rest) = blocks.as_flattened_mut().split_at_mut(LANES * n);
        let (odds, scales) = rest.split_at_mut(LANES * n);
        for (b, weights) in weights.chunks(2 * BLOCK).enumerate() {
            let mut w = [0.0_f32; BLOCK];
            for (w, bytes) in w.iter_mut().zip(weights.as_chunks::<2>().0) {
                *w = bf16::from_le_bytes(*bytes).to_f32();
            }
            let largest = largest(&w);
            let scale = round_up(largest / 127.0);
            let inverse = inverse(scale.to_f32());
            scales[2 * b..2 * b + 2].copy_from_slice(&scale.to_le_bytes());
            for i in 0..LANES {
                evens[LANES * b + i] = to_integer(w[2 * i] * inverse) as i8 as u8;
                odds[LANES * b + i] = to_integer(w[2 * i + 1] * inverse) as i8 as u8;
            }
        }
    }
}

/// The BF16 value that is no less.
fn round_up(x: f32) -> bf16 {
    let bits = x.to_bits();
    let up = bits.wrapping_add(if x.is_finite() { 0xffff } else { 0 });
    bf16::from_bits((up >> 16) as u16)
}
