//! AVX-512 with BF16: products of many tokens at once, activations rounded to BF16, sums in f32.
//!
//! Sixteen rows are brought into a strip, a row to a lane, two columns to a word, and every token passes it. MXFP4
//! values with their scale are exact in BF16. The products themselves are exact; the instruction adds pairs, flushes
//! subnormal numbers to zero and rounds to nearest.
#![allow(unsafe_code)]
#![allow(clippy::unused_self, reason = "`self` proves the instructions")]
#![allow(
    clippy::needless_range_loop,
    reason = "the indices address several arrays"
)]

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_castps_si512, _mm512_dpbf16_ps, _mm512_loadu_ps,
    _mm512_mul_ps, _mm512_or_si512, _mm512_permutexvar_ps, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_srli_epi32, _mm512_storeu_ps,
};

use super::Rows;
use std::ops::Range;

use super::lanes::{Ahead, BLOCK, E2M1, E8M0, LANES};
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
    pub fn dots(self, rows: Rows<'_>, x: &[&[u32]], strips: &mut [Strip; 2], out: &mut [f32]) {
        // SAFETY: `self` exists only where the CPU has the features.
        unsafe { dots(self, rows, x, strips, out) }
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
fn dots(b: Avx512Bf16, rows: Rows<'_>, x: &[&[u32]], strips: &mut [Strip; 2], out: &mut [f32]) {
    let count = out.len() / x.len();
    let mut r = 0;
    while r < count {
        let two = r + 2 * LANES <= count;
        let end = if two { r + 2 * LANES } else { r + LANES };
        for (r, strip) in (r..end).step_by(LANES).zip(&mut *strips) {
            decode(b, rows, count, r, strip);
        }
        let next = bytes(rows, count, end..(end + end - r).min(count));
        let steps = strips[0].len() / LANES * x.len().div_ceil(8);
        let mut ahead = Ahead::new(next, steps);
        let mut out = out.chunks_exact_mut(count);
        if two {
            through(b, [&strips[0], &strips[1]], x, r, &mut ahead, &mut out);
        } else {
            through(b, [&strips[0]], x, r, &mut ahead, &mut out);
        }
        r = end;
    }
}

/// Where the rows are.
fn bytes(rows: Rows<'_>, count: usize, range: Range<usize>) -> &[u8] {
    let bytes = match rows {
        Rows::Bf16(bytes) => bytes,
        Rows::Mxfp4 { blocks, .. } => blocks,
        Rows::F32(_) | Rows::Q8(_) => unreachable!("the caller has BF16 or MXFP4"),
    };
    let row = bytes.len() / count;
    &bytes[range.start * row..range.end * row]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn decode(b: Avx512Bf16, rows: Rows<'_>, count: usize, r: usize, strip: &mut Strip) {
    match rows {
        Rows::Bf16(bytes) => bf16_strip(b, bytes, bytes.len() / count, r, strip),
        Rows::Mxfp4 { blocks, scales } => {
            let row = scales.len() / count;
            let blocks = &blocks.as_chunks().0[r * row..][..LANES * row];
            mxfp4_strip(b, blocks, &scales[r * row..][..LANES * row], row, strip);
        }
        Rows::F32(_) | Rows::Q8(_) => unreachable!("the caller has BF16 or MXFP4"),
    }
}

/// All tokens through `S` strips.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn through<const S: usize>(
    b: Avx512Bf16,
    strips: [&Strip; S],
    x: &[&[u32]],
    r: usize,
    ahead: &mut Ahead<'_>,
    out: &mut std::slice::ChunksExactMut<'_, f32>,
) {
    let (wide, rest) = x.as_chunks::<8>();
    let (fours, rest) = rest.as_chunks::<4>();
    for x in wide {
        put(tile(b, strips, *x, ahead), r, out);
    }
    for x in fours {
        put(tile(b, strips, *x, ahead), r, out);
    }
    match *rest {
        [x, y, z] => put(tile(b, strips, [x, y, z], ahead), r, out),
        [x, y] => put(tile(b, strips, [x, y], ahead), r, out),
        [x] => put(tile(b, strips, [x], ahead), r, out),
        _ => {}
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn put<const S: usize, const T: usize>(
    tile: [[__m512; S]; T],
    r: usize,
    out: &mut std::slice::ChunksExactMut<'_, f32>,
) {
    for sums in tile {
        let Some(out) = out.next() else { return };
        for (out, sums) in out[r..].chunks_exact_mut(LANES).zip(sums) {
            // SAFETY: the store is `out`.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sums) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn tile<const S: usize, const T: usize>(
    b: Avx512Bf16,
    strips: [&Strip; S],
    x: [&[u32]; T],
    ahead: &mut Ahead<'_>,
) -> [[__m512; S]; T] {
    let mut acc = [[_mm512_setzero_ps(); S]; T];
    let len = strips[0].len();
    let mut w = [&strips[0][..]; S];
    for s in 0..S {
        w[s] = &strips[s][..len];
    }
    let mut x = x;
    for x in &mut x {
        *x = &x[..len];
    }
    for i in 0..len {
        if i % LANES == 0 {
            ahead.step(b.0.lanes());
        }
        let mut words = [bits(_mm512_setzero_si512()); S];
        for s in 0..S {
            words[s] = bits(b.0.load_words(&w[s][i]));
        }
        for t in 0..T {
            let x = bits(_mm512_set1_epi32(x[t][i] as i32));
            for s in 0..S {
                acc[t][s] = _mm512_dpbf16_ps(acc[t][s], words[s], x);
            }
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn bf16_strip(b: Avx512Bf16, bytes: &[u8], row: usize, r: usize, strip: &mut Strip) {
    let bytes = &bytes[r * row..][..LANES * row];
    let whole = row / BLOCK * 2;
    strip.resize(row.div_ceil(2 * BLOCK) * LANES, [0; LANES]);
    let (fours, _) = strip.as_chunks_mut::<4>();
    for (c, four) in fours.iter_mut().enumerate() {
        let mut rows = [&[0; LANES]; LANES];
        let mut last = [[0; LANES]; LANES];
        if c < whole {
            for i in 0..LANES {
                rows[i] = &bytes[i * row..][..row].as_chunks().0[c];
            }
        } else {
            for i in 0..LANES {
                let tail = bytes[i * row..][..row].get(c * LANES..).unwrap_or(&[]);
                let tail = &tail[..tail.len().min(LANES)];
                last[i][..tail.len()].copy_from_slice(tail);
            }
            rows = last.each_ref();
        }
        store(b, b.0.transpose(rows), four);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn store(b: Avx512Bf16, words: [__m512i; 4], to: &mut [[i32; LANES]; 4]) {
    for i in 0..4 {
        b.0.store_words(words[i], &mut to[i]);
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
    strip.resize(row * LANES, [0; LANES]);
    let (fours, _) = strip.as_chunks_mut::<4>();
    for (block, fours) in fours.chunks_exact_mut(4).enumerate() {
        let (mut scale, mut rows) = ([0.0; LANES], [&blocks[0]; LANES]);
        for i in 0..LANES {
            scale[i] = E8M0[usize::from(scales[i * row + block])];
            rows[i] = &blocks[i * row + block];
        }
        // SAFETY: the load is `scale`.
        let scale = unsafe { _mm512_loadu_ps(scale.as_ptr()) };
        let words = b.0.transpose(rows);
        for i in 0..4 {
            let word = words[i];
            let pairs = [
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
            ];
            store(b, pairs, &mut fours[i]);
        }
    }
}

/// Words as pairs of BF16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")]
fn bits(words: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits without a meaning of their own.
    unsafe { std::mem::transmute(words) }
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
