//! The model's products over whole matrices, on all threads of the current rayon pool.
//!
//! A product is cut into tasks of rows of the weights; a task takes all its tokens, in blocks that fit the second
//! cache, so that every weight is read from memory once for a token and decoded once for a tile of tokens. The order
//! of additions is that of [`Kernels`]: where nothing is rounded, no result depends on the number of tokens or threads.
//! Rounded, a few tokens and many go through different kernels, whose results differ by what f32 sums differ in another
//! order.

mod input;
#[cfg(test)]
mod tests;

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::kernels::{Columns, Kernels, Rows, Strips, Values};
use crate::checkpoint;
use crate::engine::Compute;
use input::{Gathered, Input};

/// Rows of one call of a kernel.
const ROWS: usize = 64;
/// Rows of a task come in multiples of this, which keeps gate and up together.
const UNIT: usize = 32;
/// Values of the sum over experts that stay in registers.
const SUM: usize = 64;
/// Tasks per thread, so that a thread that was late does not hold up the others.
const TASKS: usize = 16;
/// Fewer multiplications than this are not worth a task.
const MIN_WORK: usize = 1 << 16;

/// Kernels, and how far activations may be rounded for them.
#[derive(Clone, Copy)]
pub struct Arithmetic {
    /// What multiplies.
    pub kernels: Kernels,
    /// What it multiplies with.
    pub compute: Compute,
}

impl Arithmetic {
    /// The same kernels with nothing rounded.
    pub const fn exact(self) -> Self {
        Self {
            compute: Compute::F32,
            ..self
        }
    }
}

/// `y = W x + b`; the bias is little-endian BF16.
#[derive(Clone, Copy)]
pub struct LinearView<'a> {
    /// `[rows, cols]`, BF16 or 8 bits.
    pub weight: Rows<'a>,
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
        Self {
            weight: Rows::Bf16(&weight.bytes),
            bias: None,
            rows: weight.rows(),
            cols: weight.cols(),
        }
    }
    fn matrix(&self) -> Matrix<'a> {
        Matrix {
            weight: Weight::Rows(self.weight),
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

impl Matrix<'_> {
    /// `out[t] = W[rows] x[t]`, `out` `[tokens, rows.len()]`.
    fn apply(
        &self,
        k: &Kernels,
        rows: Range<usize>,
        x: &Gathered<'_>,
        strips: &mut Strips,
        out: &mut [f32],
    ) {
        let cols = self.cols;
        match (self.weight, x) {
            (Weight::Rows(all), Gathered::Split(x)) => {
                k.dots(all.slice(cols, rows.clone()), cols, x, out);
            }
            (Weight::Rows(all), Gathered::Pairs(set, x)) => {
                set.dots(all.slice(cols, rows.clone()), cols, x, strips, out);
            }
            (Weight::Rows(all), Gathered::Int8(set, x)) => {
                set.dots(all.slice(cols, rows.clone()), cols, x, strips, out);
            }
            (Weight::Rows(all), Gathered::Int16(set, x)) => {
                set.dots(all.slice(cols, rows.clone()), cols, x, strips, out);
            }
            (Weight::Columns(bytes), Gathered::Plain(x)) => {
                out.fill(0.0);
                let columns = Columns {
                    values: Values::Bf16(bytes),
                    stride: self.rows,
                    first: rows.start,
                    width: rows.len(),
                };
                k.accumulate(x, cols, cols, columns, out);
            }
            _ => unreachable!("the input was made for this matrix"),
        }
    }

    /// `b[rows]`, zeros where there is none.
    fn bias(&self, rows: Range<usize>) -> [f32; ROWS] {
        let mut bias = [0.0; ROWS];
        if let Some(bytes) = self.bias {
            let bytes = bytes[2 * rows.start..2 * rows.end].as_chunks().0;
            for (bias, bytes) in bias.iter_mut().zip(bytes) {
                *bias = bf16::from_le_bytes(*bytes).to_f32();
            }
        }
        bias
    }
}

