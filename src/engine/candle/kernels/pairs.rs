//! AVX-512 with BF16: products of many tokens at once, activations rounded to BF16, sums in f32.
//!
//! Sixteen rows are brought into a strip, a row to a lane, two columns to a word, and every token passes it. MXFP4
//! values with their scale are exact in BF16. The products themselves are exact; the instruction adds pairs, flushes
//! subnormal numbers to zero and rounds to nearest.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_castps_si512, _mm512_dpbf16_ps, _mm512_loadu_ps,
    _mm512_mul_ps, _mm512_or_si512, _mm512_permutexvar_ps, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_srli_epi32, _mm512_storeu_ps,
};

use super::Rows;
use super::lanes::{BLOCK, E2M1, E8M0, LANES};
use super::rounded::round;
use super::vnni::Vnni;
use super::words::Words;

/// Sixteen rows, two columns to a word.
pub type Strip = Vec<[i32; LANES]>;

/// Proof that the CPU has what [`Vnni`] proves, and AVX-512 BF16.
#[derive(Clone, Copy)]
pub struct Avx512Bf16(Vnni);

impl Avx512Bf16 {
    pub fn detect() -> Option<Self> {
        let base = Vnni::detect()?;
        is_x86_feature_detected!("avx512bf16").then_some(Self(base))
    }
    /// `out[t, r] = rows[r] . x[t]` for a multiple of sixteen rows of BF16 or MXFP4.
    pub fn dots(self, rows: Rows<'_>, x: &[&[u32]], strip: &mut Strip, out: &mut [f32]) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { dots(self, rows, x, strip, out) }
    }
    pub fn round(self, x: &[f32], words: &mut [u32]) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { round_row(x, words) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn round_row(x: &[f32], words: &mut [u32]) {
    round(x, words);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn dots(b: Avx512Bf16, rows: Rows<'_>, x: &[&[u32]], strip: &mut Strip, out: &mut [f32]) {
    let count = out.len() / x.len();
    for r in (0..count).step_by(LANES) {
        match rows {
            Rows::Bf16(bytes) => bf16_strip(b, bytes, bytes.len() / count, r, strip),
            Rows::Mxfp4 { blocks, scales } => {
                let row = scales.len() / count;
                let blocks = &blocks.as_chunks().0[r * row..][..LANES * row];
                mxfp4_strip(b, blocks, &scales[r * row..][..LANES * row], row, strip);
            }
            Rows::F32(_) | Rows::Q8(_) => unreachable!("the caller has BF16 or MXFP4"),
        }
        let (wide, rest) = x.as_chunks::<16>();
        let (fours, rest) = rest.as_chunks::<4>();
        let mut out = out.chunks_exact_mut(count);
        for x in wide {
            put(tile(strip, *x), r, &mut out);
        }
        for x in fours {
            put(tile(strip, *x), r, &mut out);
        }
        for x in rest {
            put(tile(strip, [*x]), r, &mut out);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn put<const T: usize>(tile: [__m512; T], r: usize, out: &mut std::slice::ChunksExactMut<'_, f32>) {
    for sums in tile {
        let Some(out) = out.next() else { return };
        let out = &mut out[r..r + LANES];
        // SAFETY: the store is `out`.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sums) };
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn tile<const T: usize>(strip: &Strip, x: [&[u32]; T]) -> [__m512; T] {
    let x = x.map(|x| &x[..strip.len()]);
    let mut acc = [_mm512_setzero_ps(); T];
    for (i, words) in strip.iter().enumerate() {
        // SAFETY: the load is `words`; a register of words and one of BF16 pairs are the same bits.
        let w: __m512bh = unsafe { std::mem::transmute(*words) };
        for t in 0..T {
            // SAFETY: as above.
            let x: __m512bh = unsafe { std::mem::transmute(_mm512_set1_epi32(x[t][i] as i32)) };
            acc[t] = _mm512_dpbf16_ps(acc[t], w, x);
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn bf16_strip(b: Avx512Bf16, bytes: &[u8], row: usize, r: usize, strip: &mut Strip) {
    let rows: [&[u8]; LANES] = std::array::from_fn(|i| &bytes[(r + i) * row..][..row]);
    let whole = row / (2 * BLOCK);
    strip.clear();
    for block in 0..whole * 4 {
        let words = b.0.transpose(rows.map(|row| &row.as_chunks().0[block]));
        push(b, words, strip);
    }
    if !row.is_multiple_of(2 * BLOCK) {
        let mut last = [[0; 2 * BLOCK]; LANES];
        for (last, row) in last.iter_mut().zip(rows) {
            let tail = &row[whole * 2 * BLOCK..];
            last[..tail.len()].copy_from_slice(tail);
        }
        for block in 0..4 {
            let words =
                b.0.transpose(std::array::from_fn(|i| &last[i].as_chunks().0[block]));
            push(b, words, strip);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn push(b: Avx512Bf16, words: [__m512i; 4], strip: &mut Strip) {
    for word in words {
        let mut lanes = [0; LANES];
        b.0.store_words(word, &mut lanes);
        strip.push(lanes);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn mxfp4_strip(
    b: Avx512Bf16,
    blocks: &[[u8; BLOCK / 2]],
    scales: &[u8],
    row: usize,
    strip: &mut Strip,
) {
    // SAFETY: the load is the table.
    let table = unsafe { _mm512_loadu_ps(E2M1.as_ptr()) };
    strip.clear();
    for block in 0..row {
        let mut scale = [0.0; LANES];
        for (i, scale) in scale.iter_mut().enumerate() {
            *scale = E8M0[usize::from(scales[i * row + block])];
        }
        // SAFETY: the load is `scale`.
        let scale = unsafe { _mm512_loadu_ps(scale.as_ptr()) };
        for word in
            b.0.transpose(std::array::from_fn(|i| &blocks[i * row + block]))
        {
            push(
                b,
                [
                    pair(table, scale, word, _mm512_srli_epi32::<4>(word)),
                    pair(
                        table,
                        scale,
                        _mm512_srli_epi32::<8>(word),
                        _mm512_srli_epi32::<12>(word),
                    ),
                    pair(
                        table,
                        scale,
                        _mm512_srli_epi32::<16>(word),
                        _mm512_srli_epi32::<20>(word),
                    ),
                    pair(
                        table,
                        scale,
                        _mm512_srli_epi32::<24>(word),
                        _mm512_srli_epi32::<28>(word),
                    ),
                ],
                strip,
            );
        }
    }
}

/// The values of two nibbles in the lowest bits (the permutation reads no others), cut to BF16, which holds them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn pair(table: __m512, scale: __m512, even: __m512i, odd: __m512i) -> __m512i {
    let even = _mm512_mul_ps(_mm512_permutexvar_ps(even, table), scale);
    let odd = _mm512_mul_ps(_mm512_permutexvar_ps(odd, table), scale);
    _mm512_or_si512(
        _mm512_srli_epi32::<16>(_mm512_castps_si512(even)),
        _mm512_castps_si512(odd),
    )
}
