//! A matrix on the host, for the tests of this and of what else reads a matrix.

use std::ops::Range;

use cubecl::wgpu::WgpuRuntime;

use super::super::Gpu;
use super::super::testing::{Numbers, packed_bf16};
use super::{Kind, Matrix, Piece, Q8Rows, piece_rows, q8_from_bf16};

/// A matrix on the host, with what the device is given of it.
pub struct Host {
    /// How it is packed.
    pub kind: Kind,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// `[rows, cols]`, as packed.
    pub values: Vec<f32>,
    words: Vec<u32>,
    scales: Vec<u32>,
    bias: Option<Vec<f32>>,
}

impl Host {
    /// Random values, packed, with a random bias or none.
    pub fn new(numbers: &mut Numbers, kind: Kind, rows: usize, cols: usize, bias: bool) -> Self {
        let values = numbers.values(rows * cols);
        let words = packed_bf16(&values);
        let (values, words, scales) = match kind {
            Kind::Bf16 => (from_bf16(&words), words, vec![]),
            Kind::Q8 => {
                let q8 = q8_from_bf16(bytemuck::cast_slice(&words), cols);
                (from_q8(&q8, cols), q8.words, q8.scales)
            }
        };
        Self {
            kind,
            rows,
            cols,
            values,
            words,
            scales,
            bias: bias.then(|| numbers.values(rows)),
        }
    }

    /// On the device, in pieces of at most `limit` bytes.
    pub fn upload(&self, gpu: &Gpu<WgpuRuntime>, limit: u64) -> Matrix {
        let part = |words: &[u32], row: usize, rows: &Range<usize>| {
            gpu.upload(&words[rows.start * row..rows.end * row])
        };
        let pieces = piece_rows(self.kind, self.rows, self.cols, limit)
            .into_iter()
            .map(|rows| Piece {
                words: part(&self.words, self.kind.row_words(self.cols), &rows),
                scales: (self.kind == Kind::Q8)
                    .then(|| part(&self.scales, self.kind.row_scales(self.cols), &rows)),
                rows,
            })
            .collect();
        let bias = self.bias.as_ref().map(|bias| gpu.upload(bias));
        Matrix::new(self.kind, self.cols, pieces, bias)
    }

    /// The product and the sum of the magnitudes of what was added.
    pub fn linear(&self, x: &[f32], residual: Option<&[f32]>) -> Vec<(f64, f64)> {
        let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        self.exact_linear(&x, residual)
    }

    /// The same of values between those of f32.
    pub fn exact_linear(&self, x: &[f64], residual: Option<&[f32]>) -> Vec<(f64, f64)> {
        let mut y = vec![];
        for (t, x) in x.chunks(self.cols).enumerate() {
            for (r, w) in self.values.chunks(self.cols).enumerate() {
                let mut terms: Vec<f64> =
                    x.iter().zip(w).map(|(&x, &w)| x * f64::from(w)).collect();
                terms.extend(self.bias.as_ref().map(|bias| f64::from(bias[r])));
                terms.extend(residual.map(|residual| f64::from(residual[t * self.rows + r])));
                y.push((
                    terms.iter().sum(),
                    terms.iter().map(|term| term.abs()).sum(),
                ));
            }
        }
        y
    }
}

/// Both values of each word.
pub fn from_bf16(words: &[u32]) -> Vec<f32> {
    words
        .iter()
        .flat_map(|word| {
            [
                f32::from_bits(word << 16),
                f32::from_bits(word & 0xFFFF_0000),
            ]
        })
        .collect()
}

/// The values of rounded rows.
pub fn from_q8(q8: &Q8Rows, cols: usize) -> Vec<f32> {
    let bytes: &[i8] = bytemuck::cast_slice(&q8.words);
    let scales = from_bf16(&q8.scales);
    let row_scales = 2 * Kind::Q8.row_scales(cols);
    bytes
        .iter()
        .enumerate()
        .map(|(i, &byte)| f32::from(byte) * scales[i / cols * row_scales + i % cols / 32])
        .collect()
}
