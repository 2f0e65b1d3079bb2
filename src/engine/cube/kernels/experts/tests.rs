use super::super::testing::{Numbers, gpus, packed_bf16, read, read_words};
use super::prefill::Tile;
use super::*;

/// E2M1 by its definition.
const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

const LIMIT: f32 = 7.0;

/// A weight on the host: packed, and what it says.
struct Weights {
    kind: Kind,
    size: (usize, usize, usize),
    /// Blocks, or pairs of BF16.
    words: Vec<u32>,
    /// A byte for each block.
    scales: Vec<u8>,
    values: Vec<f64>,
    bias: Vec<f32>,
}

impl Weights {
    /// Any weights, with scales that differ by up to 64 times.
    fn random(kind: Kind, size: (usize, usize, usize), seed: u64) -> Self {
        let (experts, rows, cols) = size;
        let mut numbers = Numbers::new(seed);
        let values = experts * rows * cols;
        let (words, scales) = match kind {
            Kind::Mxfp4 => {
                let words = (0..values / 8).map(|_| numbers.word()).collect();
                let scales = (0..values / 32)
                    .map(|_| 120 + (numbers.word() % 7) as u8)
                    .collect();
                (words, scales)
            }
            Kind::Bf16 => (packed_bf16(&numbers.values(values)), Vec::new()),
        };
        let bias = numbers.values(experts * rows);
        Self::new(kind, size, words, scales, bias)
    }

    fn new(
        kind: Kind,
        size: (usize, usize, usize),
        words: Vec<u32>,
        scales: Vec<u8>,
        bias: Vec<f32>,
    ) -> Self {
        let values = match kind {
            Kind::Mxfp4 => (0..8 * words.len())
                .map(|i| {
                    let code = words[i / 8] >> (4 * (i % 8)) & 15;
                    let sign = if code & 8 == 0 { 1.0 } else { -1.0 };
                    let factor = match scales[i / 32] {
                        255 => f64::NAN,
                        scale => f64::powi(2.0, i32::from(scale) - 127),
                    };
                    sign * E2M1[(code & 7) as usize] * factor
                })
                .collect(),
            Kind::Bf16 => (0..2 * words.len())
                .map(|i| f64::from(f32::from_bits((words[i / 2] >> (16 * (i % 2))) << 16)))
                .collect(),
        };
        Self {
            kind,
            size,
            words,
            scales,
            values,
            bias,
        }
    }

    /// On the device, in pieces that begin at these experts.
    fn upload<R: Runtime>(&self, gpu: &Gpu<R>, starts: &[usize]) -> ExpertWeights {
        let (experts, rows, cols) = self.size;
        let (words, scales) = (self.words.len() / experts, self.scales.len() / experts);
        let pieces = starts.iter().enumerate().map(|(i, &start)| {
            let end = starts.get(i + 1).copied().unwrap_or(experts);
            Piece {
                experts: start..end,
                words: gpu.upload(&self.words[start * words..end * words]),
                scales: (self.kind == Kind::Mxfp4).then(|| {
                    let mut bytes = self.scales[start * scales..end * scales].to_vec();
                    // What lies behind the last scale must not matter.
                    bytes.resize(bytes.len().next_multiple_of(4), 255);
                    gpu.upload(&bytemuck::pod_collect_to_vec::<u8, u32>(&bytes))
                }),
            }
        });
        let bias = gpu.upload(&self.bias);
        ExpertWeights::new(self.kind, (experts, rows, cols), pieces.collect(), bias)
    }

    /// Product with one row and its bias, and the sum of the magnitudes of what was added.
    fn row(&self, expert: usize, row: usize, x: &[f64]) -> (f64, f64) {
        let (_, rows, cols) = self.size;
        let at = expert * rows + row;
        let bias = f64::from(self.bias[at]);
        let products = self.values[at * cols..][..cols]
            .iter()
            .zip(x)
            .map(|(w, x)| w * x);
        products.fold((bias, bias.abs()), |(sum, size), product| {
            (sum + product, size + product.abs())
        })
    }

