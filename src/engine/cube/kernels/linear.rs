//! `y = x Wᵀ + b`, for a dense weight in BF16 or rounded to 8 bits; also of the RMSNorm of x.

mod matrix;
mod matvec;
mod tiled;

use cubecl::prelude::*;

pub use matrix::{BLOCK, Kind, Matrix, Piece, Q8Rows, piece_rows, q8_from_bf16};
pub(super) use matrix::{Weight, unpacked, vector_values};

use super::norm::{Norm, rms_norm};
use super::{Buffer, Gpu};

/// The most tokens for which reading the weight for every eight of them costs less than a tile does.
const FEW_TOKENS: usize = 16;

/// `y = x Wᵀ + b (+ residual)`: x `[n, cols]`, y and the residual `[n, rows]`, all f32. `y` is none of the others.
pub fn linear<R: Runtime>(
    gpu: &Gpu<R>,
    x: &Buffer,
    matrix: &Matrix,
    residual: Option<&Buffer>,
    y: &Buffer,
) {
    let n = checked_tokens(x, matrix, residual, y);
    for piece in &matrix.pieces {
        if n <= FEW_TOKENS {
            matvec::launch(gpu, x, None, matrix, piece, residual, y);
        } else {
            let tile = tiled::Tile::new(piece.rows.len(), n);
            tiled::launch(gpu, x, matrix, piece, residual, y, tile);
        }
    }
}

/// `y = t Wᵀ + b`, where `t` is the norm of x: x and t `[n, cols]`, y `[n, rows]`, all f32. Neither `y` nor `t` is one of
/// the others.
///
/// For few tokens the norm costs no launch of its own.
pub fn norm_linear<R: Runtime>(
    gpu: &Gpu<R>,
    x: &Buffer,
    norm: Norm<'_>,
    matrix: &Matrix,
    y: &Buffer,
) {
    let n = checked_tokens(x, matrix, None, y);
    if n > FEW_TOKENS {
        let t = norm.t.map_or_else(|| gpu.empty(x.len), Buffer::clone);
        rms_norm(gpu, x, norm.gain, norm.eps, &t);
        return linear(gpu, &t, matrix, None, y);
    }
    assert_eq!(norm.gain.len, matrix.cols, "a gain for each column");
    if let Some(t) = norm.t {
        assert_eq!(t.len, x.len, "t is not like x");
    }
    for piece in &matrix.pieces {
        let t = norm.t.filter(|_| piece.rows.start == 0);
        let norm = Norm { t, ..norm };
        matvec::launch(gpu, x, Some(norm), matrix, piece, None, y);
    }
}

/// How many tokens x has, where all lengths fit together.
fn checked_tokens(x: &Buffer, matrix: &Matrix, residual: Option<&Buffer>, y: &Buffer) -> usize {
    let n = x.len / matrix.cols;
    assert!(
        n > 0 && x.len == n * matrix.cols,
        "x is not [n, {}]",
        matrix.cols
    );
    assert_eq!(y.len, n * matrix.rows, "y is not [{n}, {}]", matrix.rows);
    if let Some(residual) = residual {
        assert_eq!(residual.len, y.len, "the residual is not like y");
    }
    // Kernels count words in u32.
    assert!(x.len.max(y.len) < 1 << 31, "{n} tokens at once");
    n
}

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
