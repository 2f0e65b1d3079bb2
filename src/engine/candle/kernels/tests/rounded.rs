//! Products with rounded activations against f64 over what the rounding gave: the rounding is checked by itself.

use half::bf16;
use proptest::prelude::*;

use super::{Random, bf16_bytes, decode, sets};
use crate::engine::candle::kernels::*;

/// Packed weights at an odd address, and what they mean.
struct Packed {
    blocks: Vec<u8>,
    scales: Vec<u8>,
    q8: Vec<Q8Block>,
    floats: Vec<f32>,
}

impl Packed {
    fn mxfp4(rows: usize, cols: usize, random: &mut Random) -> Self {
        let blocks = random.bytes(rows * cols / 2);
        let scales = random.scales(rows * cols / 32);
        let floats = decode(&blocks, &scales);
        Self {
            blocks: [vec![0], blocks].concat(),
            scales,
            q8: Vec::new(),
            floats,
        }
    }
    fn q8(rows: usize, cols: usize, random: &mut Random) -> Self {
        let (bytes, row) = (bf16_bytes(&random.values(rows * cols)), cols.div_ceil(32));
        let mut q8 = vec![[0; 34]; rows * row];
        for (bytes, row) in bytes.chunks_exact(2 * cols).zip(q8.chunks_exact_mut(row)) {
            q8_from_bf16(bytes, row);
        }
        let floats = (0..rows * cols)
            .map(|i| value(&q8[i / cols * row..][..row], i % cols))
            .collect();
        Self {
            blocks: Vec::new(),
            scales: Vec::new(),
            q8,
            floats,
        }
    }
    fn rows(&self) -> Rows<'_> {
        if self.q8.is_empty() {
            Rows::Mxfp4 {
                blocks: &self.blocks[1..],
                scales: &self.scales,
            }
        } else {
            Rows::Q8(&self.q8)
        }
    }
}

/// Column `col` of a row of 8-bit weights, by the book.
fn value(row: &[Q8Block], col: usize) -> f32 {
    let (quad, block, i) = (col / 128, col % 128 / 32, col % 32);
    let blocks = (row.len() - 4 * quad).min(4);
    let bytes = &row.as_flattened()[136 * quad..];
    let value = bytes[16 * (i % 2 * blocks + block) + i / 2] as i8;
    f32::from(value) * scale(row, col / 32)
}

