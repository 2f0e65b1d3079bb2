//! The keys and values of one layer on the CPU, in chunks, so that growth never copies.

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::kernels::{Keys, LANES, Values, inverse};
use crate::engine::KvType;

/// Positions per chunk.
pub const CHUNK: usize = 256;
/// Heads of a chunk are written by several threads from this many values on.
const MIN_PARALLEL: usize = 1 << 14;

/// `CHUNK` positions of one layer, `[kv_heads, ...]`. Keys lie as the kernels of attention read them, sixteen keys to
/// a vector: `[CHUNK / 16, head_dim / N, 16, N]` with as many values `N` of one key side by side as four bytes hold.
/// Values are `[CHUNK, head_dim]`.
enum Chunk {
    F32 {
        k: Box<[f32]>,
        v: Box<[f32]>,
    },
    Bf16 {
        k: Box<[bf16]>,
        v: Box<[bf16]>,
    },
    /// One scale for each key, `[CHUNK]`, and each value.
    Q8 {
        k: Box<[i8]>,
        v: Box<[i8]>,
        k_scales: Box<[f32]>,
        v_scales: Box<[f32]>,
    },
}

/// Full history of one layer.
pub struct History {
    kv_heads: usize,
    head_dim: usize,
    /// `head_dim` filled up to whole vectors.
    width: usize,
    kv_type: KvType,
    chunks: Vec<Chunk>,
}

/// What one chunk holds of one head.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    pub keys: Keys<'a>,
    /// `[CHUNK, head_dim]`
    pub values: Values<'a>,
    /// What each value has to be multiplied with, where that is not 1.
    pub value_scales: Option<&'a [f32]>,
}

impl History {
    /// An empty history.
    pub const fn new(kv_heads: usize, head_dim: usize, kv_type: KvType) -> Self {
        Self {
            kv_heads,
            head_dim,
            width: head_dim.next_multiple_of(4),
            kv_type,
            chunks: Vec::new(),
        }
    }

    /// The number of key and value heads.
    pub const fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Values of a head.
    pub const fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// `head_dim` filled up to whole vectors: what [`Keys`] want of a query.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Writes k and v, which are the last `2 * kv_heads * head_dim` values of each row of `qkv` `[n, row]`, at
    /// `start..start + n`.
    pub fn write(&mut self, start: usize, qkv: &[f32], row: usize) {
        let n = qkv.len() / row;
        let v_at = row - self.kv_heads * self.head_dim;
        let k_at = v_at - self.kv_heads * self.head_dim;
        while self.chunks.len() * CHUNK < start + n {
            self.chunks.push(self.new_chunk());
        }
        let (d, width, kv_heads) = (self.head_dim, self.width, self.kv_heads);
        let mut done = 0;
        for (chunk, within) in pieces(start..start + n) {
            let len = within.len();
            let rows = &qkv[done * row..][..len * row];
            done += len;
            let of_head = |first: usize, head: usize| {
                let columns = first + head * d..first + (head + 1) * d;
                head_rows(rows, row, columns, within.start)
            };
            match &mut self.chunks[chunk] {
                Chunk::F32 { k: keys, v: values } => {
                    each_head(kv_heads, keys, values, len * d, |head, keys, values| {
                        for (at, k) in of_head(k_at, head) {
                            put_key::<_, 1>(keys, width, at, k.iter().copied());
                        }
                        for (at, v) in of_head(v_at, head) {
                            values[at * d..][..d].copy_from_slice(v);
                        }
                    });
                }
                Chunk::Bf16 { k: keys, v: values } => {
                    let round = |x: &f32| bf16::from_f32(*x);
                    each_head(kv_heads, keys, values, len * d, |head, keys, values| {
                        for (at, k) in of_head(k_at, head) {
                            put_key::<_, 2>(keys, width, at, k.iter().map(round));
                        }
                        for (at, v) in of_head(v_at, head) {
                            put(&mut values[at * d..], v.iter().map(round));
                        }
                    });
                }
                Chunk::Q8 {
                    k: keys,
                    v: values,
                    k_scales,
                    v_scales,
                } => {
                    for head in 0..kv_heads {
                        let keys = &mut keys[head * CHUNK * width..][..CHUNK * width];
                        for (at, k) in of_head(k_at, head) {
                            let (scale, k) = eight_bits(k);
                            k_scales[head * CHUNK + at] = scale;
                            put_key::<_, 4>(keys, width, at, k);
                        }
                        for (at, v) in of_head(v_at, head) {
                            let (scale, v) = eight_bits(v);
                            v_scales[head * CHUNK + at] = scale;
                            put(&mut values[(head * CHUNK + at) * d..], v);
                        }
                    }
                }
            }
        }
    }

