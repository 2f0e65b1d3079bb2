//! The keys and values of one layer on the CPU, in chunks, so that growth never copies.

use std::ops::Range;

use half::bf16;

use super::kernels::KvRun;
use crate::engine::KvType;

/// Positions per chunk.
const CHUNK: usize = 256;

/// `CHUNK` positions of one layer; k and v are `[kv_heads, CHUNK, head_dim]`, so that one head's keys lie in a row.
enum Chunk {
    Bf16 { k: Box<[bf16]>, v: Box<[bf16]> },
    F32 { k: Box<[f32]>, v: Box<[f32]> },
}

/// Full history of one layer.
pub struct History {
    kv_heads: usize,
    head_dim: usize,
    kv_type: KvType,
    chunks: Vec<Chunk>,
}

impl History {
    /// An empty history.
    pub const fn new(kv_heads: usize, head_dim: usize, kv_type: KvType) -> Self {
        Self {
            kv_heads,
            head_dim,
            kv_type,
            chunks: Vec::new(),
        }
    }

    /// The number of key and value heads.
    pub const fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Writes k and v, both `[n, kv_heads, head_dim]`, at `start..start + n`.
    pub fn write(&mut self, start: usize, k: &[f32], v: &[f32]) {
        let (d, row) = (self.head_dim, self.kv_heads * self.head_dim);
        let n = k.len() / row;
        while self.chunks.len() * CHUNK < start + n {
            self.chunks.push(self.new_chunk());
        }
        for i in 0..n {
            let position = start + i;
            for head in 0..self.kv_heads {
                let from = i * row + head * d..i * row + (head + 1) * d;
                let to = (head * CHUNK + position % CHUNK) * d;
                match &mut self.chunks[position / CHUNK] {
                    Chunk::Bf16 {
                        k: chunk_k,
                        v: chunk_v,
                    } => {
                        round(&k[from.clone()], &mut chunk_k[to..to + d]);
                        round(&v[from], &mut chunk_v[to..to + d]);
                    }
                    Chunk::F32 {
                        k: chunk_k,
                        v: chunk_v,
                    } => {
                        chunk_k[to..to + d].copy_from_slice(&k[from.clone()]);
                        chunk_v[to..to + d].copy_from_slice(&v[from]);
                    }
                }
            }
        }
    }

    /// Gives back the chunks that hold nothing before `len`.
    pub fn truncate(&mut self, len: usize) {
        self.chunks.truncate(len.div_ceil(CHUNK));
    }

    /// The keys and the values of one head at `positions`, in order, as runs that lie in one piece, each with
    /// its number of positions.
    pub fn runs(
        &self,
        kv_head: usize,
        positions: Range<usize>,
    ) -> impl Iterator<Item = (usize, KvRun<'_>, KvRun<'_>)> {
        let d = self.head_dim;
        pieces(positions).map(move |(chunk, within)| {
            let part = (kv_head * CHUNK + within.start) * d..(kv_head * CHUNK + within.end) * d;
            match &self.chunks[chunk] {
                Chunk::Bf16 { k, v } => (
                    within.len(),
                    KvRun::Bf16(&k[part.clone()]),
                    KvRun::Bf16(&v[part]),
                ),
                Chunk::F32 { k, v } => (
                    within.len(),
                    KvRun::F32(&k[part.clone()]),
                    KvRun::F32(&v[part]),
                ),
            }
        })
    }

    /// How many positions each run of [`runs`](Self::runs) has.
    pub fn run_lengths(positions: Range<usize>) -> impl Iterator<Item = usize> {
        pieces(positions).map(|(_, within)| within.len())
    }

    fn new_chunk(&self) -> Chunk {
        let len = self.kv_heads * CHUNK * self.head_dim;
        match self.kv_type {
            KvType::Bf16 => Chunk::Bf16 {
                k: vec![bf16::ZERO; len].into(),
                v: vec![bf16::ZERO; len].into(),
            },
            KvType::F32 => Chunk::F32 {
                k: vec![0.0; len].into(),
                v: vec![0.0; len].into(),
            },
        }
    }
}

/// The chunks that hold `positions`, and where in each.
fn pieces(positions: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    (positions.start / CHUNK..positions.end.div_ceil(CHUNK)).map(move |chunk| {
        let first = chunk * CHUNK;
        (
            chunk,
            positions.start.max(first) - first..positions.end.min(first + CHUNK) - first,
        )
    })
}

fn round(from: &[f32], to: &mut [bf16]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = bf16::from_f32(from);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADS: usize = 2;
    const DIM: usize = 4;

    /// What the history holds of one head at `positions`, keys then values.
    fn read(history: &History, head: usize, positions: Range<usize>) -> (Vec<f32>, Vec<f32>) {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (_, k, v) in history.runs(head, positions) {
            for (run, out) in [(k, &mut keys), (v, &mut values)] {
                match run {
                    KvRun::Bf16(run) => out.extend(run.iter().map(|value| value.to_f32())),
                    KvRun::F32(run) => out.extend_from_slice(run),
                }
            }
        }
        (keys, values)
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
        fn it_holds_what_a_plain_vector_would(steps in steps(), bf16_history in any::<bool>()) {
            let kv_type = if bf16_history { KvType::Bf16 } else { KvType::F32 };
            let mut history = History::new(HEADS, DIM, kv_type);
            // [position][head][dim]; small integers are the same in BF16.
            let (mut k, mut v): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
            let mut counter = 0usize;
            for step in steps {
                match step {
                    Step::Append(n) => {
                        let start = k.len() / (HEADS * DIM);
                        let new: Vec<f32> = (0..n * HEADS * DIM).map(|i| ((counter + i) % 251) as f32).collect();
                        let negative: Vec<f32> = new.iter().map(|value| -value).collect();
                        history.write(start, &new, &negative);
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
                        prop_assert_eq!(read(&history, head, range), expected);
                    }
                }
            }
        }
    }
}
