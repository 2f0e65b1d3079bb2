//! AVX2: sixteen words are two registers, and a dot of bytes is a multiplication to 16 bits, then to 32.
#![allow(unsafe_code)]
#![allow(clippy::unused_self, reason = "`self` proves the instructions")]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_setr_epi8, _mm_setzero_si128,
    _mm256_abs_epi8, _mm256_add_epi32, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_castsi256_ps, _mm256_cvtepi32_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_mul_ps, _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_shuffle_epi8, _mm256_sign_epi8, _mm256_sll_epi32,
    _mm256_slli_epi32, _mm256_srli_epi16, _mm256_srli_epi32, _mm256_storeu_si256,
    _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};

use super::super::Rows;
use super::super::int8::{self, Strip};
use super::super::lanes::LANES;
use super::super::rounded::{Grid, Quad, quantize};
use super::super::words::{TOP_BYTES, TOP_PAIRS, Words};
use super::Avx2;

impl Avx2 {
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

#[target_feature(enable = "avx2,fma")]
fn dots<const P: usize>(
    w: Avx2,
    rows: Rows<'_>,
    x: &[&[Quad<P>]],
    strip: &mut Strip,
    out: &mut [f32],
) {
    int8::dots::<_, 2, 2, P>(w, rows, x, strip, out);
}

#[target_feature(enable = "avx2,fma")]
fn quantize_row<const P: usize>(x: &[f32], grid: Grid, quads: &mut [Quad<P>]) {
    quantize(x, grid, quads);
}

type W = [__m256i; 2];

impl Words for Avx2 {
    type L = Self;
    type W = W;
    const MXFP4_ZERO: i32 = 12;
    // Bytes keep their sign here: 255 times 127 twice would not fit 16 bits.
    const Q8_ZERO: i32 = 0;

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }
    #[inline(always)]
    fn splat_word(self, word: i32) -> W {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_set1_epi32(word); 2] }
    }
    #[inline(always)]
    fn load_words(self, words: &[i32; LANES]) -> W {
        // SAFETY: `self` proves the features; both loads lie inside `words`.
        unsafe {
            let at = words.as_ptr();
            [
                _mm256_loadu_si256(at.cast()),
                _mm256_loadu_si256(at.add(8).cast()),
            ]
        }
    }
    #[inline(always)]
    fn store_words(self, words: W, to: &mut [i32; LANES]) {
        // SAFETY: `self` proves the features; both stores lie inside `to`.
        unsafe {
            let at = to.as_mut_ptr();
            _mm256_storeu_si256(at.cast(), words[0]);
            _mm256_storeu_si256(at.add(8).cast(), words[1]);
        }
    }
    #[inline(always)]
    fn load_bytes(self, bytes: &[u8; 4 * LANES]) -> W {
        // SAFETY: `self` proves the features; both loads lie inside `bytes`.
        unsafe {
            let at = bytes.as_ptr();
            [
                _mm256_loadu_si256(at.cast()),
                _mm256_loadu_si256(at.add(32).cast()),
            ]
        }
    }
    #[inline(always)]
    fn load_blocks(self, blocks: &[[u8; LANES]]) -> W {
        // SAFETY: `self` proves the features; each load is a block.
        let load = |i: usize| unsafe {
            match blocks.get(i) {
                Some(block) => _mm_loadu_si128(block.as_ptr().cast()),
                None => _mm_setzero_si128(),
            }
        };
        // SAFETY: `self` proves the features.
        unsafe {
            [
                _mm256_set_m128i(load(1), load(0)),
                _mm256_set_m128i(load(3), load(2)),
            ]
        }
    }
    #[inline(always)]
    fn low(self, nibbles: W) -> W {
        // SAFETY: `self` proves the features.
        unsafe { [look_up(nibbles[0]), look_up(nibbles[1])] }
    }
    #[inline(always)]
    fn high(self, nibbles: W) -> W {
        // SAFETY: `self` proves the features.
        unsafe {
            [
                look_up(_mm256_srli_epi16::<4>(nibbles[0])),
                look_up(_mm256_srli_epi16::<4>(nibbles[1])),
            ]
        }
    }
    #[inline(always)]
    fn q8(self, bytes: W) -> W {
        bytes
    }
    #[inline(always)]
    fn dot_mxfp4(self, acc: W, w: W, x: W) -> W {
        // SAFETY: `self` proves the features. No sum of two products passes 24 * 127 * 2.
        unsafe { [dot(acc[0], w[0], x[0]), dot(acc[1], w[1], x[1])] }
    }
    #[inline(always)]
    fn dot_q8(self, acc: W, w: W, x: W) -> W {
        // SAFETY: `self` proves the features. No sum of two products passes 127 * 127 * 2.
        unsafe {
            [
                dot(acc[0], _mm256_abs_epi8(w[0]), _mm256_sign_epi8(x[0], w[0])),
                dot(acc[1], _mm256_abs_epi8(w[1]), _mm256_sign_epi8(x[1], w[1])),
            ]
        }
    }
    #[inline(always)]
    fn add(self, a: W, b: W) -> W {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])] }
    }
    #[inline(always)]
    fn times_128(self, a: W) -> W {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_slli_epi32::<7>(a[0]), _mm256_slli_epi32::<7>(a[1])] }
    }
    #[inline(always)]
    fn to_f32(self, words: W) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_cvtepi32_ps(words[0]), _mm256_cvtepi32_ps(words[1])] }
    }
    #[inline(always)]
    fn mul(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn e8m0(self, bytes: [u8; 4]) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        unsafe {
            let four = _mm256_set1_epi32(i32::from_le_bytes(bytes));
            let [low, high] = shuffle(four, &TOP_BYTES);
            [
                _mm256_castsi256_ps(_mm256_srli_epi32::<1>(low)),
                _mm256_castsi256_ps(_mm256_srli_epi32::<1>(high)),
            ]
        }
    }
    #[inline(always)]
    fn e8m0_byte(self, words: W, k: usize) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        unsafe {
            let shift = _mm_cvtsi32_si128(24 - 8 * k as i32);
            let exponent = _mm256_set1_epi32(0x7f80_0000);
            let [low, high] = [
                _mm256_sll_epi32(words[0], shift),
                _mm256_sll_epi32(words[1], shift),
            ];
            [
                _mm256_castsi256_ps(_mm256_and_si256(_mm256_srli_epi32::<1>(low), exponent)),
                _mm256_castsi256_ps(_mm256_and_si256(_mm256_srli_epi32::<1>(high), exponent)),
            ]
        }
    }
    #[inline(always)]
    fn bf16_by_block(self, values: [u8; 8]) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        unsafe {
            let four = _mm256_set1_epi64x(i64::from_le_bytes(values));
            let [low, high] = shuffle(four, &TOP_PAIRS);
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }
    #[inline(always)]
    fn transpose(self, rows: [&[u8; 16]; LANES]) -> [W; 4] {
        let (low, high) = rows.split_at(8);
        // SAFETY: `self` proves the features.
        let (low, high) = unsafe { (transpose(low), transpose(high)) };
        [
            [low[0], high[0]],
            [low[1], high[1]],
            [low[2], high[2]],
            [low[3], high[3]],
        ]
    }
}

