//! Attention logits, sixteen keys to a vector, written once for all instruction sets, see [`super::dots`].
#![allow(
    clippy::needless_range_loop,
    reason = "the indices address several arrays"
)]

use std::ops::Range;

use super::lanes::{LANES, Lanes};

/// Keys of one head in groups of sixteen, a key to a lane; `width` is that of a key, a multiple of four.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    /// `[groups, width, 16]`
    F32(&'a [[f32; LANES]]),
    /// `[groups, width / 2, 16, 2]` in BF16
    Bf16(&'a [[u8; 4 * LANES]]),
    /// `[groups, width / 4, 16, 4]` in 8 bits, to be multiplied with the scale of the key.
    Q8 {
        /// The values.
        words: &'a [[u8; 4 * LANES]],
        /// `[groups, 16]`
        scales: &'a [[f32; LANES]],
    },
}

impl Keys<'_> {
    /// Groups of `range`.
    pub fn slice(self, width: usize, range: Range<usize>) -> Self {
        let cut = |n: usize| range.start * (width / n)..range.end * (width / n);
        match self {
            Self::F32(values) => Self::F32(&values[cut(1)]),
            Self::Bf16(words) => Self::Bf16(&words[cut(2)]),
            Self::Q8 { words, scales } => Self::Q8 {
                words: &words[cut(4)],
                scales: &scales[range],
            },
        }
    }
    /// Their number.
    pub fn groups(self, width: usize) -> usize {
        match self {
            Self::F32(values) => values.len() / width,
            Self::Bf16(words) => words.len() / (width / 2),
            Self::Q8 { scales, .. } => scales.len(),
        }
    }
}

/// `out[r, i] = q[r] . keys[i]`, `T` rows at a time; rows of `out` have `stride` values. The order of additions is
/// that of the columns, even and odd ones apart.
#[inline(always)]
pub fn scores<L: Lanes, const T: usize>(
    l: L,
    q: &[f32],
    width: usize,
    keys: Keys<'_>,
    out: &mut [f32],
    stride: usize,
) {
    match keys {
        Keys::F32(values) => {
            for (g, group) in values.chunks_exact(width).enumerate() {
                rows::<_, _, T>(l, q, width, F32(group), None, &mut out[g * LANES..], stride);
            }
        }
        Keys::Bf16(words) => {
            for (g, group) in words.chunks_exact(width / 2).enumerate() {
                rows::<_, _, T>(
                    l,
                    q,
                    width,
                    Bf16(group),
                    None,
                    &mut out[g * LANES..],
                    stride,
                );
            }
        }
        Keys::Q8 { words, scales } => {
            for (g, (group, scales)) in words.chunks_exact(width / 4).zip(scales).enumerate() {
                let out = &mut out[g * LANES..];
                rows::<_, _, T>(l, q, width, Q8(group), Some(scales), out, stride);
            }
        }
    }
}

#[inline(always)]
fn rows<L: Lanes, G: Group, const T: usize>(
    l: L,
    q: &[f32],
    width: usize,
    group: G,
    scales: Option<&[f32; LANES]>,
    out: &mut [f32],
    stride: usize,
) {
    let whole = q.len() / width / T * T;
    let (wide, rest) = q.split_at(whole * width);
    for (i, q) in wide.chunks_exact(T * width).enumerate() {
        let q: [&[f32]; T] = std::array::from_fn(|t| &q[t * width..][..width]);
        put(
            l,
            tile(l, q, group),
            scales,
            &mut out[i * T * stride..],
            stride,
        );
    }
    for (i, q) in rest.chunks_exact(width).enumerate() {
        put(
            l,
            tile(l, [q], group),
            scales,
            &mut out[(whole + i) * stride..],
            stride,
        );
    }
}

#[inline(always)]
fn put<L: Lanes, const T: usize>(
    l: L,
    sums: [L::V; T],
    scales: Option<&[f32; LANES]>,
    out: &mut [f32],
    stride: usize,
) {
    for t in 0..T {
        let Some(out) = out[t * stride..].first_chunk_mut() else {
            return;
        };
        let sums = match scales {
            Some(scales) => l.mul_add(sums[t], l.load(scales), l.splat(0.0)),
            None => sums[t],
        };
        l.store(sums, out);
    }
}

#[inline(always)]
fn tile<L: Lanes, G: Group, const T: usize>(l: L, q: [&[f32]; T], group: G) -> [L::V; T] {
    // Even and odd columns apart: half as long chains of additions, for speed and for precision.
    let mut acc = [[l.splat(0.0); 2]; T];
    let len = group.len();
    let q = q.map(|q| &q[..len * G::N]);
    for i in 0..len {
        let keys = group.load(l, i);
        for n in 0..G::N {
            let column = i * G::N + n;
            for t in 0..T {
                let sum = &mut acc[t][column % 2];
                *sum = l.mul_add(keys[n], l.splat(q[t][column]), *sum);
            }
        }
    }
    let one = l.splat(1.0);
    let mut sums = [one; T];
    for t in 0..T {
        sums[t] = l.mul_add(acc[t][0], one, acc[t][1]);
    }
    sums
}

/// Sixteen keys.
trait Group: Copy {
    /// Columns that lie side by side.
    const N: usize;
    /// Columns over `N`.
    fn len(self) -> usize;
    /// Columns `i * N ..`, of which the first `N` count.
    fn load<L: Lanes>(self, l: L, i: usize) -> [L::V; 4];
}

#[derive(Clone, Copy)]
struct F32<'a>(&'a [[f32; LANES]]);

impl Group for F32<'_> {
    const N: usize = 1;
    #[inline(always)]
    fn len(self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn load<L: Lanes>(self, l: L, i: usize) -> [L::V; 4] {
        [l.load(&self.0[i]); 4]
    }
}

#[derive(Clone, Copy)]
struct Bf16<'a>(&'a [[u8; 4 * LANES]]);

impl Group for Bf16<'_> {
    const N: usize = 2;
    #[inline(always)]
    fn len(self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn load<L: Lanes>(self, l: L, i: usize) -> [L::V; 4] {
        let [first, second] = l.split_bf16(&self.0[i]);
        [first, second, first, second]
    }
}

#[derive(Clone, Copy)]
struct Q8<'a>(&'a [[u8; 4 * LANES]]);

impl Group for Q8<'_> {
    const N: usize = 4;
    #[inline(always)]
    fn len(self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn load<L: Lanes>(self, l: L, i: usize) -> [L::V; 4] {
        l.split_i8(&self.0[i])
    }
}
