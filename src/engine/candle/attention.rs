//! Attention on the CPU: one task per query and key head, over the keys the query may see and no others.

use std::ops::Range;

use rayon::prelude::*;

use super::history::History;
use super::kernels::Kernels;
use crate::engine::cache::visible;

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

impl Attention<'_> {
    /// Attention of q, `[n, heads, head_dim]`, into `out` of the same shape.
    ///
    /// A query's result depends on its keys alone, in the order of their positions, and not on what else is in
    /// the batch: prefill and decode give the same bits.
    pub fn run(&self, q: &[f32], out: &mut [f32]) {
        let (heads, kv_heads) = (self.sinks.len(), self.history.kv_heads());
        // Query heads that share a key head lie side by side.
        let group = heads / kv_heads;
        let width = group * self.head_dim;
        out.par_chunks_mut(width)
            .zip(q.par_chunks(width))
            .enumerate()
            .for_each_init(Vec::new, |scores, (task, (out, q))| {
                let (query, kv_head) = (task / kv_heads, task % kv_heads);
                let sinks = &self.sinks[kv_head * group..(kv_head + 1) * group];
                self.one(self.start + query, kv_head, q, sinks, scores, out);
            });
    }

    /// The query heads of one key head at one position.
    fn one(
        &self,
        position: usize,
        kv_head: usize,
        q: &[f32],
        sinks: &[f32],
        scores: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let (group, d) = (sinks.len(), self.head_dim);
        let keys = visible(position, self.window);
        let scale = 1.0 / (d as f32).sqrt();

        // Scores of one run of keys after the other, each `[group, run]`.
        scores.clear();
        scores.resize(group * keys.len(), 0.0);
        let mut rest = scores.as_mut_slice();
        for (n, k, _) in self.history.runs(kv_head, keys.clone()) {
            let (run, after) = rest.split_at_mut(group * n);
            self.kernels.scores(q, d, k, scale, run);
            rest = after;
        }

        // p = exp(l - m) / (Σ exp(l - m) + exp(sink - m)), where m is the largest of all l and the sink.
        let mut largest = sinks.to_vec();
        for (head, run) in per_head(group, keys.clone(), scores) {
            largest[head] = run.iter().copied().fold(largest[head], f32::max);
        }
        let mut sums: Vec<f32> = sinks
            .iter()
            .zip(&largest)
            .map(|(sink, largest)| (sink - largest).exp())
            .collect();
        for (head, run) in per_head(group, keys.clone(), scores) {
            for score in run {
                *score = (*score - largest[head]).exp();
                sums[head] += *score;
            }
        }

        out.fill(0.0);
        let mut rest = scores.as_slice();
        for (n, _, v) in self.history.runs(kv_head, keys) {
            let (run, after) = rest.split_at(group * n);
            self.kernels.accumulate(run, v, d, out);
            rest = after;
        }
        for (out, sum) in out.chunks_exact_mut(d).zip(&sums) {
            for value in out {
                *value /= sum;
            }
        }
    }
}

/// The scores of each query head in each run of keys, in the order of the keys.
fn per_head(
    group: usize,
    keys: Range<usize>,
    scores: &mut [f32],
) -> impl Iterator<Item = (usize, &mut [f32])> {
    let mut rest = scores;
    History::run_lengths(keys).flat_map(move |run| {
        let (scores, after) = std::mem::take(&mut rest).split_at_mut(group * run);
        rest = after;
        scores.chunks_exact_mut(run).enumerate()
    })
}

#[cfg(test)]
mod tests;