    /// Gives back the chunks that hold nothing before `len`.
    pub fn truncate(&mut self, len: usize) {
        self.chunks.truncate(len.div_ceil(CHUNK));
    }

    /// What chunk `chunk` holds of one head: positions `chunk * CHUNK` on.
    pub fn page(&self, chunk: usize, kv_head: usize) -> Page<'_> {
        let keys = kv_head * CHUNK * self.width..(kv_head + 1) * CHUNK * self.width;
        let values = kv_head * CHUNK * self.head_dim..(kv_head + 1) * CHUNK * self.head_dim;
        let scales = kv_head * CHUNK..(kv_head + 1) * CHUNK;
        match &self.chunks[chunk] {
            Chunk::F32 { k, v } => Page {
                keys: Keys::F32(k[keys].as_chunks().0),
                values: Values::F32(&v[values]),
                value_scales: None,
            },
            Chunk::Bf16 { k, v } => Page {
                keys: Keys::Bf16(bytemuck::cast_slice(&k[keys])),
                values: Values::Bf16(bytemuck::cast_slice(&v[values])),
                value_scales: None,
            },
            Chunk::Q8 {
                k,
                v,
                k_scales,
                v_scales,
            } => Page {
                keys: Keys::Q8 {
                    words: bytemuck::cast_slice(&k[keys]),
                    scales: k_scales[scales.clone()].as_chunks().0,
                },
                values: Values::I8(bytemuck::cast_slice(&v[values])),
                value_scales: Some(&v_scales[scales]),
            },
        }
    }

    fn new_chunk(&self) -> Chunk {
        let keys = self.kv_heads * CHUNK * self.width;
        let values = self.kv_heads * CHUNK * self.head_dim;
        match self.kv_type {
            KvType::F32 => Chunk::F32 {
                k: vec![0.0; keys].into(),
                v: vec![0.0; values].into(),
            },
            KvType::Bf16 => Chunk::Bf16 {
                k: vec![bf16::ZERO; keys].into(),
                v: vec![bf16::ZERO; values].into(),
            },
            KvType::Q8 => Chunk::Q8 {
                k: vec![0; keys].into(),
                v: vec![0; values].into(),
                k_scales: vec![0.0; self.kv_heads * CHUNK].into(),
                v_scales: vec![0.0; self.kv_heads * CHUNK].into(),
            },
        }
    }
}

/// The chunks that hold `positions`, and where in each.
pub fn pieces(positions: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    (positions.start / CHUNK..positions.end.div_ceil(CHUNK)).map(move |chunk| {
        let first = chunk * CHUNK;
        (
            chunk,
            positions.start.max(first) - first..positions.end.min(first + CHUNK) - first,
        )
    })
}

/// Calls `write` with the number of each head and its part of the keys and values, on several threads where `values`
/// of them come for each head.
fn each_head<T: Send>(
    kv_heads: usize,
    k: &mut [T],
    v: &mut [T],
    values: usize,
    write: impl Fn(usize, &mut [T], &mut [T]) + Sync,
) {
    let (keys, rows) = (k.len() / kv_heads, v.len() / kv_heads);
    let heads = k
        .par_chunks_exact_mut(keys)
        .zip(v.par_chunks_exact_mut(rows));
    let least = if kv_heads * values < MIN_PARALLEL {
        kv_heads
    } else {
        1
    };
    heads
        .enumerate()
        .with_min_len(least)
        .for_each(|(i, (k, v))| write(i, k, v));
}

/// Some columns of rows of `row` values, with their positions from `start` on.
fn head_rows(
    x: &[f32],
    row: usize,
    columns: Range<usize>,
    start: usize,
) -> impl Iterator<Item = (usize, &[f32])> {
    (start..).zip(x.chunks_exact(row).map(move |x| &x[columns.clone()]))
}

/// Puts the key of position `at` into its lane, `N` values to a vector.
fn put_key<T, const N: usize>(
    keys: &mut [T],
    width: usize,
    at: usize,
    key: impl Iterator<Item = T>,
) {
    let group = &mut keys[at / LANES * LANES * width..][..LANES * width];
    let lane = at % LANES * N;
    for (i, value) in key.enumerate() {
        group[i / N * LANES * N + lane + i % N] = value;
    }
}

fn put<T>(to: &mut [T], values: impl Iterator<Item = T>) {
    for (to, value) in to.iter_mut().zip(values) {
        *to = value;
    }
}

