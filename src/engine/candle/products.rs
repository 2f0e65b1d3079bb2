//! The model's products over whole matrices, on all threads of the current rayon pool.
//!
//! A product is cut into tasks of rows of the weights; a task takes all its tokens, in blocks that fit the second
//! cache, so that every weight is read from memory once for a token and decoded once for a tile of tokens. The order
//! of additions is that of [`Kernels`]: no result depends on the number of tokens or threads.

#[cfg(test)]
mod tests;

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::kernels::{Activations, Block, Columns, Kernels, Rows, Values};
use crate::checkpoint;

/// Tokens whose activations stay in the second cache while the rows of a task pass by.
const TOKENS: usize = 48;
/// Rows of one call of a kernel.
const ROWS: usize = 64;
/// Rows of a task come in multiples of this, which keeps gate and up together.
const UNIT: usize = 32;
/// Tasks per thread, so that a thread that was late does not hold up the others.
const TASKS: usize = 8;
/// Fewer multiplications than this are not worth a task.
const MIN_WORK: usize = 1 << 16;

/// `y = W x + b`, as stored: little-endian BF16, `weight` `[rows, cols]`, `bias` `[rows]`.
#[derive(Clone, Copy)]
pub struct LinearView<'a> {
    /// `[rows, cols]`
    pub weight: &'a [u8],
    /// `[rows]`
    pub bias: Option<&'a [u8]>,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
}

impl<'a> LinearView<'a> {
    /// A matrix `[rows, cols]` without a bias.
    pub fn unbiased(weight: &'a checkpoint::Bf16) -> Self {
        let rows = weight.shape.first().copied().unwrap_or(0);
        Self {
            weight: &weight.bytes,
            bias: None,
            rows,
            cols: weight.shape.get(1).copied().unwrap_or(1),
        }
    }
    fn matrix(&self) -> Matrix<'a> {
        assert_eq!(
            self.weight.len(),
            2 * self.rows * self.cols,
            "bytes of a matrix {} x {}",
            self.rows,
            self.cols
        );
        let weight = Weight::Rows(Rows::Bf16(self.weight));
        Matrix {
            weight,
            bias: self.bias,
            rows: self.rows,
            cols: self.cols,
        }
    }
}

impl<'a> From<&'a checkpoint::Linear> for LinearView<'a> {
    fn from(linear: &'a checkpoint::Linear) -> Self {
        Self {
            bias: Some(&linear.bias.bytes),
            ..Self::unbiased(&linear.weight)
        }
    }
}

/// One product of all experts, as stored.
#[derive(Clone, Copy)]
pub struct ExpertsView<'a> {
    /// Their number.
    pub experts: usize,
    /// Outputs of one.
    pub rows: usize,
    /// Inputs of one.
    pub cols: usize,
    /// What they multiply with.
    pub weight: ExpertWeightView<'a>,
    /// BF16 `[experts, rows]`
    pub bias: &'a [u8],
}

/// See [`checkpoint::ExpertWeight`].
#[derive(Clone, Copy)]
pub enum ExpertWeightView<'a> {
    /// MXFP4, output-major.
    Mxfp4 {
        /// `[experts, rows, cols / 32, 16]`
        blocks: &'a [u8],
        /// `[experts, rows, cols / 32]`
        scales: &'a [u8],
    },
    /// BF16 `[experts, cols, rows]`: input-major.
    Bf16(&'a [u8]),
}

impl<'a> From<&'a checkpoint::Experts> for ExpertsView<'a> {
    fn from(experts: &'a checkpoint::Experts) -> Self {
        let weight = match &experts.weight {
            checkpoint::ExpertWeight::Mxfp4 { blocks, scales } => {
                ExpertWeightView::Mxfp4 { blocks, scales }
            }
            checkpoint::ExpertWeight::Bf16(weight) => ExpertWeightView::Bf16(&weight.bytes),
        };
        let checkpoint::Experts {
            experts: count,
            rows,
            cols,
            ref bias,
            ..
        } = *experts;
        Self {
            experts: count,
            rows,
            cols,
            weight,
            bias: &bias.bytes,
        }
    }
}

