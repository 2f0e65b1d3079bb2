//! AVX2 with FMA: sixteen lanes are two registers.
#![allow(unsafe_code)]
#![allow(clippy::unused_self, reason = "`self` proves the instructions")]

mod words;

use std::arch::x86_64::{
    __m256, __m256i, _MM_HINT_T1, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadl_epi64,
    _mm_loadu_si128, _mm_movehl_ps, _mm_prefetch, _mm_shuffle_ps, _mm256_add_ps, _mm256_and_si256,
    _mm256_castpd_ps, _mm256_castps_pd, _mm256_castps_si256, _mm256_castps256_ps128,
    _mm256_castsi256_ps, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32,
    _mm256_cvtepu16_epi32, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_mul_ps, _mm256_or_si256, _mm256_permute4x64_pd,
    _mm256_permutevar8x32_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_shuffle_ps,
    _mm256_slli_epi32, _mm256_srai_epi32, _mm256_srli_epi32, _mm256_storeu_ps,
};

use super::lanes::{BLOCK, E2M1, E8M0, LANES, Lanes};
use super::{Block, Columns, Keys, Rows, activation, dots, keys, sums};

/// Proof that the CPU has AVX2 and FMA.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
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

#[target_feature(enable = "avx2,fma")]
fn dots(l: Avx2, rows: Rows<'_>, x: &[&[Block]], out: &mut [f32]) {
    dots::dots::<_, 1, 4>(l, rows, x, out);
}

#[target_feature(enable = "avx2,fma")]
fn accumulate(l: Avx2, p: &[f32], stride: usize, n: usize, columns: Columns<'_>, acc: &mut [f32]) {
    sums::accumulate::<_, 2, 2>(l, p, stride, n, columns, acc);
}

#[target_feature(enable = "avx2,fma")]
fn scores(l: Avx2, q: &[f32], width: usize, keys: Keys<'_>, out: &mut [f32], stride: usize) {
    keys::scores::<_, 2>(l, q, width, keys, out, stride);
}

#[target_feature(enable = "avx2,fma")]
fn unpack(l: Avx2, rows: Rows<'_>, cols: usize, out: &mut [f32]) {
    dots::unpack(l, rows, cols, out);
}

#[target_feature(enable = "avx2,fma")]
fn swiglu(gate_up: &[f32], bias: &[f32], limit: f32, out: &mut [f32]) {
    activation::swiglu::<true>(gate_up, bias, limit, out);
}

#[target_feature(enable = "avx2,fma")]
fn add(x: &[f32], bias: &[f32], out: &mut [f32]) {
    activation::add(x, bias, out);
}

#[target_feature(enable = "avx2,fma")]
fn exponentials(logits: &mut [f32], largest: f32) -> f32 {
    activation::exponentials::<true>(logits, largest)
}

#[target_feature(enable = "avx2,fma")]
fn largest(logits: &[f32], start: f32) -> f32 {
    activation::largest(logits, start)
}

