use proptest::prelude::*;

use super::lanes::E2M1;
use half::bf16;

use super::*;
use crate::engine::testing::Golden;

mod rounded;

/// Every set that this machine can run.
pub fn sets() -> Vec<Kernels> {
    Kernels::available().collect()
}

/// A small generator of test values (xorshift), the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }
    /// Between -1 and 1.
    pub fn value(&mut self) -> f32 {
        self.next() as f32 / 2_147_483_648.0 - 1.0
    }
    pub fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.value()).collect()
    }
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
    pub fn scales(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| 120 + (self.next() % 8) as u8).collect()
    }
}

pub fn bf16_bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
        .collect()
}

/// MXFP4 by the book.
pub fn decode(blocks: &[u8], scales: &[u8]) -> Vec<f32> {
    let nibbles = blocks.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    nibbles
        .enumerate()
        .map(|(i, nibble)| {
            (f64::from(E2M1[usize::from(nibble)]) * (f64::from(scales[i / 32]) - 127.0).exp2())
                as f32
        })
        .collect()
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Weights of one format at an odd address, and what they mean.
struct Case {
    storage: Vec<u8>,
    scales: Vec<u8>,
    floats: Vec<f32>,
    format: usize,
}

impl Case {
    /// `format`: 0 BF16, 1 f32, 2 MXFP4.
    fn new(format: usize, rows: usize, cols: usize, random: &mut Random) -> Self {
        let values = random.values(rows * cols);
        let (bytes, scales, floats) = match format {
            0 => (
                bf16_bytes(&values),
                vec![],
                values.iter().map(|v| bf16::from_f32(*v).to_f32()).collect(),
            ),
            1 => (vec![], vec![], values),
            _ => {
                let (blocks, scales) = (
                    random.bytes(rows * cols / 2),
                    random.scales(rows * cols / 32),
                );
                let floats = decode(&blocks, &scales);
                (blocks, scales, floats)
            }
        };
        Self {
            storage: [vec![0], bytes].concat(),
            scales,
            floats,
            format,
        }
    }
    fn rows(&self) -> Rows<'_> {
        match self.format {
            0 => Rows::Bf16(&self.storage[1..]),
            1 => Rows::F32(&self.floats),
            _ => Rows::Mxfp4 {
                blocks: &self.storage[1..],
                scales: &self.scales,
            },
        }
    }
}

fn all_dots(k: &Kernels, rows: Rows<'_>, count: usize, cols: usize, x: &[f32]) -> Vec<f32> {
    let n = x.len() / cols;
    let activations = Activations::new(x, cols);
    let x: Vec<&[Block]> = (0..n).map(|i| activations.row(i)).collect();
    let mut out = vec![f32::NAN; n * count];
    k.dots(rows, cols, &x, &mut out);
    out
}