    /// The activations of one slot, each with how large its parts are.
    fn activations(&self, expert: usize, x: &[f64]) -> Vec<(f64, f64)> {
        let limit = f64::from(LIMIT);
        let pair = |j| {
            let (gate, gate_size) = self.row(expert, 2 * j, x);
            let (up, up_size) = self.row(expert, 2 * j + 1, x);
            let gate = if gate > limit { limit } else { gate };
            let up = up.clamp(-limit, limit);
            let t = gate / (1.0 + (-1.702 * gate).exp()) * (up + 1.0);
            (t, (gate_size + 1.0) * (up_size + 1.0))
        };
        (0..self.size.1 / 2).map(pair).collect()
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// Fails where a value is further from its twin than `1e-5` of the size of its parts.
fn assert_near(found: &[f32], expected: &[(f64, f64)]) {
    assert_eq!(found.len(), expected.len());
    for (i, (&found, &(value, size))) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - value).abs();
        assert!(
            error <= 1e-5 * size,
            "at {i}: {found}, expected {value} of size {size}"
        );
    }
}

/// `top_k` different experts for each of `n` tokens.
fn random_ids(n: usize, top_k: usize, experts: usize, seed: u64) -> Vec<u32> {
    let mut numbers = Numbers::new(seed);
    (0..n)
        .flat_map(|_| {
            let mut left: Vec<u32> = (0..experts as u32).collect();
            (0..top_k)
                .map(|_| left.swap_remove(numbers.word() as usize % left.len()))
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// The whole operation with tokens of hidden size 96, and its twin.
struct Layer {
    gate_up: Weights,
    down: Weights,
    x: Vec<f32>,
    residual: Vec<f32>,
    ids: Vec<u32>,
    weights: Vec<f32>,
    n: usize,
    top_k: usize,
}

const HIDDEN: usize = 96;
const INTERMEDIATE: usize = 64;
const EXPERTS: usize = 8;

/// Which kernels are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    ByNumber,
    Decode,
    Prefill(u32),
}

impl Layer {
    fn new(kind: Kind, ids: Vec<u32>, top_k: usize) -> Self {
        let n = ids.len() / top_k;
        let mut numbers = Numbers::new(n as u64);
        Self {
            gate_up: Weights::random(kind, (EXPERTS, 2 * INTERMEDIATE, HIDDEN), 1),
            down: Weights::random(kind, (EXPERTS, HIDDEN, INTERMEDIATE), 2),
            x: numbers.values(n * HIDDEN),
            residual: numbers.values(n * HIDDEN),
            weights: numbers.values(n * top_k).iter().map(|v| v.abs()).collect(),
            ids,
            n,
            top_k,
        }
    }

    fn twin(&self) -> Vec<(f64, f64)> {
        let mut y: Vec<(f64, f64)> = self
            .residual
            .iter()
            .map(|&v| (f64::from(v), f64::from(v).abs()))
            .collect();
        for (slot, (&id, &weight)) in self.ids.iter().zip(&self.weights).enumerate() {
            let (id, weight) = (id as usize, f64::from(weight));
            let token = slot / self.top_k;
            let x = wide(&self.x[token * HIDDEN..][..HIDDEN]);
            let t = self.gate_up.activations(id, &x);
            let values: Vec<f64> = t.iter().map(|t| t.0).collect();
            for (row, y) in y[token * HIDDEN..][..HIDDEN].iter_mut().enumerate() {
                let weights =
                    &self.down.values[(id * HIDDEN + row) * INTERMEDIATE..][..INTERMEDIATE];
                let size: f64 = weights.iter().zip(&t).map(|(w, t)| w.abs() * t.1).sum();
                y.0 += weight * self.down.row(id, row, &values).0;
                y.1 += weight * (size + 1.0);
            }
        }
        y
    }

    fn run<R: Runtime>(&self, gpu: &Gpu<R>, way: Way, starts: [&[usize]; 2]) -> Buffer {
        let gate_up = self.gate_up.upload(gpu, starts[0]);
        let down = self.down.upload(gpu, starts[1]);
        let (x, residual) = (gpu.upload(&self.x), gpu.upload(&self.residual));
        let (ids, weights) = (gpu.upload(&self.ids), gpu.upload(&self.weights));
        let (n, top_k) = (self.n, self.top_k);
        let large = n.max(if way == Way::ByNumber {
            0
        } else {
            DECODE_TOKENS + 1
        });
        let work = Work::new(gpu, Work::sizes(large, top_k, &gate_up, &down));
        let y = gpu.upload(&vec![f32::NAN; n * HIDDEN]);
        let before = gpu.launches();
        match way {
            Way::ByNumber => experts(
                gpu, &x, &residual, &ids, &weights, n, top_k, &gate_up, &down, LIMIT, &work, &y,
            ),
            Way::Decode => {
                decode::gate_up(gpu, &x, &ids, (n, top_k), &gate_up, LIMIT, &work.t);
                decode::down(
                    gpu,
                    &work.t,
                    &residual,
                    (&ids, &weights),
                    (n, top_k),
                    &down,
                    &y,
                );
            }
            Way::Prefill(per_unit) => {
                let tile = Tile { per_unit };
                sort::by_expert(gpu, &ids, n * top_k, EXPERTS, &work);
                prefill::gate_up(gpu, &x, (n, top_k), &gate_up, LIMIT, tile, &work);
                prefill::down(gpu, (n, top_k), &down, tile, &work);
                prefill::sum(gpu, &residual, &weights, (n, top_k), HIDDEN, &work, &y);
            }
        }
        let products = (starts[0].len() + starts[1].len()) as u64;
        let grouped = way != Way::Decode && (way != Way::ByNumber || n > DECODE_TOKENS);
        assert_eq!(
            gpu.launches() - before,
            products + if grouped { 2 } else { 0 }
        );
        y
    }
}

#[test]
fn layers_are_their_twins_in_any_number_of_pieces() {
    let starts: [[&[usize]; 2]; 3] = [
        [&[0], &[0]],
        [&[0, 1, 5], &[0, 4]],
        [&[0, 7], &[0, 1, 2, 3, 6]],
    ];
    for gpu in gpus() {
        for kind in [Kind::Mxfp4, Kind::Bf16] {
            // Each way to cut once with few and once with many tokens.
            for (i, n) in [1, 3, 8, 9, 17, 100].into_iter().enumerate() {
                let layer = Layer::new(kind, random_ids(n, 4, EXPERTS, n as u64), 4);
                let y = layer.run(&gpu, Way::ByNumber, starts[i % 3]);
                assert_near(&read(&gpu, &y), &layer.twin());
            }
        }
    }
}

#[test]
fn decode_and_every_tile_of_prefill_are_the_same() {
    for gpu in gpus() {
        for n in [1, 3, 17, 100] {
            let layer = Layer::new(Kind::Mxfp4, random_ids(n, 3, EXPERTS, n as u64), 3);
            let twin = layer.twin();
            for way in [
                Way::Decode,
                Way::Prefill(1),
                Way::Prefill(2),
                Way::Prefill(4),
                Way::Prefill(8),
            ] {
                assert_near(&read(&gpu, &layer.run(&gpu, way, [&[0, 3], &[0]])), &twin);
            }
        }
    }
}

#[test]
fn experts_that_all_or_none_choose() {
    for gpu in gpus() {
        for n in [1, 8, 100] {
            for ids in [[7, 0], [3, 4], [0, 1], [6, 7]] {
                let layer = Layer::new(Kind::Mxfp4, ids.repeat(n), 2);
                let y = read(&gpu, &layer.run(&gpu, Way::ByNumber, [&[0, 4], &[0, 1, 7]]));
                assert_near(&y, &layer.twin());
            }
        }
    }
}

#[test]
fn ids_that_are_no_expert_touch_no_other_token() {
    for gpu in gpus() {
        for n in [2, 40] {
            let mut ids = random_ids(n, 4, EXPERTS, 5);
            let good = Layer::new(Kind::Mxfp4, ids.clone(), 4);
            ids[..4].copy_from_slice(&[8, u32::MAX, 1 << 31, 3]);
            let layer = Layer::new(Kind::Mxfp4, ids, 4);
            let y = read(&gpu, &layer.run(&gpu, Way::ByNumber, [&[0, 4], &[0, 1, 7]]));
            assert_near(&y[HIDDEN..], &good.twin()[HIDDEN..]);
        }
    }
}

#[test]
fn nan_in_a_token_reaches_its_result_and_no_other() {
    for gpu in gpus() {
        for n in [2, 40] {
            let mut layer = Layer::new(Kind::Mxfp4, random_ids(n, 4, EXPERTS, 5), 4);
            let twin = layer.twin();
            layer.x[3] = f32::NAN;
            let y = read(&gpu, &layer.run(&gpu, Way::ByNumber, [&[0, 4], &[0, 1, 7]]));
            assert!(y[..HIDDEN].iter().all(|v| v.is_nan()), "{:?}", &y[..HIDDEN]);
            assert_near(&y[HIDDEN..], &twin[HIDDEN..]);
        }
    }
}

/// The activations of `x` alone, decoded and prefilled.
fn activations<R: Runtime>(
    gpu: &Gpu<R>,
    weights: &ExpertWeights,
    x: &[f32],
    ids: &[u32],
) -> [(Buffer, Vec<usize>); 2] {
    let (n, pairs) = (ids.len(), weights.rows / 2);
    let (x, uploaded) = (gpu.upload(x), gpu.upload(ids));
    let t = gpu.empty(n * pairs);
    decode::gate_up(gpu, &x, &uploaded, (n, 1), weights, LIMIT, &t);
    let work = Work {
        t: gpu.empty(n * pairs),
        offsets: gpu.empty(weights.experts + 1),
        order: gpu.empty(n),
        products: gpu.empty(1),
    };
    sort::by_expert(gpu, &uploaded, n, weights.experts, &work);
    prefill::gate_up(gpu, &x, (n, 1), weights, LIMIT, Tile { per_unit: 1 }, &work);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&slot| ids[slot]);
    [(t, (0..n).collect()), (work.t, order)]
}

/// Down of `t` alone, decoded and prefilled, one expert to a token, without residual.
fn outputs<R: Runtime>(
    gpu: &Gpu<R>,
    weights: &ExpertWeights,
    t: &[f32],
    ids: &[u32],
) -> [Buffer; 2] {
    let (n, rows, cols) = (ids.len(), weights.rows, weights.cols);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&slot| ids[slot]);
    let sorted: Vec<f32> = order
        .iter()
        .flat_map(|&slot| &t[slot * cols..][..cols])
        .copied()
        .collect();
    let (t, ids, ones) = (gpu.upload(t), gpu.upload(ids), gpu.upload(&vec![1.0f32; n]));
    let (residual, y) = (gpu.upload(&vec![0.0f32; n * rows]), gpu.empty(n * rows));
    decode::down(gpu, &t, &residual, (&ids, &ones), (n, 1), weights, &y);
    let work = Work {
        t: gpu.upload(&sorted),
        offsets: gpu.empty(weights.experts + 1),
        order: gpu.empty(n),
        products: gpu.empty(n * rows),
    };
    sort::by_expert(gpu, &ids, n, weights.experts, &work);
    prefill::down(gpu, (n, 1), weights, Tile { per_unit: 1 }, &work);
    [y, work.products]
}

