//! The weights of a checkpoint on a device, as its kernels read them: packed as they are, in pieces that it can bind.

use std::ops::Range;

use cubecl::prelude::*;

use super::kernels::experts::{self, ExpertWeights};
use super::kernels::linear::{self, Kind, Matrix, q8_from_bf16};
use super::kernels::{Buffer, Gpu};
use super::transfer::Upload;
use crate::checkpoint::{Bf16, ExpertWeight, Experts, Linear};
use crate::engine::Dense;

/// Rows that are rounded to 8 bits at a time.
const Q8_ROWS: usize = 1024;

/// A device that takes over weights.
pub struct Loader<'a, R: Runtime> {
    pub gpu: &'a Gpu<R>,
    pub upload: &'a Upload<R>,
}

impl<R: Runtime> Loader<'_, R> {
    /// The rows of `parts` one after the other, with their biases.
    pub fn linear(&self, parts: &[&Linear], dense: Dense) -> Matrix {
        let bias: Vec<f32> = parts.iter().flat_map(|part| part.bias.to_f32()).collect();
        let weights: Vec<_> = parts.iter().map(|part| &part.weight).collect();
        self.matrix(&weights, Some(self.upload.values(self.gpu, &bias)), dense)
    }

    /// A table without a bias.
    pub fn table(&self, table: &Bf16, dense: Dense) -> Matrix {
        self.matrix(&[table], None, dense)
    }

    fn matrix(&self, parts: &[&Bf16], bias: Option<Buffer>, dense: Dense) -> Matrix {
        let kind = match dense {
            Dense::Bf16 => Kind::Bf16,
            Dense::Q8 => Kind::Q8,
        };
        let cols = parts[0].cols();
        let rows = parts.iter().map(|part| part.rows()).sum();
        let pieces = linear::piece_rows(kind, rows, cols, self.gpu.binding_limit());
        let piece = |rows: Range<usize>| {
            let words = self
                .upload
                .room(self.gpu, rows.len() * kind.row_words(cols));
            let scales = match kind.row_scales(cols) {
                0 => None,
                scales => Some(self.upload.room(self.gpu, rows.len() * scales)),
            };
            let mut first = 0;
            for part in parts {
                // The rows of this part that lie in this piece.
                let here = rows.start.max(first)..rows.end.min(first + part.rows());
                for start in here.clone().step_by(Q8_ROWS) {
                    let some = start..here.end.min(start + Q8_ROWS);
                    let bytes =
                        &part.bytes[2 * cols * (some.start - first)..][..2 * cols * some.len()];
                    let at = some.start - rows.start;
                    match &scales {
                        None => {
                            self.upload
                                .write(self.gpu, &words, at * kind.row_words(cols), bytes);
                        }
                        Some(scales) => {
                            let q8 = q8_from_bf16(bytes, cols);
                            let put = |to, row, words: &[u32]| {
                                self.upload.write(
                                    self.gpu,
                                    to,
                                    at * row,
                                    bytemuck::cast_slice(words),
                                );
                            };
                            put(&words, kind.row_words(cols), &q8.words);
                            put(scales, kind.row_scales(cols), &q8.scales);
                        }
                    }
                }
                first += part.rows();
            }
            linear::Piece {
                words,
                scales,
                rows,
            }
        };
        Matrix::new(kind, cols, pieces.into_iter().map(piece).collect(), bias)
    }

    /// The experts of one product.
    pub fn experts(&self, weights: &Experts) -> ExpertWeights {
        let shape = (weights.experts, weights.rows, weights.cols);
        let kind = match &weights.weight {
            ExpertWeight::Mxfp4 { .. } => experts::Kind::Mxfp4,
            ExpertWeight::Bf16(_) => experts::Kind::Bf16,
        };
        let pieces = experts::pieces(kind, shape, self.gpu.binding_limit())
            .into_iter()
            .map(|experts| self.some_experts(weights, experts))
            .collect();
        let bias = self.upload.values(self.gpu, &weights.bias.to_f32());
        ExpertWeights::new(kind, shape, pieces, bias)
    }

    fn some_experts(&self, weights: &Experts, experts: Range<usize>) -> experts::Piece {
        let (rows, cols) = (weights.rows, weights.cols);
        let values = rows * cols;
        let (words, scales) = match &weights.weight {
            ExpertWeight::Mxfp4 { blocks, scales } => {
                let part = |bytes: &[u8], each: usize| {
                    let part = &bytes[each * experts.start..each * experts.end];
                    self.upload.bytes(self.gpu, part)
                };
                (part(blocks, values / 2), Some(part(scales, values / 32)))
            }
            ExpertWeight::Bf16(weight) => {
                let words = self.upload.room(self.gpu, experts.len() * values / 2);
                for (i, expert) in experts.clone().enumerate() {
                    let stored = &weight.bytes[2 * values * expert..][..2 * values];
                    let turned = transposed(stored, rows, cols);
                    self.upload.write(self.gpu, &words, i * values / 2, &turned);
                }
                (words, None)
            }
        };
        experts::Piece {
            experts,
            words,
            scales,
        }
    }
}

/// Two bytes a value, `[cols, rows]` to `[rows, cols]`.
fn transposed(stored: &[u8], rows: usize, cols: usize) -> Vec<u8> {
    let values = stored.as_chunks::<2>().0;
    (0..rows * cols)
        .flat_map(|i| values[i % cols * rows + i / cols])
        .collect()
}