impl<'a> ExpertsView<'a> {
    fn matrix(&self, expert: usize) -> Matrix<'a> {
        let Self {
            experts,
            rows,
            cols,
            weight,
            bias,
        } = *self;
        assert!(expert < experts, "expert {expert} of {experts}");
        let weight = match weight {
            ExpertWeightView::Mxfp4 { blocks, scales } => {
                let all = Rows::Mxfp4 { blocks, scales };
                Weight::Rows(all.slice(cols, expert * rows..(expert + 1) * rows))
            }
            ExpertWeightView::Bf16(bytes) => {
                Weight::Columns(&bytes[2 * rows * cols * expert..][..2 * rows * cols])
            }
        };
        Matrix {
            weight,
            bias: Some(&bias[2 * rows * expert..][..2 * rows]),
            rows,
            cols,
        }
    }
    /// `x` `[n, cols]` in the order the weights want.
    fn input<'x>(&self, x: &'x [f32]) -> Input<'x> {
        match self.weight {
            ExpertWeightView::Mxfp4 { .. } => Input::Split(Activations::new(x, self.cols)),
            ExpertWeightView::Bf16(_) => Input::Plain(x),
        }
    }
}

#[derive(Clone, Copy)]
enum Weight<'a> {
    Rows(Rows<'a>),
    /// BF16 `[cols, rows]`: a row of the matrix is a column of this.
    Columns(&'a [u8]),
}

#[derive(Clone, Copy)]
struct Matrix<'a> {
    weight: Weight<'a>,
    bias: Option<&'a [u8]>,
    rows: usize,
    cols: usize,
}

enum Input<'a> {
    Split(Activations),
    Plain(&'a [f32]),
}

/// The tokens of one block, as a kernel reads them.
enum Gathered<'a> {
    Split(Vec<&'a [Block]>),
    Plain(Vec<f32>),
}

impl Input<'_> {
    fn gather(&self, cols: usize, tokens: &[usize]) -> Gathered<'_> {
        match self {
            Self::Split(x) => Gathered::Split(tokens.iter().map(|t| x.row(*t)).collect()),
            Self::Plain(x) => Gathered::Plain(
                tokens
                    .iter()
                    .flat_map(|t| &x[t * cols..][..cols])
                    .copied()
                    .collect(),
            ),
        }
    }
}

impl Matrix<'_> {
    /// `out[t] = W[rows] x[t] + b[rows]`, `out` `[tokens, rows.len()]`.
    fn apply(&self, k: &Kernels, rows: Range<usize>, x: &Gathered<'_>, out: &mut [f32]) {
        match (self.weight, x) {
            (Weight::Rows(all), Gathered::Split(x)) => {
                k.dots(all.slice(self.cols, rows.clone()), self.cols, x, out);
            }
            (Weight::Columns(bytes), Gathered::Plain(x)) => {
                let values = Values::Bf16(bytes);
                out.fill(0.0);
                k.accumulate_columns(
                    x,
                    Columns {
                        values,
                        stride: self.rows,
                        first: rows.start,
                        width: rows.len(),
                    },
                    out,
                );
            }
            _ => unreachable!("the input was made for this matrix"),
        }
        if let Some(bias) = self.bias {
            let bias = bias[2 * rows.start..2 * rows.end].as_chunks().0;
            for out in out.chunks_exact_mut(rows.len()) {
                for (out, bias) in out.iter_mut().zip(bias) {
                    *out += bf16::from_le_bytes(*bias).to_f32();
                }
            }
        }
    }
}

/// A matrix with all that it is multiplied with: rows `inputs[i]` of the input, for rows `slots[i]` (ascending) of
/// the output.
struct Group<'a> {
    matrix: Matrix<'a>,
    inputs: Vec<usize>,
    slots: Vec<usize>,
}

/// Some rows of a group's product; `out[i]` is the part of row `slots[i]` that they fill.
struct Task<'a, 'y> {
    matrix: Matrix<'a>,
    inputs: &'a [usize],
    rows: Range<usize>,
    out: Vec<&'y mut [f32]>,
}