/// The largest error that rounding can make of a sum of `n` terms whose magnitudes add up to `magnitude`.
fn bound(n: usize, magnitude: f64) -> f64 {
    magnitude * f64::from(f32::EPSILON) * (n as f64 / 16.0 + 8.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn dots_agree_with_an_obvious_loop_and_do_not_depend_on_their_company(
        format in 0_usize..3, count in 1_usize..21, cols in 1_usize..200, n in 1_usize..10, seed: u64,
    ) {
        let cols = if format == 2 { cols.next_multiple_of(32) } else { cols };
        let mut random = Random::new(seed);
        let case = Case::new(format, count, cols, &mut random);
        let x = random.values(n * cols);
        for k in sets() {
            let together = all_dots(&k, case.rows(), count, cols, &x);
            for t in 0..n {
                for r in 0..count {
                    let (w, x) = (&case.floats[r * cols..][..cols], &x[t * cols..][..cols]);
                    let terms = w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
                    let (exact, magnitude) = terms.fold((0.0, 0.0), |(s, m), term| (s + term, m + term.abs()));
                    let got = f64::from(together[t * count + r]);
                    prop_assert!((got - exact).abs() <= bound(cols, magnitude), "{}: {got} for {exact}", k.name);
                    let alone = all_dots(&k, case.rows().slice(cols, r..r + 1), 1, cols, x);
                    prop_assert_eq!(alone[0].to_bits(), together[t * count + r].to_bits(), "{}", k.name);
                }
            }
        }
    }

    #[test]
    fn accumulate_agrees_with_an_obvious_loop_and_does_not_depend_on_runs_or_company(
        kind in 0_usize..3, group in 1_usize..10, d in 1_usize..150, n in 1_usize..40, cut in 0_usize..40,
        gap in 0_usize..5, seed: u64,
    ) {
        let (cut, stride) = (cut.min(n), n + gap);
        let mut random = Random::new(seed);
        let wide = random.values(n * d);
        let (narrow, bytes) = (bf16_bytes(&wide), random.bytes(n * d));
        let (values, all): (Vec<f32>, _) = match kind {
            0 => (wide.clone(), Values::F32(&wide)),
            1 => (wide.iter().map(|v| bf16::from_f32(*v).to_f32()).collect(), Values::Bf16(&narrow)),
            _ => (bytes.iter().map(|b| f32::from(*b as i8)).collect(), Values::I8(&bytes)),
        };
        let run = |from: usize, to: usize| Columns {
            values: all.slice(d, from..to),
            stride: d,
            first: 0,
            width: d,
        };
        let (p, start) = (random.values(group * stride), random.values(group * d));
        for k in sets() {
            let mut together = start.clone();
            k.accumulate(&p, stride, n, run(0, n), &mut together);
            for h in 0..group {
                for j in 0..d {
                    let terms = (0..n).map(|i| f64::from(p[h * stride + i]) * f64::from(values[i * d + j]));
                    let first = f64::from(start[h * d + j]);
                    let (exact, magnitude) =
                        terms.fold((first, first.abs()), |(s, m), term| (s + term, m + term.abs()));
                    let got = f64::from(together[h * d + j]);
                    prop_assert!((got - exact).abs() <= bound(16 * n, magnitude), "{}: {got} for {exact}", k.name);
                }
                let mut alone = start[h * d..][..d].to_vec();
                let p = &p[h * stride..][..n];
                k.accumulate(&p[..cut], cut.max(1), cut, run(0, cut), &mut alone);
                k.accumulate(&p[cut..], (n - cut).max(1), n - cut, run(cut, n), &mut alone);
                prop_assert_eq!(bits(&alone), bits(&together[h * d..][..d]), "{}", k.name);
            }
        }
    }

    #[test]
    fn scores_agree_with_an_obvious_loop_and_do_not_depend_on_their_company(
        kind in 0_usize..3, rows in 1_usize..20, fours in 1_usize..40, groups in 1_usize..5, gap in 0_usize..5,
        seed: u64,
    ) {
        let width = 4 * fours;
        let (n, stride) = (groups * LANES, groups * LANES + gap);
        let mut random = Random::new(seed);
        let (plain, scales) = (random.values(n * width), random.values(n));
        let bytes = random.bytes(n * width);
        // [groups, width / N, 16, N]
        let at = |key: usize, col: usize, n: usize| {
            (key / LANES * (width / n) + col / n) * LANES * n + key % LANES * n + col % n
        };
        let mut laid_out = vec![0.0; n * width];
        for key in 0..n {
            for col in 0..width {
                laid_out[at(key, col, if kind == 0 { 1 } else { 2 })] = plain[key * width + col];
            }
        }
        let narrow = bf16_bytes(&laid_out);
        let (keys, value): (Keys<'_>, Box<dyn Fn(usize, usize) -> f32>) = match kind {
            0 => (Keys::F32(laid_out.as_chunks().0), Box::new(|key, col| plain[key * width + col])),
            1 => (
                Keys::Bf16(narrow.as_chunks().0),
                Box::new(|key, col| bf16::from_f32(plain[key * width + col]).to_f32()),
            ),
            _ => (
                Keys::Q8 { words: bytes.as_chunks().0, scales: scales.as_chunks().0 },
                Box::new(|key, col| f32::from(bytes[at(key, col, 4)] as i8) * scales[key]),
            ),
        };
        let q = random.values(rows * width);
        for k in sets() {
            let mut together = vec![f32::NAN; rows * stride];
            k.scores(&q, width, keys, &mut together, stride);
            for r in 0..rows {
                let q = &q[r * width..][..width];
                for key in 0..n {
                    let terms = (0..width).map(|col| f64::from(q[col]) * f64::from(value(key, col)));
                    let (exact, magnitude) = terms.fold((0.0, 0.0), |(s, m), term| (s + term, m + term.abs()));
                    let got = f64::from(together[r * stride + key]);
                    prop_assert!((got - exact).abs() <= bound(16 * width, magnitude), "{}: {got} for {exact}", k.name);
                }
                let last = groups - 1;
                let mut alone = vec![f32::NAN; LANES];
                k.scores(q, width, keys.slice(width, last..groups), &mut alone, LANES);
                prop_assert_eq!(bits(&alone), bits(&together[r * stride + last * LANES..][..LANES]), "{}", k.name);
            }
        }
    }

    #[test]
    fn the_avx_sets_give_the_same_bits(
        format in 0_usize..3, count in 1_usize..21, cols in 1_usize..200, n in 1_usize..10, seed: u64,
    ) {
        let (Some(avx2), Some(avx512)) = (Kernels::by_name("avx2"), Kernels::by_name("avx512")) else {
            return Ok(());
        };
        let cols = if format == 2 { cols.next_multiple_of(32) } else { cols };
        let mut random = Random::new(seed);
        let case = Case::new(format, count, cols, &mut random);
        let x = random.values(n * cols);
        let [a, b] = [avx2, avx512].map(|k| all_dots(&k, case.rows(), count, cols, &x));
        prop_assert_eq!(bits(&a), bits(&b));
        let (values, p) = (random.values(count * cols), random.values(n * count));
        let [a, b] = [avx2, avx512].map(|k| {
            let mut acc = x.clone();
            let columns = Columns { values: Values::F32(&values), stride: cols, first: 0, width: cols };
            k.accumulate(&p, count, count, columns, &mut acc);
            acc
        });
        prop_assert_eq!(bits(&a), bits(&b));
    }
}

#[test]
fn decodes_the_golden_mxfp4_values_exactly() {
    let golden = Golden::read("mxfp4");
    for (set, cols) in [("", 256), ("quant_", 64), ("extreme_", 32)] {
        let expected = golden.f32(&format!("{set}values"));
        let rows = Rows::Mxfp4 {
            blocks: golden.bytes(&format!("{set}blocks")),
            scales: golden.bytes(&format!("{set}scales")),
        };
        for k in sets() {
            let mut values = vec![f32::NAN; expected.len()];
            k.unpack(rows, cols, &mut values);
            assert_eq!(
                bits(&values),
                bits(&expected),
                "{set}values with {}",
                k.name
            );
        }
    }
}

#[test]
fn swiglu_equals_the_golden() {
    let golden = Golden::read("elementwise");
    let [x, expected] = ["swiglu_in", "swiglu_out"].map(|name| golden.f32(name));
    for k in sets() {
        let mut y = vec![f32::NAN; expected.len()];
        k.swiglu(&x, &vec![0.0; x.len()], 7.0, &mut y);
        for (y, expected) in y.iter().zip(&expected) {
            let error = (y - expected).abs();
            assert!(
                error <= 2e-6 * expected.abs().max(1.0),
                "{}: {y}, expected {expected}",
                k.name
            );
        }
    }
}

#[test]
fn swiglu_does_not_hide_what_is_not_a_number() {
    for gate_up in [[f32::NAN, 1.0], [1.0, f32::NAN]] {
        for k in sets() {
            let mut y = [0.0];
            k.swiglu(&gate_up, &[0.0; 2], 7.0, &mut y);
            assert!(y[0].is_nan(), "{gate_up:?} gives {y:?}");
        }
    }
}

#[test]
fn exponentials_are_those_of_the_library() {
    let logits: Vec<f32> = (-8700..=0).map(|i| i as f32 / 100.0).collect();
    for k in sets() {
        let mut powers = logits.clone();
        let sum = k.exponentials(&mut powers, 0.0);
        let expected: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
        assert!(
            (f64::from(sum) / expected - 1.0).abs() < 1e-6,
            "{}: {sum}",
            k.name
        );
        for (power, x) in powers.iter().zip(&logits) {
            let expected = f64::from(*x).exp();
            let error = (f64::from(*power) / expected - 1.0).abs();
            assert!(
                error < 2.5e-7,
                "{}: e^{x} is {power:e}, expected {expected:e}",
                k.name
            );
        }
        assert_eq!(
            bits(&[k.largest(&logits, -1e9)]),
            bits(&[0.0]),
            "{}",
            k.name
        );
        assert_eq!(
            bits(&[k.largest(&logits[..100], 3.0)]),
            bits(&[3.0]),
            "{}",
            k.name
        );
        assert!(k.exponentials(&mut [f32::NAN], 0.0).is_nan(), "{}", k.name);
    }
}

#[test]
fn a_scale_of_255_is_not_a_number() {
    for k in sets() {
        let mut values = vec![0.0; 32];
        k.unpack(
            Rows::Mxfp4 {
                blocks: &[0x77; 16],
                scales: &[255],
            },
            32,
            &mut values,
        );
        assert!(values.iter().all(|v| v.is_nan()), "{}: {values:?}", k.name);
    }
}

#[test]
fn unpacks_rows_that_end_inside_a_block() {
    let values: Vec<f32> = (0..2 * 37).map(|i| i as f32).collect();
    for k in sets() {
        for rows in [Rows::Bf16(&bf16_bytes(&values)), Rows::F32(&values)] {
            let mut out = vec![f32::NAN; values.len()];
            k.unpack(rows, 37, &mut out);
            assert_eq!(out, values, "{}", k.name);
        }
    }
}

#[test]
fn a_set_has_the_name_it_is_asked_for() {
    for k in sets() {
        assert_eq!(Kernels::by_name(k.name).map(|k| k.name), Some(k.name));
    }
    assert_eq!(
        Kernels::by_name("portable").map(|k| k.name),
        Some("portable")
    );
    assert!(Kernels::by_name("sse9").is_none());
}

#[test]
#[should_panic(expected = "bytes of 2 BF16 rows of 32")]
fn refuses_rows_that_are_too_short() {
    let x = Activations::new(&[0.0; 32], 32);
    Kernels::detect().dots(Rows::Bf16(&[0; 127]), 32, &[x.row(0)], &mut [0.0; 2]);
}
