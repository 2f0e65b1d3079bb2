//! The slow, obvious twin: every operation of [`Engine`] in plain burn calls, with weights decoded to f32.
//!
//! It runs the whole model on any burn backend. The tests hold the kernels of the fast engines against it, and
//! it against the reference; nothing else uses it, since decoded weights take eight times the memory.

use std::ops::Range;

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

use super::backend::{Engine, Routing};
use super::cache::visible;
use super::rope::Rope;
use super::{EngineOptions, Error, KvType, LanguageModel, Loaded};
use crate::checkpoint::{Bf16, Checkpoint, ExpertWeight, Experts, Linear, mxfp4};

/// Plain burn operations on the device of `B`.
pub struct Twin<B: Backend> {
    device: B::Device,
}

impl<B: Backend> Twin<B> {
    /// A twin on `device`.
    pub const fn new(device: B::Device) -> Self {
        Self { device }
    }

    fn tensor<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Tensor<B, D> {
        Tensor::from_data(TensorData::new(values, shape), &self.device)
    }
}

/// `x · weight + bias`.
pub struct TwinLinear<B: Backend> {
    /// `[cols, rows]`, so that products need no transposing.
    weight: Tensor<B, 2>,
    /// `[1, rows]`
    bias: Tensor<B, 2>,
}

impl<B: Backend> TwinLinear<B> {
    fn apply(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        x.matmul(self.weight.clone()) + self.bias.clone()
    }
}

/// The MLPs of one layer, one by one.
pub struct TwinExpert<B: Backend> {
    gate: TwinLinear<B>,
    up: TwinLinear<B>,
    down: TwinLinear<B>,
}

/// `[positions, kv_heads, head_dim]` each; stored f32 or rounded to BF16.
pub struct TwinHistory<B: Backend> {
    k: Option<Tensor<B, 3>>,
    v: Option<Tensor<B, 3>>,
    kv_heads: usize,
    head_dim: usize,
    kv_type: KvType,
}

impl<B: Backend> Engine for Twin<B> {
    type Burn = B;
    type Vector = Tensor<B, 1>;
    type Linear = TwinLinear<B>;
    type Table = Tensor<B, 2>;
    type Experts = Vec<TwinExpert<B>>;
    type Rotation = (Tensor<B, 3>, Tensor<B, 3>);
    type History = TwinHistory<B>;

    fn describe(&self) -> String {
        format!("plain burn operations ({})", B::name(&self.device))
    }

    fn load_vector(&self, vector: &Bf16) -> Self::Vector {
        let values = vector.to_f32();
        let len = values.len();
        self.tensor(values, [len])
    }

    fn load_linear(&self, parts: &[&Linear]) -> Self::Linear {
        let cols = parts[0].weight.cols();
        let weight: Vec<f32> = parts.iter().flat_map(|part| part.weight.to_f32()).collect();
        let bias: Vec<f32> = parts.iter().flat_map(|part| part.bias.to_f32()).collect();
        let rows = bias.len();
        TwinLinear {
            weight: self.tensor(weight, [rows, cols]).transpose(),
            bias: self.tensor(bias, [1, rows]),
        }
    }

    fn load_table(&self, table: &Bf16) -> Self::Table {
        self.tensor(table.to_f32(), [table.rows(), table.cols()])
    }

    fn load_experts(&self, gate_up: &Experts, down: &Experts) -> Self::Experts {
        (0..gate_up.experts)
            .map(|expert| {
                let gate_up = (
                    expert_weight(gate_up, expert),
                    expert_bias(gate_up, expert),
                    gate_up.cols,
                );
                let down = (
                    expert_weight(down, expert),
                    expert_bias(down, expert),
                    down.cols,
                );
                let linear = |(weight, bias, cols): &(Vec<f32>, Vec<f32>, usize),
                              first: usize,
                              step: usize| {
                    let bias: Vec<f32> = bias.iter().skip(first).step_by(step).copied().collect();
                    let rows = bias.len();
                    let weight = weight
                        .chunks(*cols)
                        .skip(first)
                        .step_by(step)
                        .flatten()
                        .copied()
                        .collect();
                    TwinLinear {
                        weight: self.tensor(weight, [rows, *cols]).transpose(),
                        bias: self.tensor(bias, [1, rows]),
                    }
                };
                TwinExpert {
                    gate: linear(&gate_up, 0, 2),
                    up: linear(&gate_up, 1, 2),
                    down: linear(&down, 0, 1),
                }
            })
            .collect()
    }

    fn new_history(&self, kv_heads: usize, head_dim: usize, kv_type: KvType) -> Self::History {
        TwinHistory {
            k: None,
            v: None,
            kv_heads,
            head_dim,
            kv_type,
        }
    }

    fn embed(&self, tokens: &[u32], table: &Self::Table) -> Tensor<B, 2> {
        let ids: Vec<i32> = tokens.iter().map(|&id| id as i32).collect();
        let ids = Tensor::<B, 1, Int>::from_ints(ids.as_slice(), &self.device);
        table.clone().select(0, ids)
    }