/// The products of all groups in one parallel pass. `finish` turns a piece of a result into its piece of `y`
/// `[slots, width]`, whose rows are as long as those of the result or half as long.
fn products(
    k: &Kernels,
    groups: &[Group<'_>],
    x: &Input<'_>,
    y: &mut [f32],
    width: usize,
    finish: impl Fn(&mut [f32], &[f32]) + Sync,
) {
    let Some(Matrix { rows, cols, .. }) = groups.first().map(|group| group.matrix) else {
        return;
    };
    let slots = y.len() / width;
    let shrink = rows / width;

    let even_share = (groups.len() * rows).div_ceil(TASKS * rayon::current_num_threads());
    let worth_it = MIN_WORK.div_ceil(cols * slots.div_ceil(groups.len()));
    let chunk = even_share.max(worth_it).next_multiple_of(UNIT);
    let mut tasks = Vec::with_capacity(groups.len() * rows.div_ceil(chunk));
    let mut first_task = vec![0; slots];
    for group in groups {
        for slot in &group.slots {
            first_task[*slot] = tasks.len();
        }
        tasks.extend((0..rows).step_by(chunk).map(|start| Task {
            matrix: group.matrix,
            inputs: &group.inputs,
            rows: start..rows.min(start + chunk),
            out: Vec::with_capacity(group.slots.len()),
        }));
    }
    for (y, first) in y.chunks_exact_mut(width).zip(first_task) {
        for (piece, task) in y.chunks_mut(chunk / shrink).zip(&mut tasks[first..]) {
            task.out.push(piece);
        }
    }
    if tasks.len() == 1 {
        for task in tasks {
            task.run(k, x, shrink, &finish);
        }
    } else {
        tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| task.run(k, x, shrink, &finish));
    }
}

impl Task<'_, '_> {
    fn run(self, k: &Kernels, x: &Input<'_>, shrink: usize, finish: &impl Fn(&mut [f32], &[f32])) {
        let Self {
            matrix,
            inputs,
            rows,
            mut out,
        } = self;
        let mut result = vec![0.0; TOKENS.min(inputs.len()) * ROWS.min(rows.len())];
        for (inputs, out) in inputs.chunks(TOKENS).zip(out.chunks_mut(TOKENS)) {
            let x = x.gather(matrix.cols, inputs);
            for start in rows.clone().step_by(ROWS) {
                let here = start..rows.end.min(start + ROWS);
                let result = &mut result[..inputs.len() * here.len()];
                matrix.apply(k, here.clone(), &x, result);
                let piece = (here.start - rows.start) / shrink..(here.end - rows.start) / shrink;
                for (result, out) in result.chunks_exact(here.len()).zip(&mut *out) {
                    finish(&mut out[piece.clone()], result);
                }
            }
        }
    }
}

/// `y = W x + b` for `n` tokens.
///
/// # Shapes
/// `x`: `[n, cols]`; `y`: `[n, rows]`.
pub fn linear(k: &Kernels, x: &[f32], n: usize, w: &LinearView<'_>, y: &mut [f32]) {
    assert_eq!(
        (x.len(), y.len()),
        (n * w.cols, n * w.rows),
        "{n} tokens through {} x {}",
        w.rows,
        w.cols
    );
    if n == 0 {
        return;
    }
    let group = Group {
        matrix: w.matrix(),
        inputs: (0..n).collect(),
        slots: (0..n).collect(),
    };
    let x = Input::Split(Activations::new(x, w.cols));
    products(k, &[group], &x, y, w.rows, <[f32]>::copy_from_slice);
}

/// The experts' MLP: for every token the sum over its chosen experts, in the order given, of
/// `weight * (down(swiglu(gate_up(x))))`.
///
/// # Shapes
/// `x`, `y`: `[n, hidden]`; `ids`, `weights`: `[n, top_k]`; `gate_up`: `[experts, 2 * intermediate, hidden]`;
/// `down`: `[experts, hidden, intermediate]`.
#[expect(
    clippy::too_many_arguments,
    reason = "they are the operands of one operation"
)]
pub fn experts(
    k: &Kernels,
    x: &[f32],
    n: usize,
    ids: &[u32],
    weights: &[f32],
    gate_up: &ExpertsView<'_>,
    down: &ExpertsView<'_>,
    limit: f32,
    y: &mut [f32],
) {
    let (hidden, intermediate) = (gate_up.cols, down.cols);
    assert_eq!(
        (gate_up.rows, down.rows),
        (2 * intermediate, hidden),
        "shapes of gate_up and down"
    );
    assert_eq!(
        (x.len(), y.len()),
        (n * hidden, n * hidden),
        "{n} tokens of {hidden}"
    );
    assert_eq!(ids.len(), weights.len(), "a weight for each chosen expert");
    if ids.is_empty() {
        y.fill(0.0);
        return;
    }
    let top_k = ids.len() / n;

    let mut chosen: Vec<Vec<usize>> = vec![Vec::new(); gate_up.experts];
    for (slot, id) in ids.iter().enumerate() {
        chosen[*id as usize].push(slot);
    }
    let mut activated = vec![0.0; ids.len() * intermediate];
    let by_token = groups(&chosen, gate_up, |slot| slot / top_k);
    products(
        k,
        &by_token,
        &gate_up.input(x),
        &mut activated,
        intermediate,
        |out, gate_up| swiglu(gate_up, limit, out),
    );

    let mut outputs = vec![0.0; ids.len() * hidden];
    let by_slot = groups(&chosen, down, |slot| slot);
    products(
        k,
        &by_slot,
        &down.input(&activated),
        &mut outputs,
        hidden,
        <[f32]>::copy_from_slice,
    );

    let sum = |((y, outputs), weights): ((&mut [f32], &[f32]), &[f32])| {
        y.fill(0.0);
        for (output, weight) in outputs.chunks_exact(hidden).zip(weights) {
            for (y, output) in y.iter_mut().zip(output) {
                *y += weight * output;
            }
        }
    };
    y.par_chunks_exact_mut(hidden)
        .zip(outputs.par_chunks_exact(top_k * hidden))
        .zip(weights.par_chunks_exact(top_k))
        .with_min_len(16)
        .for_each(sum);
}

