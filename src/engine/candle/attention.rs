//! Attention on the CPU: one task for the query heads of a key head at a few positions, over the keys they may see.

use std::ops::Range;

use rayon::prelude::*;

use super::history::{CHUNK, History, pieces};
use super::kernels::{Columns, Kernels, LANES};
use crate::engine::cache::visible;

/// Positions of a task: the keys of a chunk are brought into registers once for all of them.
const QUERIES: usize = 8;

/// What attention reads and how it is divided.
pub struct Attention<'a> {
    pub kernels: &'a Kernels,
    pub history: &'a History,
    /// Position of the first query.
    pub start: usize,
    pub window: Option<usize>,
    /// One logit per query head: it takes its share of the softmax and adds no value.
    pub sinks: &'a [f32],
    pub head_dim: usize,
}

/// The queries of one task, and where their results go, `[group * head_dim]` each.
struct Task<'a, 'y> {
    /// The first position.
    position: usize,
    kv_head: usize,
    q: Vec<&'a [f32]>,
    out: Vec<&'y mut [f32]>,
}

/// The softmax of each row of a task as far as it has come (Milakov and Gimelshein, Online normalizer calculation for
/// softmax, 2018).
#[derive(Default)]
struct Rows {
    /// Queries times `1 / sqrt(head_dim)`, `[rows, width]`.
    q: Vec<f32>,
    /// The largest logit so far.
    largest: Vec<f32>,
    /// The sum of `e^(logit - largest)`.
    sum: Vec<f32>,
    /// Logits of one chunk, `[rows, CHUNK]`.
    scores: Vec<f32>,
    /// The weighted sums of values, `[rows, head_dim]`.
    acc: Vec<f32>,
}

impl Attention<'_> {
    /// Attention of q, `[n, heads, head_dim]`, into `out` of the same shape.
    ///
    /// A query's result depends on its keys alone, in the order of their positions, and not on what else is in
    /// the batch: prefill and decode give the same bits.
    pub fn run(&self, q: &[f32], out: &mut [f32]) {
        let kv_heads = self.history.kv_heads();
        // Query heads that share a key head lie side by side.
        let group = self.sinks.len() / kv_heads;
        let width = group * self.head_dim;
        let n = q.len() / (kv_heads * width);
        let mut tasks: Vec<Task<'_, '_>> = (0..n.div_ceil(QUERIES) * kv_heads)
            .map(|task| Task {
                position: self.start + task / kv_heads * QUERIES,
                kv_head: task % kv_heads,
                q: Vec::with_capacity(QUERIES),
                out: Vec::with_capacity(QUERIES),
            })
            .collect();
        for (i, (q, out)) in q.chunks(width).zip(out.chunks_mut(width)).enumerate() {
            let (query, kv_head) = (i / kv_heads, i % kv_heads);
            let task = &mut tasks[query / QUERIES * kv_heads + kv_head];
            task.q.push(q);
            task.out.push(out);
        }
        tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each_init(Rows::default, |rows, task| self.task(task, rows));
    }

    fn task(&self, task: Task<'_, '_>, rows: &mut Rows) {
        let d = self.head_dim;
        let group = self.sinks.len() / self.history.kv_heads();
        let sinks = &self.sinks[task.kv_head * group..(task.kv_head + 1) * group];
        rows.start(&task.q, sinks, d, self.history.width());

        let last = task.position + task.q.len() - 1;
        let keys = visible(task.position, self.window).start..last + 1;
        for (chunk, within) in pieces(keys) {
            let page = self.history.page(chunk, task.kv_head);
            let first = chunk * CHUNK;
            let groups = within.start / LANES..within.end.div_ceil(LANES);
            let column = groups.start * LANES;
            let used = within.start - column..within.end - column;
            let width = self.history.width();
            self.kernels.scores(
                &rows.q,
                width,
                page.keys.slice(width, groups),
                &mut rows.scores,
                CHUNK,
            );
            for (row, scores) in rows.scores.chunks_exact_mut(CHUNK).enumerate() {
                let seen = visible(task.position + row / group, self.window);
                let seen = clip(seen, first + column, &used);
                scores[used.start..seen.start].fill(0.0);
                scores[seen.end..used.end].fill(0.0);
                let scores = &mut scores[seen];
                let largest = self.kernels.largest(scores, rows.largest[row]);
                if largest > rows.largest[row] {
                    let less = (rows.largest[row] - largest).exp();
                    rows.largest[row] = largest;
                    rows.sum[row] *= less;
                    for value in &mut rows.acc[row * d..][..d] {
                        *value *= less;
                    }
                }
                rows.sum[row] += self.kernels.exponentials(scores, largest);
            }
            if let Some(scales) = page.value_scales {
                let scales = &scales[within.clone()];
                for scores in rows.scores.chunks_exact_mut(CHUNK) {
                    for (score, scale) in scores[used.clone()].iter_mut().zip(scales) {
                        *score *= scale;
                    }
                }
            }
            let values = Columns {
                values: page.values.slice(d, within),
                stride: d,
                first: 0,
                width: d,
            };
            self.kernels.accumulate(
                &rows.scores[used.start..],
                CHUNK,
                used.len(),
                values,
                &mut rows.acc,
            );
        }
        let width = group * d;
        for ((out, acc), sums) in task
            .out
            .into_iter()
            .zip(rows.acc.chunks_exact(width))
            .zip(rows.sum.chunks_exact(group))
        {
            for ((out, acc), sum) in out.chunks_exact_mut(d).zip(acc.chunks_exact(d)).zip(sums) {
                for (out, acc) in out.iter_mut().zip(acc) {
                    *out = acc / sum;
                }
            }
        }
    }
}

impl Rows {
    /// Nothing seen but the sinks, whose share is `e^0` when they are the largest.
    fn start(&mut self, q: &[&[f32]], sinks: &[f32], d: usize, width: usize) {
        let rows = q.len() * sinks.len();
        let scale = 1.0 / (d as f32).sqrt();
        self.q.clear();
        self.q.resize(rows * width, 0.0);
        let heads = q.iter().flat_map(|q| q.chunks_exact(d));
        for (to, q) in self.q.chunks_exact_mut(width).zip(heads) {
            for (to, q) in to.iter_mut().zip(q) {
                *to = q * scale;
            }
        }
        self.largest.clear();
        self.largest.extend(q.iter().flat_map(|_| sinks));
        self.sum.clear();
        self.sum.resize(rows, 1.0);
        self.scores.resize(rows * CHUNK, 0.0);
        self.acc.clear();
        self.acc.resize(rows * d, 0.0);
    }
}

/// Columns of `used` that hold the positions `seen`, where column 0 is position `first`.
fn clip(seen: Range<usize>, first: usize, used: &Range<usize>) -> Range<usize> {
    let start = seen.start.saturating_sub(first).clamp(used.start, used.end);
    let end = seen.end.saturating_sub(first).clamp(start, used.end);
    start..end
}

#[cfg(test)]
mod tests;
