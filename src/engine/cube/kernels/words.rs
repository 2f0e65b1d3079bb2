//! Numbers inside words of 32 bits.

use cubecl::prelude::*;

/// The first of two BF16 values in a word.
#[cube]
pub fn bf16_low(word: u32) -> f32 {
    f32::reinterpret(word << 16u32)
}

/// The second of two BF16 values in a word.
#[cube]
pub fn bf16_high(word: u32) -> f32 {
    f32::reinterpret(word & 0xFFFF_0000u32)
}

/// The nearest BF16 value, ties to even, in the upper half of a word.
#[cube]
pub fn bf16_bits(x: f32) -> u32 {
    let bits = u32::reinterpret(x);
    let rounded = (bits + 0x7FFFu32 + ((bits >> 16u32) & 1u32)) & 0xFFFF_0000u32;
    // The NaN of CUDA has every bit set, and would round up to minus zero.
    let nan = (bits & 0x7FFF_FFFFu32) > 0x7F80_0000u32;
    select(nan, 0x7FC0_0000u32, rounded)
}

/// Byte `i` of a word as a signed number.
#[cube]
pub fn i8_at(word: u32, i: u32) -> f32 {
    // Conversions are slow on CUDA. The byte plus 128 becomes the last bits of 2^23, exactly.
    let biased = ((word >> (i * 8u32)) & 0xFFu32) ^ 0x4B00_0080u32;
    f32::reinterpret(biased) - 8_388_736.0f32
}

/// Byte `i` of a word as a signed number, where the word has the sign bits of its bytes turned over: such a byte is a
/// number plus 128, and as the last bits of 2^23 it needs no conversion, which is slow on many devices.
#[cube]
pub fn i8_biased(word: u32, i: u32) -> f32 {
    f32::reinterpret(((word >> (i * 8u32)) & 0xFFu32) | 0x4B00_0000u32) - 8_388_736.0f32
}
