//! AVX-512 (F, BW, VL): sixteen lanes are one register.
#![allow(unsafe_code)]
#![allow(clippy::unused_self, reason = "`self` proves the instructions")]

use std::arch::x86_64::{
    __m512, _MM_HINT_T1, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadu_si128, _mm_movehl_ps,
    _mm_prefetch, _mm_shuffle_ps, _mm256_add_ps, _mm256_castpd_ps, _mm256_castps256_ps128,
    _mm256_extractf128_ps, _mm256_loadu_si256, _mm512_and_si512, _mm512_castps_pd,
    _mm512_castps512_ps256, _mm512_castsi512_ps, _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps,
    _mm512_cvtepu8_epi32, _mm512_cvtepu16_epi32, _mm512_extractf64x4_pd, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_permutex2var_ps,
    _mm512_permutexvar_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setr_epi32, _mm512_slli_epi32,
    _mm512_srai_epi32, _mm512_srli_epi32, _mm512_storeu_ps,
};

use super::lanes::{BLOCK, E2M1, E8M0, LANES, Lanes};
use super::{Block, Columns, Keys, Rows, activation, dots, keys, sums};

/// Proof that the CPU has AVX-512 F, BW and VL.
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl"))
        .then_some(Self(()))
    }
    pub fn dots(self, rows: Rows<'_>, x: &[&[Block]], out: &mut [f32]) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { dots(self, rows, x, out) }
    }
    pub fn accumulate(
        self,
        p: &[f32],
        stride: usize,
        n: usize,
        columns: Columns<'_>,
        acc: &mut [f32],
    ) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { accumulate(self, p, stride, n, columns, acc) }
    }
    pub fn scores(self, q: &[f32], width: usize, keys: Keys<'_>, out: &mut [f32], stride: usize) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { scores(self, q, width, keys, out, stride) }
    }
    pub fn unpack(self, rows: Rows<'_>, cols: usize, out: &mut [f32]) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { unpack(self, rows, cols, out) }
    }
    pub fn swiglu(self, gate_up: &[f32], bias: &[f32], limit: f32, out: &mut [f32]) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { swiglu(gate_up, bias, limit, out) }
    }
    pub fn add(self, x: &[f32], bias: &[f32], out: &mut [f32]) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { add(x, bias, out) }
    }
    pub fn exponentials(self, logits: &mut [f32], largest: f32) -> f32 {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { exponentials(logits, largest) }
    }
    pub fn largest(self, logits: &[f32], start: f32) -> f32 {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { largest(logits, start) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn dots(l: Avx512, rows: Rows<'_>, x: &[&[Block]], out: &mut [f32]) {
    dots::dots::<_, 4, 4>(l, rows, x, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn accumulate(
    l: Avx512,
    p: &[f32],
    stride: usize,
    n: usize,
    columns: Columns<'_>,
    acc: &mut [f32],
) {
    sums::accumulate::<_, 4, 4>(l, p, stride, n, columns, acc);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn scores(l: Avx512, q: &[f32], width: usize, keys: Keys<'_>, out: &mut [f32], stride: usize) {
    keys::scores::<_, 8>(l, q, width, keys, out, stride);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn unpack(l: Avx512, rows: Rows<'_>, cols: usize, out: &mut [f32]) {
    dots::unpack(l, rows, cols, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn swiglu(gate_up: &[f32], bias: &[f32], limit: f32, out: &mut [f32]) {
    activation::swiglu::<true>(gate_up, bias, limit, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn add(x: &[f32], bias: &[f32], out: &mut [f32]) {
    activation::add(x, bias, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn exponentials(logits: &mut [f32], largest: f32) -> f32 {
    activation::exponentials::<true>(logits, largest)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn largest(logits: &[f32], start: f32) -> f32 {
    activation::largest(logits, start)
}

impl Lanes for Avx512 {
    type V = __m512;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        // SAFETY: `self` proves the features; the load is `x`.
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        // SAFETY: `self` proves the features; the store is `to`.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(v)));
            let eight = _mm256_add_ps(_mm512_castps512_ps256(v), high);
            let four = _mm_add_ps(
                _mm256_castps256_ps128(eight),
                _mm256_extractf128_ps::<1>(eight),
            );
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    fn prefetch(self, address: *const u8) {
        // SAFETY: a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
    }
    #[inline(always)]
    fn bf16(self, values: &[u8; 2 * LANES]) -> Self::V {
        // SAFETY: `self` proves the features; the load is `values`.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(values.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    fn split_bf16(self, block: &[u8; 2 * BLOCK]) -> [Self::V; 2] {
        // SAFETY: `self` proves the features; the load is `block`.
        unsafe {
            let pairs = _mm512_loadu_si512(block.as_ptr().cast());
            let odds = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32 as i32));
            [
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)),
                _mm512_castsi512_ps(odds),
            ]
        }
    }
    #[inline(always)]
    fn split_f32(self, block: &[f32; BLOCK]) -> [Self::V; 2] {
        // SAFETY: `self` proves the features; both loads lie inside `block`.
        unsafe {
            let low = _mm512_loadu_ps(block.as_ptr());
            let high = _mm512_loadu_ps(block.as_ptr().add(LANES));
            let evens =
                _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            [
                _mm512_permutex2var_ps(low, evens, high),
                _mm512_permutex2var_ps(low, odds, high),
            ]
        }
    }
    #[inline(always)]
    fn split_mxfp4(self, block: &[u8; BLOCK / 2], scale: u8) -> [Self::V; 2] {
        // SAFETY: `self` proves the features; the load is `block`.
        unsafe {
            // Scaling the table rather than what is read from it saves a product a block. The permutation reads
            // the low four bits of a lane, so the even elements need no mask.
            let table = _mm512_mul_ps(
                _mm512_loadu_ps(E2M1.as_ptr()),
                _mm512_set1_ps(E8M0[usize::from(scale)]),
            );
            let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(block.as_ptr().cast()));
            [
                _mm512_permutexvar_ps(bytes, table),
                _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(bytes), table),
            ]
        }
    }
    #[inline(always)]
    fn i8(self, bytes: &[u8; LANES]) -> Self::V {
        // SAFETY: `self` proves the features; the load is `bytes`.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn split_i8(self, bytes: &[u8; 4 * LANES]) -> [Self::V; 4] {
        // SAFETY: `self` proves the features; the load is `bytes`.
        unsafe {
            let words = _mm512_loadu_si512(bytes.as_ptr().cast());
            [
                _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(_mm512_slli_epi32::<24>(words))),
                _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(_mm512_slli_epi32::<16>(words))),
                _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(_mm512_slli_epi32::<8>(words))),
                _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(words)),
            ]
        }
    }
    #[inline(always)]
    fn scaled_i8(self, bytes: &[u8; LANES], scale: f32) -> Self::V {
        // SAFETY: `self` proves the features; the load is `bytes`.
        unsafe {
            let wide = _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
            _mm512_mul_ps(_mm512_cvtepi32_ps(wide), _mm512_set1_ps(scale))
        }
    }
}