/// The scale of block `b` of a row.
fn scale(row: &[Q8Block], b: usize) -> f32 {
    let blocks = (row.len() - b / 4 * 4).min(4);
    let at = 136 * (b / 4) + 32 * blocks + 2 * (b % 4);
    let bytes = &row.as_flattened()[at..at + 2];
    bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// Checks `out` against the dot products of `w` and `x` in f64.
fn check(out: &[f32], w: &[f32], x: &[f32], cols: usize, name: &str) {
    let count = w.len() / cols;
    for (t, x) in x.chunks_exact(cols).enumerate() {
        for (r, w) in w.chunks_exact(cols).enumerate() {
            let terms = w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
            let (exact, magnitude) =
                terms.fold((0.0, 0.0), |(s, m), term| (s + term, m + term.abs()));
            let got = f64::from(out[t * count + r]);
            let bound = magnitude * f64::from(f32::EPSILON) * (cols as f64 / 32.0 + 16.0);
            assert!(
                (got - exact).abs() <= bound + 1e-30,
                "{name}: token {t}, row {r}: {got} for {exact}"
            );
        }
    }
}

fn integers<const P: usize>(set: Integers, weights: &Packed, x: &[f32], cols: usize, name: &str) {
    let (n, grid) = (x.len() / cols, set.grid(weights.rows()));
    let mut quantized = Quantized::<P>::zeros(n, cols);
    for (x, row) in x.chunks_exact(cols).zip(quantized.rows_mut()) {
        set.quantize(x, grid, row);
    }
    let mut out = vec![f32::NAN; n * weights.floats.len() / cols];
    let rows: Vec<_> = (0..n).map(|i| quantized.row(i)).collect();
    let strips = &mut Strips::default();
    set.dots(weights.rows(), cols, &rows, strips, &mut out);
    let rounded = quantized.values(cols, grid);
    check(&out, &weights.floats, &rounded, cols, name);

    let steps = if P == 1 { 127.0 } else { 16_256.0 };
    for (x, rounded) in x.chunks_exact(cols).zip(rounded.chunks_exact(cols)) {
        for (x, rounded) in x.chunks(32).zip(rounded.chunks(32)) {
            let largest = x.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
            for (x, rounded) in x.iter().zip(rounded) {
                assert!(
                    (x - rounded).abs() <= largest / steps * 0.51,
                    "{x} became {rounded}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn integer_products_are_those_of_the_rounded_activations(
        blocks in 1_usize..14, short in 0_usize..31, count in 1_usize..40, n in 1_usize..22, q8: bool, seed: u64,
    ) {
        let mut random = Random::new(seed);
        // Only weights of 8 bits may end inside a block.
        let cols = if q8 { 32 * blocks - short } else { 32 * blocks };
        let weights = if q8 { Packed::q8(count, cols, &mut random) } else { Packed::mxfp4(count, cols, &mut random) };
        let x = random.values(n * cols);
        for k in sets() {
            if let Some(set) = k.integers {
                integers::<1>(set, &weights, &x, cols, k.name);
                integers::<2>(set, &weights, &x, cols, k.name);
            }
            let activations = Activations::new(&x, cols);
            let rows: Vec<_> = (0..n).map(|i| activations.row(i)).collect();
            let mut out = vec![f32::NAN; n * count];
            k.dots(weights.rows(), cols, &rows, &mut out);
            check(&out, &weights.floats, &x, cols, k.name);
        }
    }

    #[test]
    fn bf16_products_are_those_of_the_rounded_activations(
        blocks in 1_usize..8, short in 0_usize..31, strips in 1_usize..3, n in 1_usize..40, mxfp4: bool, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let (cols, count) = (if mxfp4 { 32 * blocks } else { 32 * blocks - short }, Bf16::ROWS * strips);
        let packed = Packed::mxfp4(count, if mxfp4 { cols } else { 32 }, &mut random);
        let bytes = bf16_bytes(&random.values(count * cols));
        let floats: Vec<f32> = bytes
            .chunks_exact(2)
            .map(|bytes| bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32())
            .collect();
        let (rows, floats) = if mxfp4 { (packed.rows(), &packed.floats) } else { (Rows::Bf16(&bytes), &floats) };
        let x = random.values(n * cols);
        for k in sets() {
            let Some(set) = k.bf16 else { continue };
            let mut pairs = Pairs::zeros(n, cols);
            for (x, row) in x.chunks_exact(cols).zip(pairs.rows_mut()) {
                set.round(x, row);
            }
            let x: Vec<f32> = x.iter().map(|x| bf16::from_f32(*x).to_f32()).collect();
            let inputs: Vec<_> = (0..n).map(|i| pairs.row(i)).collect();
            let mut out = vec![f32::NAN; n * count];
            set.dots(rows, cols, &inputs, &mut Strips::default(), &mut out);
            check(&out, floats, &x, cols, k.name);
        }
    }
}

#[test]
fn what_is_not_a_number_comes_through_rounding() {
    for k in sets() {
        let Some(set) = k.integers else { continue };
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = vec![1.0; 64];
            x[40] = bad;
            let mut random = Random::new(1);
            let weights = Packed::mxfp4(16, 64, &mut random);
            let grid = set.grid(weights.rows());
            let mut quantized = Quantized::<1>::zeros(1, 64);
            for row in quantized.rows_mut() {
                set.quantize(&x, grid, row);
            }
            let mut out = vec![0.0; 16];
            let strips = &mut Strips::default();
            set.dots(weights.rows(), 64, &[quantized.row(0)], strips, &mut out);
            assert!(
                out.iter().all(|y| !y.is_finite()),
                "{} with {bad}: {out:?}",
                k.name
            );
        }
    }
}

#[test]
fn a_block_of_zeros_or_subnormals_rounds_to_zero() {
    for x in [0.0, 1e-42] {
        for k in sets() {
            let Some(set) = k.integers else { continue };
            let grid = Grid { zero: 0, unit: 1.0 };
            let mut quantized = Quantized::<2>::zeros(1, 32);
            for row in quantized.rows_mut() {
                set.quantize(&[x; 32], grid, row);
            }
            assert_eq!(quantized.row(0)[0].planes, [[[0; 16]; 2]; 2], "{x}");
        }
    }
}

#[test]
fn eight_bits_are_within_half_a_step_of_each_weight() {
    let mut random = Random::new(5);
    let weights: Vec<f32> = random
        .values(300)
        .iter()
        .map(|w| bf16::from_f32(w * w * w).to_f32())
        .collect();
    let mut row = [[0; 34]; 10];
    q8_from_bf16(&bf16_bytes(&weights), &mut row);
    for (b, block) in weights.chunks(32).enumerate() {
        let scale = scale(&row, b);
        let largest = block.iter().fold(0.0_f32, |m, w| m.max(w.abs()));
        // A BF16 number is at most 1/128 above the next smaller one.
        assert!((largest / 127.0..=largest / 127.0 * (1.0 + 1.0 / 128.0)).contains(&scale));
        for (i, w) in block.iter().enumerate() {
            let rounded = value(&row, 32 * b + i);
            assert!(
                (w - rounded).abs() <= scale * 0.5001,
                "{w} became {rounded}"
            );
        }
    }
}