/// A group for each expert that was chosen; `input` tells the row of the input that a slot reads.
fn groups<'a>(
    chosen: &[Vec<usize>],
    view: &ExpertsView<'a>,
    input: impl Fn(usize) -> usize,
) -> Vec<Group<'a>> {
    let used = chosen
        .iter()
        .enumerate()
        .filter(|(_, slots)| !slots.is_empty());
    used.map(|(expert, slots)| Group {
        matrix: view.matrix(expert),
        inputs: slots.iter().map(|slot| input(*slot)).collect(),
        slots: slots.clone(),
    })
    .collect()
}

/// The gated activation of gpt-oss: `gate * sigmoid(1.702 * gate) * (up + 1)`, gate clamped from above and up from
/// both sides. `gate_up` alternates gate and up and is twice as long as `out`. NaN stays NaN.
pub fn swiglu(gate_up: &[f32], limit: f32, out: &mut [f32]) {
    const ALPHA: f32 = 1.702;
    for (out, [gate, up]) in out.iter_mut().zip(gate_up.as_chunks().0) {
        let gate = if *gate > limit { limit } else { *gate };
        let up = up.clamp(-limit, limit);
        *out = gate * (1.0 / (1.0 + (-ALPHA * gate).exp())) * (up + 1.0);
    }
}

/// `y = x / sqrt(mean(x^2) + eps) * gain`, row by row.
///
/// # Shapes
/// `x`, `y`: `[n, hidden]`; `gain`: `[hidden]`.
pub fn rms_norm(x: &[f32], gain: &[f32], eps: f32, y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "values in and out");
    let hidden = gain.len();
    let row = |(x, y): (&[f32], &mut [f32])| {
        let scale = 1.0 / (sum_of_squares(x) / hidden as f32 + eps).sqrt();
        for ((y, x), gain) in y.iter_mut().zip(x).zip(gain) {
            *y = x * scale * gain;
        }
    };
    x.par_chunks_exact(hidden)
        .zip(y.par_chunks_exact_mut(hidden))
        .with_min_len(16)
        .for_each(row);
}

/// In sixteen partial sums, which the compiler vectorises.
fn sum_of_squares(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x * x;
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|x| x * x).sum::<f32>()
}

/// The rotary embedding over the two halves of a head, in place:
/// `(a, b) -> (a cos - b sin, b cos + a sin)` with `a` from the first half and `b` from the second.
///
/// # Shapes
/// `x`: `[n, heads, head_dim]`; `cos`, `sin`: `[n, head_dim / 2]`.
pub fn rotate(x: &mut [f32], heads: usize, head_dim: usize, cos: &[f32], sin: &[f32]) {
    let half = head_dim / 2;
    assert_eq!(cos.len(), sin.len(), "cosines and sines");
    assert_eq!(
        x.len() / (heads * head_dim) * half,
        cos.len(),
        "a row of cosines for each token"
    );
    let tokens = x.chunks_exact_mut(heads * head_dim);
    for ((x, cos), sin) in tokens
        .zip(cos.chunks_exact(half))
        .zip(sin.chunks_exact(half))
    {
        for x in x.chunks_exact_mut(head_dim) {
            let (a, b) = x.split_at_mut(half);
            for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}
