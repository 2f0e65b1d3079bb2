use super::super::testing::{Numbers, gpus, packed_bf16, read};
use super::*;
use cubecl::wgpu::WgpuRuntime;

/// A matrix on the host, with what the device is given of it.
struct Host {
    kind: Kind,
    rows: usize,
    cols: usize,
    /// `[rows, cols]`, as packed.
    values: Vec<f32>,
    words: Vec<u32>,
    scales: Vec<u32>,
    bias: Option<Vec<f32>>,
}

impl Host {
    fn new(numbers: &mut Numbers, kind: Kind, rows: usize, cols: usize, bias: bool) -> Self {
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
    fn upload(&self, gpu: &Gpu<WgpuRuntime>, limit: u64) -> Matrix {
        let part = |words: &[u32], row: usize, rows: &std::ops::Range<usize>| {
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
    fn linear(&self, x: &[f32], residual: Option<&[f32]>) -> Vec<(f64, f64)> {
        let mut y = vec![];
        for (t, x) in x.chunks(self.cols).enumerate() {
            for (r, w) in self.values.chunks(self.cols).enumerate() {
                let mut terms: Vec<f64> =
                    x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).collect();
                terms.extend(self.bias.as_ref().map(|bias| f64::from(bias[r])));
                terms.extend(residual.map(|residual| f64::from(residual[t * self.rows + r])));
                y.push((terms.iter().sum(), terms.iter().map(|term| term.abs()).sum()));
            }
        }
        y
    }
}

fn from_bf16(words: &[u32]) -> Vec<f32> {
    words
        .iter()
        .flat_map(|word| [f32::from_bits(word << 16), f32::from_bits(word & 0xFFFF_0000)])
        .collect()
}

fn from_q8(q8: &Q8Rows, cols: usize) -> Vec<f32> {
    let bytes: &[i8] = bytemuck::cast_slice(&q8.words);
    let scales = from_bf16(&q8.scales);
    let row_scales = 2 * Kind::Q8.row_scales(cols);
    bytes
        .iter()
        .enumerate()
        .map(|(i, &byte)| f32::from(byte) * scales[i / cols * row_scales + i % cols / 32])
        .collect()
}

fn check(gpu: &Gpu<WgpuRuntime>, host: &Host, limit: u64, n: usize, with_residual: bool) {
    let mut numbers = Numbers::new(n as u64);
    let x = numbers.values(n * host.cols);
    let residual = with_residual.then(|| numbers.values(n * host.rows));
    let matrix = host.upload(gpu, limit);
    let y = gpu.upload(&vec![f32::NAN; n * host.rows]);
    linear(
        gpu,
        &gpu.upload(&x),
        &matrix,
        residual.as_ref().map(|residual| gpu.upload(residual)).as_ref(),
        &y,
    );
    let expected = host.linear(&x, residual.as_deref());
    for (i, (&found, (sum, magnitude))) in read(gpu, &y).iter().zip(expected).enumerate() {
        assert!(
            (f64::from(found) - sum).abs() <= 1e-6 * magnitude,
            "{:?} [{}, {}], n = {n}, token {}, row {}: {found}, expected {sum}",
            host.kind,
            host.rows,
            host.cols,
            i / host.rows,
            i % host.rows
        );
    }
}

#[test]
fn few_tokens() {
    let mut numbers = Numbers::new(1);
    for gpu in gpus() {
        for kind in [Kind::Bf16, Kind::Q8] {
            for (rows, cols) in [(1, 32), (37, 96), (70, 2880), (33, 4096)] {
                let host = Host::new(&mut numbers, kind, rows, cols, rows != 1);
                for n in [1, 2, 3, 8, 11] {
                    check(&gpu, &host, u64::MAX, n, n != 2);
                }
            }
        }
    }
}