    fn rms_norm(&self, x: Tensor<B, 2>, gain: &Self::Vector, eps: f32) -> Tensor<B, 2> {
        let mean_square = (x.clone() * x.clone()).mean_dim(1);
        x / (mean_square + eps).sqrt() * gain.clone().unsqueeze::<2>()
    }

    fn norm_linear(
        &self,
        x: Tensor<B, 2>,
        gain: &Self::Vector,
        eps: f32,
        weight: &Self::Linear,
    ) -> Tensor<B, 2> {
        weight.apply(self.rms_norm(x, gain, eps))
    }

    fn add_linear(
        &self,
        residual: Tensor<B, 2>,
        x: Tensor<B, 2>,
        weight: &Self::Linear,
    ) -> Tensor<B, 2> {
        residual + weight.apply(x)
    }

    fn rotation(&self, positions: Range<usize>, rope: &Rope) -> Self::Rotation {
        let n = positions.len();
        let (cos, sin) = rope.cos_sin(positions);
        let half = cos.len() / n;
        (
            self.tensor(cos, [n, 1, half]),
            self.tensor(sin, [n, 1, half]),
        )
    }

    fn append(
        &self,
        history: &mut Self::History,
        start: usize,
        qkv: Tensor<B, 2>,
        rotation: &Self::Rotation,
    ) -> Tensor<B, 3> {
        let [n, width] = qkv.dims();
        let (kv_heads, d) = (history.kv_heads, history.head_dim);
        let heads = width / d - 2 * kv_heads;
        let part = |first: usize, heads: usize| {
            let part = qkv.clone().narrow(1, first * d, heads * d);
            part.reshape([n, heads, d])
        };
        let q = rotate(part(0, heads), rotation);
        let k = rotate(part(heads, kv_heads), rotation);
        let v = part(heads + kv_heads, kv_heads);
        let kv_type = history.kv_type;
        for (held, new) in [(&mut history.k, k), (&mut history.v, v)] {
            let new = match kv_type {
                KvType::F32 => new,
                KvType::Bf16 => rounded_to_bf16(new),
                KvType::Q8 => rounded_to_8_bits(new),
            };
            let before = held
                .take()
                .filter(|_| start > 0)
                .map(|held| held.narrow(0, 0, start));
            *held = Some(match before {
                Some(before) => Tensor::cat(vec![before, new], 0),
                None => new,
            });
        }
        q
    }

    // The next `append` cuts where it starts.
    fn truncate(&self, _history: &mut Self::History, _len: usize) {}

    fn attention(
        &self,
        q: Tensor<B, 3>,
        history: &Self::History,
        start: usize,
        window: Option<usize>,
        sinks: &Self::Vector,
    ) -> Tensor<B, 2> {
        let [n, heads, d] = q.dims();
        let (k, v) = history
            .k
            .clone()
            .zip(history.v.clone())
            .expect("keys are appended before they are read");
        let [keys, kv_heads, _] = k.dims();
        let group = heads / kv_heads;

        // [heads, n, d] and [heads, keys, d]: query head h reads kv head h / group.
        let q = q.swap_dims(0, 1);
        let per_head = |t: Tensor<B, 3>| -> Tensor<B, 3> {
            t.swap_dims(0, 1)
                .reshape([kv_heads, 1, keys, d])
                .repeat_dim(1, group)
                .reshape([heads, keys, d])
        };
        let scores = q.matmul(per_head(k).swap_dims(1, 2)) / (d as f32).sqrt();
        let scores = scores + self.mask(n, keys, start, window);

        // The sink is one more column that takes its share and has no value.
        let sinks = sinks.clone().reshape([heads, 1, 1]).repeat_dim(1, n);
        let weights = softmax(Tensor::cat(vec![scores, sinks], 2), 2).narrow(2, 0, keys);
        weights
            .matmul(per_head(v))
            .swap_dims(0, 1)
            .reshape([n, heads * d])
    }

    fn norm_route(
        &self,
        x: Tensor<B, 2>,
        gain: &Self::Vector,
        eps: f32,
        router: &Self::Linear,
        top_k: usize,
    ) -> (Tensor<B, 2>, Routing<B>) {
        let t = self.rms_norm(x, gain, eps);
        let mut logits = router.apply(t.clone());
        let [n, experts] = logits.dims();
        let columns = Tensor::<B, 1, Int>::arange(0..experts as i64, &self.device).unsqueeze::<2>();
        let (mut ids, mut chosen) = (Vec::new(), Vec::new());
        for _ in 0..top_k {
            let id = logits.clone().argmax(1);
            chosen.push(logits.clone().gather(1, id.clone()));
            let taken = columns
                .clone()
                .repeat_dim(0, n)
                .equal(id.clone().repeat_dim(1, experts));
            logits = logits.mask_fill(taken, f32::NEG_INFINITY);
            ids.push(id);
        }
        let routing = Routing {
            ids: Tensor::cat(ids, 1),
            weights: softmax(Tensor::cat(chosen, 1), 1),
        };
        (t, routing)
    }