/// What a result becomes.
#[derive(Clone, Copy)]
enum Finish {
    Plain,
    /// Gate and up, which alternate, become one; the number is their limit.
    Swiglu(f32),
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

/// The products of all groups in one parallel pass, their biases added, into `y` `[slots, width]`; the results of
/// groups with the same slots lie side by side.
fn products(
    k: &Kernels,
    groups: &[Group<'_>],
    x: &Input<'_>,
    y: &mut [f32],
    width: usize,
    finish: Finish,
) {
    let Some(first) = groups.first() else {
        return;
    };
    let slots = y.len() / width;
    let cols = first.matrix.cols;
    let rows: usize = groups.iter().map(|group| group.matrix.rows).sum();
    let row: usize = groups
        .iter()
        .filter(|group| group.slots == first.slots)
        .map(|group| group.matrix.rows)
        .sum();
    let shrink = row / width;

    let even_share = rows.div_ceil(TASKS * rayon::current_num_threads());
    let tokens: usize = groups.iter().map(|group| group.slots.len()).sum();
    let worth_it = MIN_WORK.div_ceil(cols * tokens.div_ceil(groups.len()));
    let chunk = even_share.max(worth_it).next_multiple_of(UNIT);
    let mut tasks = Vec::with_capacity(groups.len() + rows.div_ceil(chunk));
    let mut first_task = vec![usize::MAX; slots];
    for group in groups {
        for slot in &group.slots {
            first_task[*slot] = first_task[*slot].min(tasks.len());
        }
        let rows = group.matrix.rows;
        tasks.extend((0..rows).step_by(chunk).map(|start| Task {
            matrix: group.matrix,
            inputs: &group.inputs,
            rows: start..rows.min(start + chunk),
            out: Vec::with_capacity(group.slots.len()),
        }));
    }
    for (mut y, first) in y.chunks_exact_mut(width).zip(first_task) {
        for task in &mut tasks[first..] {
            if y.is_empty() {
                break;
            }
            let (piece, rest) = y.split_at_mut(task.rows.len() / shrink);
            task.out.push(piece);
            y = rest;
        }
    }
    if tasks.len() == 1 {
        for task in tasks {
            task.run(k, x, shrink, finish);
        }
    } else {
        tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| task.run(k, x, shrink, finish));
    }
}

impl Task<'_, '_> {
    fn run(self, k: &Kernels, x: &Input<'_>, shrink: usize, finish: Finish) {
        let Self {
            matrix,
            inputs,
            rows,
            mut out,
        } = self;
        let tokens = x.tokens();
        let mut strips = Strips::default();
        let mut result = vec![0.0; tokens.min(inputs.len()) * ROWS.min(rows.len())];
        for (inputs, out) in inputs.chunks(tokens).zip(out.chunks_mut(tokens)) {
            let x = x.gather(matrix.cols, inputs);
            for start in rows.clone().step_by(ROWS) {
                let here = start..rows.end.min(start + ROWS);
                let result = &mut result[..inputs.len() * here.len()];
                matrix.apply(k, here.clone(), &x, &mut strips, result);
                let piece = (here.start - rows.start) / shrink..(here.end - rows.start) / shrink;
                let bias = &matrix.bias(here.clone())[..here.len()];
                for (result, out) in result.chunks_exact(here.len()).zip(&mut *out) {
                    let out = &mut out[piece.clone()];
                    match finish {
                        Finish::Plain => k.add(result, bias, out),
                        Finish::Swiglu(limit) => k.swiglu(result, bias, limit, out),
                    }
                }
            }
        }
    }
}

/// `y = W x + b` for `n` tokens and matrices that read the same input; their results lie side by side.
///
/// # Shapes
/// `x`: `[n, cols]`; `y`: `[n, rows of all parts]`.
pub fn linear(
    arithmetic: Arithmetic,
    x: &[f32],
    n: usize,
    parts: &[LinearView<'_>],
    y: &mut [f32],
) {
    let rows: usize = parts.iter().map(|part| part.rows).sum();
    if parts.is_empty() || n == 0 {
        return;
    }
    for part in parts {
        assert_eq!(
            (x.len(), y.len()),
            (n * part.cols, n * rows),
            "{n} tokens through {rows} x {}",
            part.cols
        );
    }
    let groups: Vec<_> = parts
        .iter()
        .map(|part| Group {
            matrix: part.matrix(),
            inputs: (0..n).collect(),
            slots: (0..n).collect(),
        })
        .collect();
    let matrices: Vec<_> = parts.iter().map(LinearView::matrix).collect();
    let x = Input::new(arithmetic, x, &matrices, n);
    let k = &arithmetic.kernels;
    products(k, &groups, &x, y, rows, Finish::Plain);
}

/// Room for what is between the products of the experts. It is megabytes in prefill, and new memory costs a page fault
/// every four kilobytes.
#[derive(Default)]
pub struct Scratch {
    /// `[tokens, top_k, intermediate]`
    activated: Vec<f32>,
    /// `[tokens, top_k, hidden]`
    outputs: Vec<f32>,
}

/// The experts' MLP: adds to `y` for every token the sum over its chosen experts, in the order given, of
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
    arithmetic: Arithmetic,
    x: &[f32],
    n: usize,
    ids: &[u32],
    weights: &[f32],
    gate_up: &ExpertsView<'_>,
    down: &ExpertsView<'_>,
    limit: f32,
    scratch: &mut Scratch,
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
        return;
    }
    let top_k = ids.len() / n;

    let mut chosen: Vec<Vec<usize>> = vec![Vec::new(); gate_up.experts];
    for (slot, id) in ids.iter().enumerate() {
        chosen[*id as usize].push(slot);
    }
    let used = chosen.iter().filter(|slots| !slots.is_empty()).count();
    let tokens = ids.len() / used;
    let k = &arithmetic.kernels;
    let Scratch { activated, outputs } = scratch;
    activated.resize(ids.len() * intermediate, 0.0);
    let by_token = groups(&chosen, gate_up, |slot| slot / top_k);
    products(
        k,
        &by_token,
        &Input::new(arithmetic, x, &[gate_up.matrix(0)], tokens),
        activated,
        intermediate,
        Finish::Swiglu(limit),
    );

    outputs.resize(ids.len() * hidden, 0.0);
    let by_slot = groups(&chosen, down, |slot| slot);
    products(
        k,
        &by_slot,
        &Input::new(arithmetic, activated, &[down.matrix(0)], tokens),
        outputs,
        hidden,
        Finish::Plain,
    );

    let sum = |((y, outputs), weights): ((&mut [f32], &[f32]), &[f32])| {
        for (i, y) in y.chunks_mut(SUM).enumerate() {
            let mut sum = [0.0; SUM];
            for (output, weight) in outputs.chunks_exact(hidden).zip(weights) {
                for (sum, output) in sum.iter_mut().zip(&output[SUM * i..][..y.len()]) {
                    *sum += weight * output;
                }
            }
            for (y, sum) in y.iter_mut().zip(sum) {
                *y += sum;
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