/// Twice the E2M1 value plus 12, for the low nibble of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(nibbles: __m256i) -> __m256i {
    let table = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0,
    ));
    _mm256_shuffle_epi8(table, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)))
}

/// The four words of each of eight rows.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: &[&[u8; 16]]) -> [__m256i; 4] {
    // SAFETY: each load is a row.
    let load = |i: usize| -> __m128i { unsafe { _mm_loadu_si128(rows[i].as_ptr().cast()) } };
    // Rows i and i + 4 side by side.
    let a = _mm256_set_m128i(load(4), load(0));
    let b = _mm256_set_m128i(load(5), load(1));
    let c = _mm256_set_m128i(load(6), load(2));
    let d = _mm256_set_m128i(load(7), load(3));
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn dot(acc: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
    let pairs = _mm256_maddubs_epi16(unsigned, signed);
    _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn shuffle(bytes: __m256i, control: &[i8; 64]) -> W {
    // SAFETY: both loads lie inside `control`.
    let [low, high] = unsafe {
        let at = control.as_ptr();
        [
            _mm256_loadu_si256(at.cast()),
            _mm256_loadu_si256(at.add(32).cast()),
        ]
    };
    [
        _mm256_shuffle_epi8(bytes, low),
        _mm256_shuffle_epi8(bytes, high),
    ]
}