    fn add_experts(
        &self,
        residual: Tensor<B, 2>,
        x: Tensor<B, 2>,
        routing: Routing<B>,
        experts: &Self::Experts,
        limit: f32,
    ) -> Tensor<B, 2> {
        let mut y = x.zeros_like();
        for (id, expert) in experts.iter().enumerate() {
            // Zero where a token did not choose this expert.
            let chosen = routing.ids.clone().equal_elem(id as i64).float();
            let weight = (chosen * routing.weights.clone()).sum_dim(1);
            let gate = expert.gate.apply(x.clone()).clamp_max(limit);
            let up = expert.up.apply(x.clone()).clamp(-limit, limit);
            let t = gate.clone() * sigmoid(gate * 1.702) * (up + 1.0);
            y = y + expert.down.apply(t) * weight;
        }
        residual + y
    }

    fn logits(&self, x: Tensor<B, 2>, unembedding: &Self::Table) -> Result<Vec<f32>, Error> {
        x.matmul(unembedding.clone().transpose())
            .into_data()
            .into_vec()
            .map_err(|error| Error::Device(format!("reading the logits back: {error:?}")))
    }
}

impl<B: Backend> Twin<B> {
    /// 0 where query `start + i` sees key j, and minus infinity elsewhere: `[1, n, keys]`.
    fn mask(&self, n: usize, keys: usize, start: usize, window: Option<usize>) -> Tensor<B, 3> {
        let mut mask = vec![f32::NEG_INFINITY; n * keys];
        for (i, row) in mask.chunks_mut(keys).enumerate() {
            row[visible(start + i, window)].fill(0.0);
        }
        self.tensor(mask, [1, n, keys])
    }
}

/// Rotates the halves of every head of `[n, heads, head_dim]`.
fn rotate<B: Backend>(x: Tensor<B, 3>, (cos, sin): &(Tensor<B, 3>, Tensor<B, 3>)) -> Tensor<B, 3> {
    let half = x.dims()[2] / 2;
    let x1 = x.clone().narrow(2, 0, half);
    let x2 = x.narrow(2, half, half);
    let o1 = x1.clone() * cos.clone() - x2.clone() * sin.clone();
    let o2 = x2 * cos.clone() + x1 * sin.clone();
    Tensor::cat(vec![o1, o2], 2)
}

/// Multiples of the largest magnitude of each head over 127.
fn rounded_to_8_bits<B: Backend>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    let scale = x.clone().abs().max_dim(2) / 127.0;
    let scale = scale.clamp_min(f32::MIN_POSITIVE);
    (x / scale.clone()).round() * scale
}

/// The nearest BF16 values, ties to even, through the host: not every burn backend has the type.
fn rounded_to_bf16<B: Backend>(t: Tensor<B, 3>) -> Tensor<B, 3> {
    let (shape, device) = (t.dims(), t.device());
    let values: Vec<f32> = t
        .into_data()
        .iter::<f32>()
        .map(|value| half::bf16::from_f32(value).to_f32())
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &device)
}

/// One expert's weight, `[rows, cols]` row-major.
fn expert_weight(experts: &Experts, expert: usize) -> Vec<f32> {
    let (rows, cols) = (experts.rows, experts.cols);
    match &experts.weight {
        ExpertWeight::Mxfp4 { blocks, scales } => {
            let (per_block, per_scale) = (rows * cols / 2, rows * cols / 32);
            mxfp4::decode(
                &blocks[expert * per_block..][..per_block],
                &scales[expert * per_scale..][..per_scale],
            )
        }
        ExpertWeight::Bf16(weight) => {
            let stored = &weight.to_f32()[expert * rows * cols..][..rows * cols];
            (0..rows * cols)
                .map(|i| stored[(i % cols) * rows + i / cols])
                .collect()
        }
    }
}

/// One expert's bias, `[rows]`.
fn expert_bias(experts: &Experts, expert: usize) -> Vec<f32> {
    experts.bias.to_f32()[expert * experts.rows..][..experts.rows].to_vec()
}

/// The twin on burn-candle.
///
/// # Errors
/// [`Error::Context`]
#[allow(
    deprecated,
    reason = "burn-candle is deprecated as a crate; 0.21 is the last stable burn that has it"
)]
pub fn load_on_candle(
    checkpoint: &Checkpoint,
    options: &EngineOptions,
) -> Result<Box<dyn LanguageModel>, Error> {
    let twin = Twin::<burn_candle::Candle<f32, i64>>::new(burn_candle::CandleDevice::Cpu);
    Ok(Box::new(Loaded::new(twin, checkpoint, options)?))
}

/// The twin on burn-wgpu's default device, without fusion.
///
/// # Errors
/// [`Error::Context`]
#[cfg(feature = "wgpu")]
pub fn load_on_wgpu(
    checkpoint: &Checkpoint,
    options: &EngineOptions,
) -> Result<Box<dyn LanguageModel>, Error> {
    type Wgpu = burn_wgpu::CubeBackend<burn_wgpu::WgpuRuntime, f32, i32, u32>;
    let twin = Twin::<Wgpu>::new(burn_wgpu::WgpuDevice::DefaultDevice);
    Ok(Box::new(Loaded::new(twin, checkpoint, options)?))
}
