use proptest::prelude::*;

use super::super::elementwise::{rms_norm, rotate};
use super::super::kernels::q8_from_bf16;
use super::super::kernels::tests::{Random, bf16_bytes, bits, decode, sets};
use super::*;
use crate::engine::testing::Golden;

const fn exact(kernels: Kernels) -> Arithmetic {
    Arithmetic {
        kernels,
        compute: Compute::F32,
    }
}

fn close(got: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (got - expected).abs();
        assert!(
            error <= tolerance * expected.abs().max(1.0),
            "{what}[{i}] is {got}, expected {expected}"
        );
    }
}

fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap()
        .install(work)
}

#[test]
fn rms_norm_equals_the_golden() {
    let golden = Golden::read("elementwise");
    let [x, gain, expected] = ["rms_in", "rms_scale", "rms_out"].map(|name| golden.f32(name));
    let mut y = vec![f32::NAN; x.len()];
    rms_norm(&x, &gain, 1e-5, &mut y);
    close(&y, &expected, 1e-6, "rms_out");
}

#[test]
fn rotation_equals_the_golden() {
    let golden = Golden::read("rope");
    let [mut x, cos, sin, expected] =
        ["rot_in", "cos", "sin", "rot_out"].map(|name| golden.f32(name));
    // What follows in a row stays as it is.
    let row = 4 * 64;
    let mut rows: Vec<f32> = x
        .chunks(row)
        .flat_map(|x| [x, &[7.0; 64]].concat())
        .collect();
    rotate(&mut rows, row + 64, 4, 64, &cos, &sin);
    for (x, rows) in x.chunks_mut(row).zip(rows.chunks(row + 64)) {
        x.copy_from_slice(&rows[..row]);
        assert_eq!(rows[row..], [7.0; 64]);
    }
    close(&x, &expected, 1e-6, "rot_out");
}

/// The MLP of the golden layer: operands, and what it adds to the residual.
struct Mlp {
    x: Vec<f32>,
    ids: Vec<u32>,
    weights: Vec<f32>,
    expected: Vec<f32>,
    gate_up: [Vec<u8>; 3],
    down: [Vec<u8>; 3],
}

const HIDDEN: usize = 128;
const INTERMEDIATE: usize = 64;
const EXPERTS: usize = 16;

impl Mlp {
    fn new(name: &str) -> Self {
        let golden = Golden::read(name);
        let weight = |name: &str| {
            ["weight.blocks", "weight.scales", "bias"]
                .map(|part| golden.bytes(&format!("{name}_{part}")).to_vec())
        };
        let (after_attention, y) = (golden.f32("after_attention"), golden.f32("y"));
        let ids = golden.i64("router_indices");
        let ids = ids.into_iter().map(|id| id as u32).collect();
        Self {
            x: golden.f32("mlp_normed"),
            ids,
            weights: golden.f32("router_weights"),
            expected: y.iter().zip(after_attention).map(|(y, x)| y - x).collect(),
            gate_up: weight("mlp.mlp1"),
            down: weight("mlp.mlp2"),
        }
    }
    fn views(&self) -> [ExpertsView<'_>; 2] {
        [
            view(&self.gate_up, 2 * INTERMEDIATE, HIDDEN),
            view(&self.down, HIDDEN, INTERMEDIATE),
        ]
    }
    fn run(
        &self,
        arithmetic: Arithmetic,
        tokens: Range<usize>,
        [gate_up, down]: &[ExpertsView<'_>; 2],
    ) -> Vec<f32> {
        let n = tokens.len();
        let mut y = vec![0.0; n * HIDDEN];
        let x = &self.x[tokens.start * HIDDEN..][..n * HIDDEN];
        let [ids, weights] = [4 * tokens.start, 4 * tokens.end];
        experts(
            arithmetic,
            x,
            n,
            &self.ids[ids..weights],
            &self.weights[ids..weights],
            gate_up,
            down,
            7.0,
            &mut Scratch::default(),
            &mut y,
        );
        y
    }
}

fn view([blocks, scales, bias]: &[Vec<u8>; 3], rows: usize, cols: usize) -> ExpertsView<'_> {
    ExpertsView {
        experts: EXPERTS,
        rows,
        cols,
        weight: ExpertWeightView::Mxfp4 { blocks, scales },
        bias,
    }
}