#[test]
fn ragged_rows_and_columns_in_pieces_of_ragged_scales() {
    // The last sizes are more than one chunk of input for either kind.
    let sizes = [
        (5, 32),
        (37, 96),
        (1, 64),
        (33, 160),
        (9, 832),
        (3, 2880),
        (2, 3136),
    ];
    for gpu in gpus() {
        for (pairs, cols) in sizes {
            for kind in [Kind::Mxfp4, Kind::Bf16] {
                let ids = [2, 0, 1];
                let x = Numbers::new(cols as u64).values(ids.len() * cols);
                let tokens: Vec<Vec<f64>> = x.chunks(cols).map(wide).collect();

                let weights = Weights::random(kind, (3, 2 * pairs, cols), 3);
                let uploaded = weights.upload(&gpu, &[0, 1]);
                for (t, order) in activations(&gpu, &uploaded, &x, &ids) {
                    let expected: Vec<(f64, f64)> = order
                        .iter()
                        .flat_map(|&slot| weights.activations(ids[slot] as usize, &tokens[slot]))
                        .collect();
                    assert_near(&read(&gpu, &t), &expected);
                }

                let rows = 2 * pairs + 1;
                let weights = Weights::random(kind, (3, rows, cols), 4);
                let uploaded = weights.upload(&gpu, &[0, 1, 2]);
                for y in outputs(&gpu, &uploaded, &x, &ids) {
                    let expected: Vec<(f64, f64)> = (0..ids.len() * rows)
                        .map(|i| weights.row(ids[i / rows] as usize, i % rows, &tokens[i / rows]))
                        .collect();
                    assert_near(&read(&gpu, &y), &expected);
                }
            }
        }
    }
}

