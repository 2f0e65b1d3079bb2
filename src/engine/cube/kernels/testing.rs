//! What the kernels' tests share: the devices of this machine, and numbers that are the same at each run.

use cubecl::prelude::*;
use cubecl::wgpu::{WgpuDevice, WgpuRuntime};

use super::{Buffer, Gpu};

/// Every way to run the kernels here: with planes and without. Software devices have planes too, which the runtime
/// does not offer; the kernels with planes are right there as well.
pub fn gpus() -> Vec<Gpu<WgpuRuntime>> {
    let gpu = || Gpu::new(WgpuRuntime::client(&WgpuDevice::DefaultDevice));
    vec![
        gpu().with_planes().unwrap_or_else(gpu),
        gpu().without_planes(),
    ]
}

/// The f32 values of a buffer.
pub fn read(gpu: &Gpu<WgpuRuntime>, buffer: &Buffer) -> Vec<f32> {
    bytemuck::cast_vec(read_words(gpu, buffer))
}

/// The words of a buffer.
pub fn read_words(gpu: &Gpu<WgpuRuntime>, buffer: &Buffer) -> Vec<u32> {
    gpu.read(buffer.clone()).unwrap()
}

/// A small generator (xorshift), so that a failing test fails again.
pub struct Numbers(u64);

impl Numbers {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next word.
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    /// `len` values, evenly between -1 and 1.
    pub fn values(&mut self, len: usize) -> Vec<f32> {
        (0..len)
            .map(|_| self.word() as f32 / 2_147_483_648.0 - 1.0)
            .collect()
    }
}

/// Two BF16 values to a word, rounded to the nearest.
pub fn packed_bf16(values: &[f32]) -> Vec<u32> {
    values
        .chunks(2)
        .map(|pair| {
            let low = u32::from(half::bf16::from_f32(pair[0]).to_bits());
            let high = pair
                .get(1)
                .map_or(0, |&v| u32::from(half::bf16::from_f32(v).to_bits()));
            low | high << 16
        })
        .collect()
}

/// RMSNorm of each row of `x`.
pub fn normed(x: &[f32], gain: &[f32], eps: f32) -> Vec<f64> {
    let squares = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    x.chunks(gain.len())
        .flat_map(|row| {
            let scale = 1.0 / (squares(row) / row.len() as f64 + f64::from(eps)).sqrt();
            let product = move |(&x, &gain): (&f32, &f32)| f64::from(x) * scale * f64::from(gain);
            row.iter().zip(gain).map(product)
        })
        .collect()
}

/// Fails with the place and both values where `found` is further than `tolerance` from `expected`.
pub fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance,
            "at {i}: {found}, expected {expected}"
        );
    }
}
