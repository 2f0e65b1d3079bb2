use proptest::prelude::*;

use super::lanes::E2M1;
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
        wide: bool, group in 1_usize..10, d in 1_usize..150, n in 1_usize..40, cut in 0_usize..40, seed: u64,
    ) {
        let cut = cut.min(n);
        let mut random = Random::new(seed);
        let narrow: Vec<bf16> = random.values(n * d).into_iter().map(bf16::from_f32).collect();
        let values: Vec<f32> = narrow.iter().map(|v| v.to_f32()).collect();
        let run = |from: usize, to: usize| {
            if wide { KvRun::F32(&values[from * d..to * d]) } else { KvRun::Bf16(&narrow[from * d..to * d]) }
        };
        let (p, start) = (random.values(group * n), random.values(group * d));
        for k in sets() {
            let mut together = start.clone();
            k.accumulate(&p, run(0, n), d, &mut together);
            for h in 0..group {
                for j in 0..d {
                    let terms = (0..n).map(|i| f64::from(p[h * n + i]) * f64::from(values[i * d + j]));
                    let first = f64::from(start[h * d + j]);
                    let (exact, magnitude) =
                        terms.fold((first, first.abs()), |(s, m), term| (s + term, m + term.abs()));
                    let got = f64::from(together[h * d + j]);
                    prop_assert!((got - exact).abs() <= bound(16 * n, magnitude), "{}: {got} for {exact}", k.name);
                }
                let mut alone = start[h * d..][..d].to_vec();
                k.accumulate(&p[h * n..][..cut], run(0, cut), d, &mut alone);
                k.accumulate(&p[h * n..][cut..n], run(cut, n), d, &mut alone);
                prop_assert_eq!(bits(&alone), bits(&together[h * d..][..d]), "{}", k.name);
            }
        }
    }

    #[test]
    fn scores_are_scaled_dots_and_do_not_depend_on_runs(
        wide: bool, group in 1_usize..10, d in 1_usize..300, n in 1_usize..40, cut in 0_usize..40, seed: u64,
    ) {
        let cut = cut.min(n);
        let mut random = Random::new(seed);
        let narrow: Vec<bf16> = random.values(n * d).into_iter().map(bf16::from_f32).collect();
        let keys: Vec<f32> = narrow.iter().map(|v| v.to_f32()).collect();
        let run = |from: usize, to: usize| {
            if wide { KvRun::F32(&keys[from * d..to * d]) } else { KvRun::Bf16(&narrow[from * d..to * d]) }
        };
        let q = random.values(group * d);
        for k in sets() {
            let mut together = vec![f32::NAN; group * n];
            k.scores(&q, d, run(0, n), 0.125, &mut together);
            let expected = all_dots(&k, Rows::F32(&keys), n, d, &q);
            prop_assert_eq!(bits(&together), bits(&expected.iter().map(|x| x * 0.125).collect::<Vec<_>>()));
            for h in 0..group {
                let (mut low, mut high) = (vec![f32::NAN; cut], vec![f32::NAN; n - cut]);
                k.scores(&q[h * d..][..d], d, run(0, cut), 0.125, &mut low);
                k.scores(&q[h * d..][..d], d, run(cut, n), 0.125, &mut high);
                prop_assert_eq!(bits(&[low, high].concat()), bits(&together[h * n..][..n]), "{}", k.name);
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
            k.accumulate(&p, KvRun::F32(&values), cols, &mut acc);
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
fn attention_with_sinks_and_window_equals_the_golden() {
    let golden = Golden::read("attention");
    let d = 64;
    for (name, kind, window) in [
        ("T129", "full", usize::MAX),
        ("T257", "full", usize::MAX),
        ("T128", "window", 128),
        ("T129", "window", 128),
        ("T257", "window", 128),
        ("sink_high", "window", 128),
        ("sink_low", "window", 128),
    ] {
        let [q, k, v, sinks, expected] =
            ["q", "k", "v", "sinks", kind].map(|part| golden.f32(&format!("{name}.{part}")));
        let heads = sinks.len();
        let tokens = q.len() / (heads * d);
        let kv_heads = k.len() / (tokens * d);
        let group = heads / kv_heads;
        let of_head = |x: &[f32], head: usize| -> Vec<f32> {
            x.chunks_exact(d)
                .skip(head)
                .step_by(kv_heads)
                .flatten()
                .copied()
                .collect()
        };
        // The goldens keep the last queries only.
        let first = tokens - expected.len() / (heads * d);
        for set in sets() {
            let mut worst = 0.0_f32;
            for (t, expected) in (first..tokens).zip(expected.chunks_exact(heads * d)) {
                let from = (t + 1).saturating_sub(window);
                let n = t + 1 - from;
                for kv in 0..kv_heads {
                    let (keys, values) = (of_head(&k, kv), of_head(&v, kv));
                    let q = &q[(t * heads + kv * group) * d..][..group * d];
                    let mut p = vec![0.0; group * n];
                    set.scores(q, d, KvRun::F32(&keys[from * d..][..n * d]), 0.125, &mut p);
                    for (p, sink) in p.chunks_exact_mut(n).zip(&sinks[kv * group..]) {
                        let max = p.iter().fold(*sink, |m, l| m.max(*l));
                        for l in p.iter_mut() {
                            *l = (*l - max).exp();
                        }
                        let sum = p.iter().sum::<f32>() + (sink - max).exp();
                        for l in p.iter_mut() {
                            *l /= sum;
                        }
                    }
                    let mut out = vec![0.0; group * d];
                    set.accumulate(&p, KvRun::F32(&values[from * d..][..n * d]), d, &mut out);
                    for (out, expected) in out.iter().zip(&expected[kv * group * d..]) {
                        worst = worst.max((out - expected).abs());
                    }
                }
            }
            assert!(
                worst < 2e-5,
                "{name}.{kind} with {}: off by {worst}",
                set.name
            );
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