/// The same weights in BF16, which holds them exactly, `[experts, cols, rows]`.
fn widened([blocks, scales, _]: &[Vec<u8>; 3], rows: usize, cols: usize) -> Vec<u8> {
    let values = decode(blocks, scales);
    let expert = |w: &[f32]| -> Vec<f32> {
        (0..cols * rows)
            .map(|i| w[i % rows * cols + i / rows])
            .collect()
    };
    bf16_bytes(
        &values
            .chunks_exact(rows * cols)
            .flat_map(expert)
            .collect::<Vec<_>>(),
    )
}

#[test]
fn the_experts_equal_the_golden_layers() {
    for name in ["layer_full", "layer_sliding"] {
        let mlp = Mlp::new(name);
        for k in sets() {
            let y = mlp.run(exact(k), 0..150, &mlp.views());
            close(&y, &mlp.expected, 1e-5, &format!("{name} with {}", k.name));
        }
    }
}

#[test]
fn experts_in_bf16_equal_the_golden_layer() {
    let mlp = Mlp::new("layer_full");
    let weights = [
        widened(&mlp.gate_up, 2 * INTERMEDIATE, HIDDEN),
        widened(&mlp.down, HIDDEN, INTERMEDIATE),
    ];
    let [mut gate_up, mut down] = mlp.views();
    gate_up.weight = ExpertWeightView::Bf16(&weights[0]);
    down.weight = ExpertWeightView::Bf16(&weights[1]);
    let views = [gate_up, down];
    for k in sets() {
        let y = mlp.run(exact(k), 0..150, &views);
        close(&y, &mlp.expected, 1e-5, k.name);
        let alone: Vec<f32> = (0..150)
            .flat_map(|t| mlp.run(exact(k), t..t + 1, &views))
            .collect();
        assert_eq!(bits(&alone), bits(&y), "{}", k.name);
    }
}

#[test]
fn a_token_gets_the_same_bits_alone_in_a_batch_and_on_any_number_of_threads() {
    let mlp = Mlp::new("layer_full");
    for k in sets() {
        let together = in_pool(3, || mlp.run(exact(k), 0..150, &mlp.views()));
        let alone: Vec<f32> = in_pool(1, || {
            (0..150)
                .flat_map(|t| mlp.run(exact(k), t..t + 1, &mlp.views()))
                .collect()
        });
        assert_eq!(bits(&alone), bits(&together), "{}", k.name);
        let chunks: Vec<f32> = [0..7, 7..71, 71..150]
            .into_iter()
            .flat_map(|c| mlp.run(exact(k), c, &mlp.views()))
            .collect();
        assert_eq!(bits(&chunks), bits(&together), "{}", k.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn linear_agrees_with_an_obvious_loop_and_does_not_depend_on_the_batch(
        rows in 1_usize..300, cols in 1_usize..300, n in 1_usize..100, biased: bool, threads in 1_usize..5, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let [weight, bias, x] = [rows * cols, rows, n * cols].map(|len| random.values(len));
        let [weight, bias] = [weight, bias].map(|values| bf16_bytes(&values));
        let wide = |bytes: &[u8], i: usize| f64::from(bf16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]).to_f32());
        let w = LinearView { weight: Rows::Bf16(&weight), bias: biased.then_some(&bias), rows, cols };
        for k in sets() {
            let mut y = vec![f32::NAN; n * rows];
            in_pool(threads, || linear(exact(k), &x, n, &[w], &mut y));
            for t in 0..n {
                for r in 0..rows {
                    let start = if biased { wide(&bias, r) } else { 0.0 };
                    let exact = (0..cols).fold(start, |s, c| s + wide(&weight, r * cols + c) * f64::from(x[t * cols + c]));
                    let got = f64::from(y[t * rows + r]);
                    prop_assert!((got - exact).abs() < 1e-5 * (cols as f64 / 16.0 + 4.0), "{}: {got} for {exact}", k.name);
                }
                let mut alone = vec![f32::NAN; rows];
                linear(exact(k), &x[t * cols..][..cols], 1, &[w], &mut alone);
                prop_assert_eq!(bits(&alone), bits(&y[t * rows..][..rows]), "{}", k.name);
            }
        }
    }
}