#[test]
#[allow(clippy::float_cmp, reason = "one value times 1.0 is that value")]
fn every_value_is_where_the_checkpoint_has_it() {
    let (rows, cols) = (19, 64);
    for gpu in gpus() {
        for kind in [Kind::Mxfp4, Kind::Bf16] {
            let mut weights = Weights::random(kind, (2, rows, cols), 7);
            weights.bias.fill(0.0);
            let uploaded = weights.upload(&gpu, &[0]);
            // Token `i` sees column `i` alone.
            let mut t = vec![0.0f32; cols * cols];
            t.iter_mut().step_by(cols + 1).for_each(|v| *v = 1.0);
            for y in outputs(&gpu, &uploaded, &t, &vec![1; cols]) {
                for (i, found) in read(&gpu, &y).into_iter().enumerate() {
                    let expected = weights.values[(rows + i % rows) * cols + i / rows];
                    assert!(
                        f64::from(found) == expected,
                        "at {i}: {found}, expected {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_smallest_and_largest_scales() {
    // Codes up to 1.5 do not overflow with scale 254.
    let codes = 0x3210_BA98u32;
    for gpu in gpus() {
        for (scale, size) in [
            (0, 1e37),
            (1, 1e37),
            (2, 1e36),
            (252, 1e-37),
            (253, 1e-37),
            (254, 1e-37),
        ] {
            let weights = Weights::new(
                Kind::Mxfp4,
                (1, 3, 32),
                vec![codes; 12],
                vec![scale, 127, scale],
                vec![0.0; 3],
            );
            let mut t: Vec<f32> = Numbers::new(u64::from(scale)).values(32);
            for v in &mut t {
                *v *= size;
            }
            let uploaded = weights.upload(&gpu, &[0]);
            for (prefill, y) in outputs(&gpu, &uploaded, &t, &[0]).iter().enumerate() {
                for (row, found) in read(&gpu, y).into_iter().enumerate() {
                    let (expected, magnitudes) = weights.row(0, row, &wide(&t));
                    // Single weights below the normal numbers may be taken for 0.
                    let lost = f64::from(f32::MIN_POSITIVE) * 32.0 * f64::from(size);
                    let allowed =
                        1e-5 * magnitudes + if prefill == 1 && scale < 2 { lost } else { 0.0 };
                    let error = (f64::from(found) - expected).abs();
                    assert!(
                        error <= allowed,
                        "{scale}, {row}: {found}, expected {expected}"
                    );
                }
            }
        }
        let weights = Weights::new(
            Kind::Mxfp4,
            (1, 3, 32),
            vec![codes; 12],
            vec![127, 255, 127],
            vec![0.0; 3],
        );
        let uploaded = weights.upload(&gpu, &[0]);
        for y in outputs(&gpu, &uploaded, &[0.5; 32], &[0]) {
            let y = read(&gpu, &y);
            assert!(y[0] == 0.0 && y[1].is_nan() && y[2] == 0.0, "{y:?}");
        }
    }
}

#[test]
fn nan_in_a_gate_or_an_up_is_not_clamped_away() {
    for gpu in gpus() {
        // Pair 0 has its gate from a block of scale 255, pair 1 its up.
        let weights = Weights::new(
            Kind::Mxfp4,
            (1, 6, 32),
            vec![0x3210_BA98; 24],
            vec![255, 127, 127, 255, 127, 127],
            vec![100.0; 6],
        );
        let uploaded = weights.upload(&gpu, &[0]);
        for (t, _) in activations(&gpu, &uploaded, &[0.5; 32], &[0]) {
            let t = read(&gpu, &t);
            assert!(
                t[0].is_nan() && t[1].is_nan() && (t[2] - 56.0).abs() < 1e-3,
                "{t:?}"
            );
        }
    }
}

#[test]
fn slots_are_grouped_in_their_order() {
    for gpu in gpus() {
        for (slots, experts) in [(1, 1), (255, 8), (257, 128), (1000, 3), (4000, 32)] {
            let mut numbers = Numbers::new(slots as u64);
            // The last expert has no slot.
            let ids: Vec<u32> = (0..slots)
                .map(|_| numbers.word() % (experts as u32 - 1).max(1))
                .collect();
            let work = Work {
                t: gpu.empty(1),
                offsets: gpu.empty(experts + 1),
                order: gpu.empty(slots),
                products: gpu.empty(1),
            };
            sort::by_expert(&gpu, &gpu.upload(&ids), slots, experts, &work);
            let mut order: Vec<u32> = (0..slots as u32).collect();
            order.sort_by_key(|&slot| ids[slot as usize]);
            assert_eq!(read_words(&gpu, &work.order), order);
            let offsets: Vec<u32> = (0..=experts as u32)
                .map(|expert| ids.iter().filter(|&&id| id < expert).count() as u32)
                .collect();
            assert_eq!(read_words(&gpu, &work.offsets), offsets);
        }
    }
}

#[test]
fn pieces_hold_all_experts_and_no_more_than_fits() {
    // gpt-oss-20b gate and up: 8 294 400 bytes an expert, 16 of them in 128 MiB.
    let size = (32, 5760, 2880);
    assert_eq!(pieces(Kind::Mxfp4, size, 128 << 20), [0..16, 16..32]);
    assert_eq!(pieces(Kind::Mxfp4, size, 1 << 31).len(), 1);
    assert_eq!(pieces(Kind::Mxfp4, size, 8_294_400).len(), 32);
    assert_eq!(pieces(Kind::Bf16, (4, 2, 32), 3 * 128 + 127), [0..2, 2..4]);
    for experts in 1..40 {
        for held in 1..10 {
            let ranges = pieces(Kind::Bf16, (experts, 1, 32), 64 * held);
            assert_eq!(ranges.len(), experts.div_ceil(held as usize));
            assert!(ranges.iter().all(|range| range.len() <= held as usize));
            assert!(ranges.iter().flat_map(Clone::clone).eq(0..experts));
        }
    }
}
