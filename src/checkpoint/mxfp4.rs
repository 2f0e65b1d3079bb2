//! MXFP4, decoded the obvious way: the definition that every kernel is tested against.
//!
//! A block is 32 values of E2M1 that share one power of two (OCP Microscaling Formats 1.0). Byte `j` of a block holds
//! element `2j` in its low and `2j + 1` in its high nibble, as `gpt_oss/torch/weights.py` reads it. (GGUF stores
//! elements `j` and `j + 16` in a byte; the two are not interchangeable.)

/// Values in a block.
pub const BLOCK: usize = 32;
/// Bytes of a block, without its scale.
pub const BLOCK_BYTES: usize = BLOCK / 2;

/// The value of each E2M1 code: sign, two bits of exponent, one of mantissa.
pub const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// The factor of a block: `2^(scale - 127)`. 0 gives a subnormal; 255 is not a number in E8M0.
pub fn scale_to_f32(scale: u8) -> f32 {
    match scale {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        exponent => f32::from_bits(u32::from(exponent) << 23),
    }
}

/// The 32 values of one block. Exact, save that large values of scales 253 and 254 overflow to infinity.
pub fn decode_block(block: &[u8; BLOCK_BYTES], scale: u8) -> [f32; BLOCK] {
    let factor = scale_to_f32(scale);
    std::array::from_fn(|i| {
        let byte = block[i / 2];
        let code = if i % 2 == 0 { byte & 0x0f } else { byte >> 4 };
        E2M1[usize::from(code)] * factor
    })
}

/// The values of consecutive blocks, such as a row: `blocks` `[n, 16]`, `scales` `[n]`, result `[32 n]`.
///
/// # Panics
/// If there is not one scale per block.
pub fn decode(blocks: &[u8], scales: &[u8]) -> Vec<f32> {
    let (blocks, rest) = blocks.as_chunks::<BLOCK_BYTES>();
    assert!(
        rest.is_empty() && blocks.len() == scales.len(),
        "{} blocks and {} bytes with {} scales",
        blocks.len(),
        rest.len(),
        scales.len()
    );
    blocks
        .iter()
        .zip(scales)
        .flat_map(|(block, &scale)| decode_block(block, scale))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// E2M1 by its definition: `(-1)^s * 2^(e-1) * (1 + m/2)`, and `m/2` where `e` is 0.
    fn e2m1(code: u8) -> f32 {
        let sign = if code & 8 == 0 { 1.0 } else { -1.0 };
        let exponent = i32::from(code >> 1 & 3);
        let mantissa = f32::from(code & 1);
        let magnitude = match exponent {
            0 => mantissa / 2.0,
            _ => f32::powi(2.0, exponent - 1) * (1.0 + mantissa / 2.0),
        };
        sign * magnitude
    }

    #[test]
    fn the_table_is_e2m1() {
        for code in 0..16 {
            assert_eq!(
                E2M1[usize::from(code)].to_bits(),
                e2m1(code).to_bits(),
                "{code}"
            );
        }
    }

    #[test]
    fn scales_are_powers_of_two_down_to_the_subnormal() {
        for scale in 0..255u8 {
            let expected = f64::powi(2.0, i32::from(scale) - 127);
            assert_eq!(f64::from(scale_to_f32(scale)), expected, "{scale}");
        }
        assert!(scale_to_f32(255).is_nan());
    }

    #[test]
    fn low_nibbles_come_first() {
        let mut block = [0; BLOCK_BYTES];
        block[..3].copy_from_slice(&[0x21, 0x7f, 0x80]);
        let values = decode_block(&block, 128);
        assert_eq!(values[..6], [1.0, 2.0, -12.0, 12.0, 0.0, -0.0]);
        assert!(values[4].is_sign_positive() && values[5].is_sign_negative());
    }

    proptest! {
        #[test]
        fn every_value_is_its_code_times_its_scale(blocks: [[u8; BLOCK_BYTES]; 3], scales: [u8; 3]) {
            let values = decode(blocks.as_flattened(), &scales);
            prop_assert_eq!(values.len(), 3 * BLOCK);
            for (i, value) in values.iter().enumerate() {
                let byte = blocks.as_flattened()[i / 2];
                let code = byte >> (4 * (i % 2)) & 0x0f;
                let scale = scales[i / BLOCK];
                let expected = f64::from(e2m1(code)) * f64::powi(2.0, i32::from(scale) - 127);
                if scale == 255 {
                    prop_assert!(value.is_nan());
                } else {
                    prop_assert_eq!(value.to_bits(), (expected as f32).to_bits());
                }
            }
        }
    }
}
