//! `y = x Wᵀ + b`, for a dense weight in BF16 or rounded to 8 bits.

mod matrix;
mod matvec;

use cubecl::prelude::*;

pub use matrix::{Kind, Matrix, Piece, Q8Rows, piece_rows, q8_from_bf16};

use super::{Buffer, Gpu};

/// `y = x Wᵀ + b (+ residual)`: x `[n, cols]`, y and the residual `[n, rows]`, all f32. `y` is none of the others.
pub fn linear<R: Runtime>(
    gpu: &Gpu<R>,
    x: &Buffer,
    matrix: &Matrix,
    residual: Option<&Buffer>,
    y: &Buffer,
) {
    let n = x.len / matrix.cols;
    assert!(n > 0 && x.len == n * matrix.cols, "x is not [n, {}]", matrix.cols);
    assert_eq!(y.len, n * matrix.rows, "y is not [{n}, {}]", matrix.rows);
    if let Some(residual) = residual {
        assert_eq!(residual.len, y.len);
    }
    for piece in &matrix.pieces {
        matvec::launch(gpu, x, matrix, piece, residual, y);
    }
}

#[cfg(test)]
mod tests;
