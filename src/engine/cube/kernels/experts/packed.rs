//! Weights of the experts as they lie in words.

use cubecl::prelude::*;

use super::super::words::{bf16_high, bf16_low};

/// Four words or four values: 16 bytes, the most that every runtime loads at once.
pub type Quad<T> = Vector<T, Const<4>>;

/// How a weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// As in the checkpoint: 16 bytes for 32 values and one E8M0 byte as their scale, see `checkpoint::mxfp4`.
    Mxfp4,
    /// Two values to a word, the first in the lower half.
    Bf16,
}

impl Kind {
    /// Values in 16 bytes.
    pub const fn values(self) -> usize {
        match self {
            Self::Mxfp4 => 32,
            Self::Bf16 => 8,
        }
    }
}

/// A quarter of the E2M1 value in the lowest four bits of `nibble`; the others are ignored.
///
/// Exponent and mantissa are moved to their place in an f32, with an exponent that has room below it: that is right
/// from 1.0 on, and `2v - 1` is right below, where E2M1 has no leading one. The smaller of both is always right.
/// [`scaled()`] makes up for the quarter.
#[cube]
pub fn e2m1_quarter(nibble: u32) -> f32 {
    let v = f32::reinterpret(((nibble << 22u32) & 0x01C0_0000u32) | 0x3E00_0000u32);
    let magnitude = f32::min(v, v + v - 0.25f32);
    f32::reinterpret(u32::reinterpret(magnitude) | ((nibble << 28u32) & 0x8000_0000u32))
}

/// Four times `2^(scale - 127)` times `value`: for sums and values in quarters.
///
/// In two factors, since the whole is no f32 for the smallest and largest scales. A sum is exact where its value is
/// an f32 of full precision, also where single weights would be subnormal or infinite as f32. Scale 255 is NaN.
#[cube]
pub fn scaled(value: f32, scale: u32) -> f32 {
    let half = scale >> 1u32;
    let first = f32::reinterpret((half + 64u32) << 23u32);
    let second = f32::reinterpret((scale - half + 65u32) << 23u32);
    select(
        scale == 255u32,
        f32::reinterpret(0x7FC0_0000u32),
        value * first * second,
    )
}

/// Byte `i` of bytes packed four to a word.
#[cube]
pub fn byte_at(words: &Array<u32>, i: u32) -> u32 {
    (words[(i >> 2u32) as usize] >> ((i & 3u32) * 8u32)) & 0xFFu32
}

/// The sum of the 32 (MXFP4, in quarters, unscaled) or 8 (BF16) weights in 16 bytes, each times its value of `x`.
#[cube]
pub fn dot(words: Quad<u32>, x: &Array<Quad<f32>>, #[comptime] kind: Kind) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..4usize {
        let word = words[i];
        match kind {
            Kind::Mxfp4 => {
                #[unroll]
                for j in 0..4usize {
                    sum += e2m1_quarter(word >> (j * 4) as u32) * x[i * 2][j];
                }
                #[unroll]
                for j in 0..4usize {
                    sum += e2m1_quarter(word >> (j * 4 + 16) as u32) * x[i * 2 + 1][j];
                }
            }
            Kind::Bf16 => {
                let quad = x[i / 2];
                sum += bf16_low(word) * quad[(i % 2) * 2];
                sum += bf16_high(word) * quad[(i % 2) * 2 + 1];
            }
        }
    }
    sum
}

/// `gate * sigmoid(1.702 gate) * (up + 1)` of the clamped gate and up. NaN stays NaN.
#[cube]
pub fn activation(gate: f32, up: f32, limit: f32) -> f32 {
    let gate = select(gate > limit, limit, gate);
    let up = select(up > limit, limit, up);
    let up = select(up < -limit, -limit, up);
    gate / (1.0f32 + f32::exp(-1.702f32 * gate)) * (up + 1.0f32)
}
