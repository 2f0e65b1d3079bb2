//! No intrinsics: loops of sixteen that the compiler turns into whatever vectors the target has.
#![allow(
    clippy::unused_self,
    reason = "as in the other sets, where `self` proves the instructions"
)]

use super::lanes::{BLOCK, E8M0, LANES, Lanes};
use super::{Block, Columns, Keys, Rows, activation, dots, keys, sums};

#[derive(Clone, Copy)]
pub struct Portable;

/// Whether a fused multiply-add is one instruction; elsewhere it would be a call into libm.
const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

impl Portable {
    pub fn dots(self, rows: Rows<'_>, x: &[&[Block]], out: &mut [f32]) {
        dots::dots::<_, 1, 2>(self, rows, x, out);
    }
    pub fn accumulate(
        self,
        p: &[f32],
        stride: usize,
        n: usize,
        columns: Columns<'_>,
        acc: &mut [f32],
    ) {
        sums::accumulate::<_, 1, 2>(self, p, stride, n, columns, acc);
    }
    pub fn scores(self, q: &[f32], width: usize, keys: Keys<'_>, out: &mut [f32], stride: usize) {
        keys::scores::<_, 2>(self, q, width, keys, out, stride);
    }
    pub fn unpack(self, rows: Rows<'_>, cols: usize, out: &mut [f32]) {
        dots::unpack(self, rows, cols, out);
    }
    pub fn swiglu(self, gate_up: &[f32], bias: &[f32], limit: f32, out: &mut [f32]) {
        activation::swiglu::<FMA>(gate_up, bias, limit, out);
    }
    pub fn add(self, x: &[f32], bias: &[f32], out: &mut [f32]) {
        activation::add(x, bias, out);
    }
    pub fn exponentials(self, logits: &mut [f32], largest: f32) -> f32 {
        activation::exponentials::<FMA>(logits, largest)
    }
    pub fn largest(self, logits: &[f32], start: f32) -> f32 {
        activation::largest(logits, start)
    }
}

/// E2M1 to BF16, which holds it exactly, by arithmetic, because a table look-up does not vectorise; in 16 bits,
/// because twice as many of them fit a vector. From 1.0 up, exponent and mantissa need only a new bias.
#[inline(always)]
fn e2m1(nibble: u16) -> u16 {
    const HALF: u16 = 0x3f00;
    let magnitude = nibble & 7;
    let value = if magnitude < 2 {
        magnitude * HALF
    } else {
        (magnitude << 6) + HALF
    };
    value | (nibble & 8) << 12
}

#[inline(always)]
fn widen(bf16: &[u16; LANES], scale: f32) -> [f32; LANES] {
    let mut wide = [0.0; LANES];
    for i in 0..LANES {
        wide[i] = f32::from_bits(u32::from(bf16[i]) << 16) * scale;
    }
    wide
}

/// A call on purpose: lanes that must stand in memory side by side are what makes the compiler keep them in vectors
/// up to here.
#[inline(never)]
fn tree(v: &[f32; LANES]) -> f32 {
    let mut v = *v;
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            v[i] += v[i + width];
        }
    }
    v[0]
}

impl Lanes for Portable {
    type V = [f32; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        *x
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        *to = v;
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, mut c: Self::V) -> Self::V {
        for i in 0..LANES {
            c[i] = if FMA {
                a[i].mul_add(b[i], c[i])
            } else {
                a[i] * b[i] + c[i]
            };
        }
        c
    }
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        tree(&v)
    }
    #[inline(always)]
    fn prefetch(self, _: *const u8) {}
    #[inline(always)]
    fn bf16(self, values: &[u8; 2 * LANES]) -> Self::V {
        let mut v = [0.0; LANES];
        for (v, b) in v.iter_mut().zip(values.as_chunks::<2>().0) {
            *v = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
        }
        v
    }
    #[inline(always)]
    fn split_bf16(self, block: &[u8; 2 * BLOCK]) -> [Self::V; 2] {
        let (mut evens, mut odds) = ([0.0; LANES], [0.0; LANES]);
        let pairs = block.as_chunks::<4>().0;
        for i in 0..LANES {
            let pair = u32::from_le_bytes(pairs[i]);
            evens[i] = f32::from_bits(pair << 16);
            odds[i] = f32::from_bits(pair & 0xffff_0000);
        }
        [evens, odds]
    }
    #[inline(always)]
    fn split_f32(self, block: &[f32; BLOCK]) -> [Self::V; 2] {
        let (mut evens, mut odds) = ([0.0; LANES], [0.0; LANES]);
        for i in 0..LANES {
            evens[i] = block[2 * i];
            odds[i] = block[2 * i + 1];
        }
        [evens, odds]
    }
    #[inline(always)]
    fn split_mxfp4(self, block: &[u8; BLOCK / 2], scale: u8) -> [Self::V; 2] {
        let scale = E8M0[usize::from(scale)];
        let (mut evens, mut odds) = ([0; LANES], [0; LANES]);
        for i in 0..LANES {
            let byte = u16::from(block[i]);
            evens[i] = e2m1(byte & 15);
            odds[i] = e2m1(byte >> 4);
        }
        [widen(&evens, scale), widen(&odds, scale)]
    }
    #[inline(always)]
    fn i8(self, bytes: &[u8; LANES]) -> Self::V {
        bytes.map(|byte| f32::from(byte as i8))
    }
    #[inline(always)]
    fn split_i8(self, bytes: &[u8; 4 * LANES]) -> [Self::V; 4] {
        let words = bytes.as_chunks::<4>().0;
        std::array::from_fn(|n| std::array::from_fn(|i| f32::from(words[i][n] as i8)))
    }
    #[inline(always)]
    fn scaled_i8(self, bytes: &[u8; LANES], scale: f32) -> Self::V {
        bytes.map(|byte| f32::from(byte as i8) * scale)
    }
}
