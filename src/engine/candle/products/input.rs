//! Activations in the form that the kernels want for a weight.

use rayon::prelude::*;

use super::super::kernels::{Activations, Bf16, Block, Integers, Pairs, Quad, Quantized, Rows};
use super::{Arithmetic, Matrix, Weight};
use crate::engine::Compute;

/// Tokens whose activations stay in the second cache while the rows of a task pass by, as f32 and rounded.
const TOKENS: usize = 48;
const ROUNDED_TOKENS: usize = 96;
/// Tokens of a group from which on BF16 products are worth the decoding of their weights.
const PAIR_TOKENS: usize = 4;
/// Fewer activations than this are rounded by one thread.
const MIN_ROUNDING: usize = 1 << 14;
/// The activations of all tokens, in the form that the kernels want for a weight.
pub enum Input<'a> {
    Split(Activations),
    Plain(&'a [f32]),
    Pairs(Bf16, Pairs),
    Int8(Integers, Quantized<1>),
    Int16(Integers, Quantized<2>),
}

/// The tokens of one block, as a kernel reads them.
pub enum Gathered<'a> {
    Split(Vec<&'a [Block]>),
    Plain(Vec<f32>),
    Pairs(Bf16, Vec<&'a [u32]>),
    Int8(Integers, Vec<&'a [Quad<1>]>),
    Int16(Integers, Vec<&'a [Quad<2>]>),
}

impl<'a> Input<'a> {
    /// `x` `[n, cols]` for products with `matrices`, alike but for their rows, of which one has about `tokens` tokens.
    pub fn new(
        arithmetic: Arithmetic,
        x: &'a [f32],
        matrices: &[Matrix<'_>],
        tokens: usize,
    ) -> Self {
        let Arithmetic { kernels, compute } = arithmetic;
        let matrix = matrices[0];
        let Weight::Rows(rows) = matrix.weight else {
            return Self::Plain(x);
        };
        let whole = |matrix: &Matrix<'_>| matrix.rows.is_multiple_of(Bf16::ROWS);
        let many = tokens >= PAIR_TOKENS && matrices.iter().all(whole);
        let pairs = kernels.bf16.filter(|_| many);
        match (compute, rows, kernels.integers, pairs) {
            (Compute::Bf16, Rows::Bf16(_) | Rows::Mxfp4 { .. }, _, Some(set))
            | (Compute::Int8, Rows::Bf16(_), _, Some(set)) => {
                let mut pairs = Pairs::zeros(x.len() / matrix.cols, matrix.cols);
                round_rows(x, matrix.cols, pairs.rows_mut(), |x, row| set.round(x, row));
                Self::Pairs(set, pairs)
            }
            (Compute::Int8, Rows::Mxfp4 { .. } | Rows::Q8(_), Some(set), _) => {
                Self::Int8(set, quantized(set, rows, x, matrix.cols))
            }
            (Compute::Int16 | Compute::Bf16, Rows::Mxfp4 { .. } | Rows::Q8(_), Some(set), _) => {
                Self::Int16(set, quantized(set, rows, x, matrix.cols))
            }
            _ => Self::Split(Activations::new(x, matrix.cols)),
        }
    }

    /// Tokens that a task takes at a time.
    pub const fn tokens(&self) -> usize {
        match self {
            Self::Split(_) | Self::Plain(_) => TOKENS,
            Self::Pairs(..) | Self::Int8(..) | Self::Int16(..) => ROUNDED_TOKENS,
        }
    }

    pub fn gather(&self, cols: usize, tokens: &[usize]) -> Gathered<'_> {
        match self {
            Self::Split(x) => Gathered::Split(tokens.iter().map(|t| x.row(*t)).collect()),
            Self::Plain(x) => Gathered::Plain(
                tokens
                    .iter()
                    .flat_map(|t| &x[t * cols..][..cols])
                    .copied()
                    .collect(),
            ),
            Self::Pairs(set, x) => {
                Gathered::Pairs(*set, tokens.iter().map(|t| x.row(*t)).collect())
            }
            Self::Int8(set, x) => Gathered::Int8(*set, tokens.iter().map(|t| x.row(*t)).collect()),
            Self::Int16(set, x) => {
                Gathered::Int16(*set, tokens.iter().map(|t| x.row(*t)).collect())
            }
        }
    }
}

fn quantized<const P: usize>(
    set: Integers,
    rows: Rows<'_>,
    x: &[f32],
    cols: usize,
) -> Quantized<P> {
    let grid = set.grid(rows);
    let mut quantized = Quantized::zeros(x.len() / cols, cols);
    round_rows(x, cols, quantized.rows_mut(), |x, row| {
        set.quantize(x, grid, row);
    });
    quantized
}

/// Rounds every row of `x` into its place, on all threads where there are many.
fn round_rows<T: Send>(
    x: &[f32],
    cols: usize,
    rows: std::slice::ChunksExactMut<'_, T>,
    round: impl Fn(&[f32], &mut [T]) + Sync,
) {
    let rows = x.chunks_exact(cols).zip(rows);
    if x.len() < MIN_ROUNDING {
        rows.for_each(|(x, row)| round(x, row));
    } else {
        let rows: Vec<_> = rows.collect();
        rows.into_par_iter().for_each(|(x, row)| round(x, row));
    }
}