/// The largest error over the largest value.
fn relative_error(got: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(got.len(), expected.len());
    let errors = got
        .iter()
        .zip(expected)
        .map(|(got, expected)| (got - expected).abs());
    let largest = expected.iter().fold(0.0_f32, |top, x| top.max(x.abs()));
    errors.fold(0.0_f32, |top, error| if error <= top { top } else { error }) / largest
}

/// Every way to round, and how far from the exact result it may lead.
const ROUNDED: [(Compute, f32); 3] = [
    (Compute::Int16, 2e-4),
    (Compute::Bf16, 1e-2),
    (Compute::Int8, 4e-2),
];

#[test]
fn rounded_experts_are_near_the_golden_layer_for_few_tokens_and_many() {
    let mlp = Mlp::new("layer_full");
    for kernels in sets() {
        for (compute, tolerance) in ROUNDED {
            let arithmetic = Arithmetic { kernels, compute };
            for tokens in [0..1, 3..5, 10..17, 0..150] {
                let y = in_pool(2, || mlp.run(arithmetic, tokens.clone(), &mlp.views()));
                let expected = &mlp.expected[tokens.start * HIDDEN..tokens.end * HIDDEN];
                let error = relative_error(&y, expected);
                assert!(
                    error < tolerance,
                    "{} {compute:?} tokens {tokens:?}: {error}",
                    kernels.name
                );
            }
        }
    }
}

#[test]
fn matrices_side_by_side_give_what_each_gives_alone_whatever_is_rounded() {
    let (rows, cols) = ([48, 16, 7], 160);
    let mut random = Random::new(9);
    let weights = rows.map(|rows| bf16_bytes(&random.values(rows * cols)));
    let biases = rows.map(|rows| bf16_bytes(&random.values(rows)));
    let row = cols / 32;
    let blocks = weights.each_ref().map(|weights| {
        let mut blocks = vec![[0; 34]; weights.len() / (2 * cols) * row];
        for (weights, row) in weights
            .chunks_exact(2 * cols)
            .zip(blocks.chunks_exact_mut(row))
        {
            q8_from_bf16(weights, row);
        }
        blocks
    });
    for n in [1, 2, 5, 100] {
        let x = random.values(n * cols);
        for q8 in [false, true] {
            let parts: Vec<_> = (0..3)
                .map(|i| LinearView {
                    weight: if q8 {
                        Rows::Q8(&blocks[i])
                    } else {
                        Rows::Bf16(&weights[i])
                    },
                    bias: Some(&biases[i]),
                    rows: rows[i],
                    cols,
                })
                .collect();
            let run = |arithmetic: Arithmetic, parts: &[LinearView<'_>]| {
                let mut y = vec![f32::NAN; n * parts.iter().map(|part| part.rows).sum::<usize>()];
                in_pool(3, || linear(arithmetic, &x, n, parts, &mut y));
                y
            };
            for kernels in sets() {
                let exactly = run(exact(kernels), &parts);
                let alone = parts
                    .iter()
                    .map(|part| run(exact(kernels), &[*part]))
                    .collect::<Vec<_>>();
                let side_by_side: Vec<f32> = (0..n)
                    .flat_map(|t| {
                        alone
                            .iter()
                            .zip(rows)
                            .map(move |(y, rows)| &y[t * rows..][..rows])
                    })
                    .flatten()
                    .copied()
                    .collect();
                assert_eq!(bits(&exactly), bits(&side_by_side), "{} {n}", kernels.name);
                for (compute, tolerance) in ROUNDED {
                    let y = run(Arithmetic { kernels, compute }, &parts);
                    let error = relative_error(&y, &exactly);
                    let what = format!("{} {compute:?} q8 {q8}, {n} tokens", kernels.name);
                    assert!(error < tolerance, "{what}: {error}");
                }
            }
        }
    }
}