impl Lanes for Avx2 {
    type V = [__m256; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        // SAFETY: `self` proves the features; both loads lie inside `x`.
        unsafe {
            [
                _mm256_loadu_ps(x.as_ptr()),
                _mm256_loadu_ps(x.as_ptr().add(8)),
            ]
        }
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        // SAFETY: `self` proves the features; both stores lie inside `to`.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), v[1]);
        }
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: `self` proves the features.
        unsafe {
            [
                _mm256_fmadd_ps(a[0], b[0], c[0]),
                _mm256_fmadd_ps(a[1], b[1], c[1]),
            ]
        }
    }
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let eight = _mm256_add_ps(v[0], v[1]);
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
        // SAFETY: `self` proves the features; both loads lie inside `values`.
        unsafe {
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(values.as_ptr().cast()));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(values.as_ptr().add(16).cast()));
            [even_bf16(low), even_bf16(high)]
        }
    }
    #[inline(always)]
    fn split_bf16(self, block: &[u8; 2 * BLOCK]) -> [Self::V; 2] {
        // SAFETY: `self` proves the features; both loads lie inside `block`.
        unsafe {
            let low = _mm256_loadu_si256(block.as_ptr().cast());
            let high = _mm256_loadu_si256(block.as_ptr().add(32).cast());
            [
                [even_bf16(low), even_bf16(high)],
                [odd_bf16(low), odd_bf16(high)],
            ]
        }
    }
    #[inline(always)]
    fn split_f32(self, block: &[f32; BLOCK]) -> [Self::V; 2] {
        // SAFETY: `self` proves the features; the loads lie inside `block`.
        unsafe {
            let at = block.as_ptr();
            let [a, b] = unzip(_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8)));
            let [c, d] = unzip(_mm256_loadu_ps(at.add(16)), _mm256_loadu_ps(at.add(24)));
            [[a, c], [b, d]]
        }
    }
    #[inline(always)]
    fn split_mxfp4(self, block: &[u8; BLOCK / 2], scale: u8) -> [Self::V; 2] {
        // SAFETY: `self` proves the features; both loads lie inside `block`.
        unsafe {
            let scale = _mm256_set1_ps(E8M0[usize::from(scale)]);
            let table = _mm256_mul_ps(_mm256_loadu_ps(E2M1.as_ptr()), scale);
            let low = _mm256_cvtepu8_epi32(_mm_loadl_epi64(block.as_ptr().cast()));
            let high = _mm256_cvtepu8_epi32(_mm_loadl_epi64(block.as_ptr().add(8).cast()));
            [
                [even_e2m1(table, low), even_e2m1(table, high)],
                [odd_e2m1(table, low), odd_e2m1(table, high)],
            ]
        }
    }
    #[inline(always)]
    fn i8(self, bytes: &[u8; LANES]) -> Self::V {
        // SAFETY: `self` proves the features; both loads lie inside `bytes`.
        unsafe {
            let low = _mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes.as_ptr().cast()));
            let high = _mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes.as_ptr().add(8).cast()));
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        }
    }
    #[inline(always)]
    fn split_i8(self, bytes: &[u8; 4 * LANES]) -> [Self::V; 4] {
        // SAFETY: `self` proves the features; both loads lie inside `bytes`.
        unsafe {
            let low = four_i8(_mm256_loadu_si256(bytes.as_ptr().cast()));
            let high = four_i8(_mm256_loadu_si256(bytes.as_ptr().add(32).cast()));
            [
                [low[0], high[0]],
                [low[1], high[1]],
                [low[2], high[2]],
                [low[3], high[3]],
            ]
        }
    }
    #[inline(always)]
    fn scaled_i8(self, bytes: &[u8; LANES], scale: f32) -> Self::V {
        // SAFETY: `self` proves the features; both loads lie inside `bytes`.
        unsafe {
            let scale = _mm256_set1_ps(scale);
            let low = _mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes.as_ptr().cast()));
            let high = _mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes.as_ptr().add(8).cast()));
            [
                _mm256_mul_ps(_mm256_cvtepi32_ps(low), scale),
                _mm256_mul_ps(_mm256_cvtepi32_ps(high), scale),
            ]
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn even_bf16(pairs: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs))
}

#[inline]
#[target_feature(enable = "avx2")]
fn odd_bf16(pairs: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_and_si256(
        pairs,
        _mm256_set1_epi32(0xffff_0000_u32 as i32),
    ))
}

/// The even and the odd elements of sixteen.
#[inline]
#[target_feature(enable = "avx2")]
fn unzip(low: __m256, high: __m256) -> [__m256; 2] {
    let evens = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
    let odds = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
    [
        _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(evens)),
        _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(odds)),
    ]
}

/// The low nibbles through the eight scaled magnitudes (the permutation reads three bits), then the sign.
#[inline]
#[target_feature(enable = "avx2")]
fn even_e2m1(table: __m256, bytes: __m256i) -> __m256 {
    signed(
        _mm256_permutevar8x32_ps(table, bytes),
        _mm256_slli_epi32::<28>(bytes),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn odd_e2m1(table: __m256, bytes: __m256i) -> __m256 {
    signed(
        _mm256_permutevar8x32_ps(table, _mm256_srli_epi32::<4>(bytes)),
        _mm256_slli_epi32::<24>(bytes),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn signed(magnitude: __m256, sign: __m256i) -> __m256 {
    let sign = _mm256_and_si256(sign, _mm256_set1_epi32(i32::MIN));
    _mm256_castsi256_ps(_mm256_or_si256(_mm256_castps_si256(magnitude), sign))
}

/// The signed bytes of each word, lowest first.
#[inline]
#[target_feature(enable = "avx2")]
fn four_i8(words: __m256i) -> [__m256; 4] {
    [
        _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(_mm256_slli_epi32::<24>(words))),
        _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(_mm256_slli_epi32::<16>(words))),
        _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(_mm256_slli_epi32::<8>(words))),
        _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(words)),
    ]
}
