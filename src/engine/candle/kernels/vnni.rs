//! AVX-512 with VNNI: sixteen words are one register, and a dot of bytes is one instruction.
#![allow(unsafe_code)]
#![allow(clippy::unused_self, reason = "`self` proves the instructions")]

use std::arch::x86_64::{
    __m512, __m512i, _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_loadu_si128, _mm_setr_epi8,
    _mm512_add_epi32, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_broadcastd_epi32,
    _mm512_broadcastq_epi64, _mm512_castsi128_si512, _mm512_castsi512_ps, _mm512_cvtepi32_ps,
    _mm512_dpbusd_epi32, _mm512_inserti32x4, _mm512_loadu_si512, _mm512_maskz_loadu_epi64,
    _mm512_mul_ps, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_shuffle_epi8, _mm512_sll_epi32,
    _mm512_slli_epi32, _mm512_srli_epi16, _mm512_srli_epi32, _mm512_storeu_si512,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    _mm512_xor_si512,
};

use super::Rows;
use super::avx512::Avx512;
use super::int8::{self, Strip};
use super::lanes::LANES;
use super::rounded::{Grid, Quad, quantize};
use super::words::{TOP_BYTES, TOP_PAIRS, Words};

/// Proof that the CPU has AVX-512 F, BW, VL and VNNI.
#[derive(Clone, Copy)]
pub struct Vnni(Avx512);