/// A row as multiples of its largest magnitude over 127.
fn eight_bits(row: &[f32]) -> (f32, impl Iterator<Item = i8>) {
    // As integers, where NaN is larger than all others: it is not kept as a number.
    let largest = row.iter().map(|x| x.abs().to_bits()).max();
    let scale = f32::from_bits(largest.unwrap_or(0)) / 127.0;
    let inverse = inverse(scale);
    (
        scale,
        row.iter()
            .map(move |x| (x * inverse).round_ties_even() as i8),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADS: usize = 2;
    const DIM: usize = 4;

    #[test]
    fn nan_anywhere_in_a_row_of_8_bits_stays_nan() {
        for at in 0..4 {
            let mut row = [1.0, -2.0, 0.5, 4.0];
            row[at] = f32::NAN;
            assert!(eight_bits(&row).0.is_nan(), "{row:?}");
        }
        let (scale, codes) = eight_bits(&[1.0, -2.0, 0.5, 4.0]);
        assert_eq!(scale.to_bits(), (4.0_f32 / 127.0).to_bits());
        assert_eq!(codes.collect::<Vec<_>>(), [32, -64, 16, 127]);
    }

    /// What the history holds of one head at `positions`, keys then values.
    fn read(history: &History, head: usize, positions: Range<usize>) -> (Vec<f32>, Vec<f32>) {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (chunk, within) in pieces(positions) {
            let page = history.page(chunk, head);
            for at in within {
                let vector = |n: usize, i: usize| at / LANES * (DIM / n) + i / n;
                for i in 0..DIM {
                    let lane = at % LANES;
                    keys.push(match page.keys {
                        Keys::F32(keys) => keys[vector(1, i)][lane],
                        Keys::Bf16(keys) => bf16_at(&keys[vector(2, i)], 2 * lane + i % 2),
                        Keys::Q8 { words, scales } => {
                            let word = &words[vector(4, i)];
                            f32::from(word[4 * lane + i % 4] as i8) * scales[at / LANES][lane]
                        }
                    });
                    let scale = page.value_scales.map_or(1.0, |scales| scales[at]);
                    values.push(match page.values {
                        Values::F32(values) => values[at * DIM + i],
                        Values::Bf16(values) => bf16_at(values, at * DIM + i),
                        Values::I8(values) => f32::from(values[at * DIM + i] as i8) * scale,
                    });
                }
            }
        }
        (keys, values)
    }

    fn bf16_at(bytes: &[u8], i: usize) -> f32 {
        bf16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]).to_f32()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append(usize),
        Truncate(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1usize..400).prop_map(Step::Append),
            (0usize..900).prop_map(Step::Truncate)
        ];
        proptest::collection::vec(step, 1..12)
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_vector_would(steps in steps(), kv_type in 0_usize..3) {
            let kv_type = [KvType::F32, KvType::Bf16, KvType::Q8][kv_type];
            let mut history = History::new(HEADS, DIM, kv_type);
            // [position][head][dim]; small integers are the same in BF16, and beside 127 in 8 bits.
            let (mut k, mut v): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
            let mut counter = 0usize;
            for step in steps {
                match step {
                    Step::Append(n) => {
                        let start = k.len() / (HEADS * DIM);
                        let new: Vec<f32> = (0..n * HEADS * DIM).map(|i| if (counter + i).is_multiple_of(DIM) { 127.0 } else { ((counter + i) % 127) as f32 }).collect();
                        let negative: Vec<f32> = new.iter().map(|value| -value).collect();
                        // Behind q.
                        let q = [f32::NAN; 3];
                        let rows = new.chunks(HEADS * DIM).zip(negative.chunks(HEADS * DIM));
                        let rows: Vec<f32> = rows.flat_map(|(k, v)| [&q, k, v].concat()).collect();
                        history.write(start, &rows, 3 + 2 * HEADS * DIM);
                        k.extend(&new);
                        v.extend(&negative);
                        counter += n;
                    }
                    Step::Truncate(len) => {
                        let len = len.min(k.len() / (HEADS * DIM));
                        history.truncate(len);
                        k.truncate(len * HEADS * DIM);
                        v.truncate(len * HEADS * DIM);
                    }
                }
                let len = k.len() / (HEADS * DIM);
                for head in 0..HEADS {
                    let of_head = |all: &[f32], range: Range<usize>| -> Vec<f32> {
                        range.flat_map(|p| all[(p * HEADS + head) * DIM..][..DIM].to_vec()).collect()
                    };
                    for range in [0..len, len.saturating_sub(128)..len, len / 3..len / 2] {
                        let expected = (of_head(&k, range.clone()), of_head(&v, range.clone()));
                        prop_assert_eq!(read(&history, head, range), expected, "{:?}", kv_type);
                    }
                }
            }
        }
    }
}