impl Vnni {
    pub fn detect() -> Option<Self> {
        let base = Avx512::detect()?;
        is_x86_feature_detected!("avx512vnni").then_some(Self(base))
    }
    pub fn packed_dots<const P: usize>(
        self,
        rows: Rows<'_>,
        x: &[&[Quad<P>]],
        strip: &mut Strip,
        out: &mut [f32],
    ) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { dots(self, rows, x, strip, out) }
    }
    /// [`Words::MXFP4_ZERO`] and [`Words::Q8_ZERO`].
    pub fn zeros(self) -> (i32, i32) {
        (Self::MXFP4_ZERO, Self::Q8_ZERO)
    }
    pub fn quantize<const P: usize>(self, x: &[f32], grid: Grid, quads: &mut [Quad<P>]) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { quantize_row(x, grid, quads) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dots<const P: usize>(
    w: Vnni,
    rows: Rows<'_>,
    x: &[&[Quad<P>]],
    strip: &mut Strip,
    out: &mut [f32],
) {
    int8::dots::<_, 8, 4, P>(w, rows, x, strip, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn quantize_row<const P: usize>(x: &[f32], grid: Grid, quads: &mut [Quad<P>]) {
    quantize(x, grid, quads);
}

impl Words for Vnni {
    type L = Avx512;
    type W = __m512i;
    const MXFP4_ZERO: i32 = 12;
    const Q8_ZERO: i32 = 128;

    #[inline(always)]
    fn lanes(self) -> Avx512 {
        self.0
    }
    #[inline(always)]
    fn splat_word(self, word: i32) -> Self::W {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_set1_epi32(word) }
    }
    #[inline(always)]
    fn load_words(self, words: &[i32; LANES]) -> Self::W {
        // SAFETY: `self` proves the features; the load is `words`.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store_words(self, words: Self::W, to: &mut [i32; LANES]) {
        // SAFETY: `self` proves the features; the store is `to`.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) }
    }
    #[inline(always)]
    fn load_bytes(self, bytes: &[u8; 4 * LANES]) -> Self::W {
        // SAFETY: `self` proves the features; the load is `bytes`.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }
    #[inline(always)]
    fn load_blocks(self, blocks: &[[u8; LANES]]) -> Self::W {
        let eights = 2 * blocks.len().min(4);
        // SAFETY: `self` proves the features; what the mask leaves of the load lies inside `blocks`.
        unsafe {
            let mask = ((1_u32 << eights) - 1) as u8;
            _mm512_maskz_loadu_epi64(mask, blocks.as_ptr().cast())
        }
    }
    #[inline(always)]
    fn low(self, nibbles: Self::W) -> Self::W {
        // SAFETY: `self` proves the features.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_setr_epi8(
                12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0,
            ));
            _mm512_shuffle_epi8(table, _mm512_and_si512(nibbles, _mm512_set1_epi8(15)))
        }
    }
    #[inline(always)]
    fn high(self, nibbles: Self::W) -> Self::W {
        // SAFETY: `self` proves the features.
        unsafe { self.low(_mm512_srli_epi16::<4>(nibbles)) }
    }
    #[inline(always)]
    fn q8(self, bytes: Self::W) -> Self::W {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) }
    }
    #[inline(always)]
    fn dot_mxfp4(self, acc: Self::W, w: Self::W, x: Self::W) -> Self::W {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_dpbusd_epi32(acc, w, x) }
    }
    #[inline(always)]
    fn dot_q8(self, acc: Self::W, w: Self::W, x: Self::W) -> Self::W {
        self.dot_mxfp4(acc, w, x)
    }
    #[inline(always)]
    fn add(self, a: Self::W, b: Self::W) -> Self::W {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn times_128(self, a: Self::W) -> Self::W {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_slli_epi32::<7>(a) }
    }
    #[inline(always)]
    fn to_f32(self, words: Self::W) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_cvtepi32_ps(words) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn e8m0(self, bytes: [u8; 4]) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe {
            // Byte `b` to the top of the four words of block `b`; one bit down, there is the exponent of an f32.
            let four = _mm512_broadcastd_epi32(_mm_cvtsi32_si128(i32::from_le_bytes(bytes)));
            let top = _mm512_shuffle_epi8(four, _mm512_loadu_si512(TOP_BYTES.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_srli_epi32::<1>(top))
        }
    }
    #[inline(always)]
    fn e8m0_byte(self, words: Self::W, k: usize) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe {
            let top = _mm512_sll_epi32(words, _mm_cvtsi32_si128(24 - 8 * k as i32));
            let exponent = _mm512_set1_epi32(0x7f80_0000);
            _mm512_castsi512_ps(_mm512_and_si512(_mm512_srli_epi32::<1>(top), exponent))
        }
    }
    #[inline(always)]
    fn bf16_by_block(self, values: [u8; 8]) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe {
            let four = _mm512_broadcastq_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(values)));
            _mm512_castsi512_ps(_mm512_shuffle_epi8(
                four,
                _mm512_loadu_si512(TOP_PAIRS.as_ptr().cast()),
            ))
        }
    }
    #[inline(always)]
    fn transpose(self, rows: [&[u8; 16]; LANES]) -> [Self::W; 4] {
        // SAFETY: `self` proves the features.
        unsafe {
            let a = four(rows[0], rows[4], rows[8], rows[12]);
            let b = four(rows[1], rows[5], rows[9], rows[13]);
            let c = four(rows[2], rows[6], rows[10], rows[14]);
            let d = four(rows[3], rows[7], rows[11], rows[15]);
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(ab, cd),
                _mm512_unpackhi_epi64(ab, cd),
                _mm512_unpacklo_epi64(ab_high, cd_high),
                _mm512_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }
}

/// Four rows side by side.
#[inline]
#[target_feature(enable = "avx512f")]
fn four(a: &[u8; 16], b: &[u8; 16], c: &[u8; 16], d: &[u8; 16]) -> __m512i {
    // SAFETY: each load is a row.
    unsafe {
        let v = _mm512_castsi128_si512(_mm_loadu_si128(a.as_ptr().cast()));
        let v = _mm512_inserti32x4::<1>(v, _mm_loadu_si128(b.as_ptr().cast()));
        let v = _mm512_inserti32x4::<2>(v, _mm_loadu_si128(c.as_ptr().cast()));
        _mm512_inserti32x4::<3>(v, _mm_loadu_si128(d.as_ptr().cast()))
    }
}
