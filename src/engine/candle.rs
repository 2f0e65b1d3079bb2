//! The CPU: burn-candle carries the activations, our kernels multiply, straight from the memory map.
//!
//! candle itself cannot multiply BF16 on the CPU, copies a transposed weight at every product and runs a
//! one-row product on one thread. So tensors are read out, given to the kernels and wrapped again; the copy is a
//! few kilobytes per token against hundreds of megabytes of weights.
#![allow(
    deprecated,
    reason = "burn-candle is deprecated as a crate; 0.21 is the last stable burn that has it"
)]

mod attention;
mod history;
pub mod kernels;
pub mod products;

use std::ops::Range;

use burn::tensor::{Int, Tensor, TensorPrimitive};
use burn_candle::{Candle, CandleTensor};
use half::bf16;
use rayon::{ThreadPool, ThreadPoolBuilder};

use self::attention::Attention;
use self::history::History;
use self::kernels::Kernels;
use self::products::LinearView;
use super::backend::{Engine, Routing};
use super::rope::Rope;
use super::{Error, KvType};
use crate::checkpoint::{Bf16, Experts, Linear};

type Burn = Candle<f32, i64>;

/// The CPU engine: a kernel set and a pool of threads.
pub struct Cpu {
    kernels: Kernels,
    pool: ThreadPool,
}

impl Cpu {
    /// The fastest kernels of this machine on `threads` threads, by default one per physical core.
    ///
    /// # Errors
    /// [`Error::Device`] where the threads cannot be started.
    pub fn new(threads: Option<usize>) -> Result<Self, Error> {
        Self::with_kernels(Kernels::detect(), threads)
    }

    /// As [`new`](Self::new), with a kernel set of one's own choice.
    ///
    /// # Errors
    /// [`Error::Device`] where the threads cannot be started.
    pub fn with_kernels(kernels: Kernels, threads: Option<usize>) -> Result<Self, Error> {
        let threads = threads.unwrap_or_else(physical_cores);
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("gptoss-{i}"))
            .build()
            .map_err(|error| Error::Device(format!("starting {threads} threads: {error}")))?;
        Ok(Self { kernels, pool })
    }
}

/// Products are bound by memory or by the vector units, which hardware threads share.
fn physical_cores() -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    sysinfo::System::physical_core_count().map_or(available, |cores| cores.min(available))
}

/// The rotation of one forward pass, `[n, head_dim / 2]` each.
pub struct Rotation {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// Both products of one layer's experts.
pub struct CpuExperts {
    gate_up: Experts,
    down: Experts,
}

impl Engine for Cpu {
    type Burn = Burn;
    type Vector = Vec<f32>;
    type Linear = Vec<Linear>;
    type Table = Bf16;
    type Experts = CpuExperts;
    type Rotation = Rotation;
    type History = History;

    fn describe(&self) -> String {
        let threads = self.pool.current_num_threads();
        let plural = if threads == 1 { "" } else { "s" };
        format!(
            "cpu (candle, {}, {threads} thread{plural})",
            self.kernels.name
        )
    }

    fn run<R: Send>(&self, forward: impl FnOnce() -> R + Send) -> R {
        self.pool.install(forward)
    }

    fn load_vector(&self, vector: &Bf16) -> Self::Vector {
        vector.to_f32()
    }

    fn load_linear(&self, parts: &[&Linear]) -> Self::Linear {
        parts.iter().map(|&part| part.clone()).collect()
    }

    fn load_table(&self, table: &Bf16) -> Self::Table {
        table.clone()
    }

    fn load_experts(&self, gate_up: &Experts, down: &Experts) -> Self::Experts {
        CpuExperts {
            gate_up: gate_up.clone(),
            down: down.clone(),
        }
    }

    fn new_history(&self, kv_heads: usize, head_dim: usize, kv_type: KvType) -> Self::History {
        History::new(kv_heads, head_dim, kv_type)
    }

    fn embed(&self, tokens: &[u32], table: &Self::Table) -> Tensor<Burn, 2> {
        let values: Vec<f32> = tokens
            .iter()
            .flat_map(|&id| table.row(id as usize).chunks_exact(2))
            .map(|bytes| bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32())
            .collect();
        wrap(values, [tokens.len(), table.cols()])
    }

    fn rms_norm(&self, x: Tensor<Burn, 2>, gain: &Self::Vector, eps: f32) -> Tensor<Burn, 2> {
        let shape = x.dims();
        let mut y = vec![0.0; shape[0] * shape[1]];
        products::rms_norm(&read(x), gain, eps, &mut y);
        wrap(y, shape)
    }

    fn linear(&self, x: Tensor<Burn, 2>, weight: &Self::Linear) -> Tensor<Burn, 2> {
        let [n, _] = x.dims();
        let (y, rows) = self.product(&read(x), n, weight);
        wrap(y, [n, rows])
    }

    fn rotation(&self, positions: Range<usize>, rope: &Rope) -> Self::Rotation {
        let (cos, sin) = rope.cos_sin(positions);
        Rotation { cos, sin }
    }

    fn rotate(&self, x: Tensor<Burn, 3>, rotation: &Self::Rotation) -> Tensor<Burn, 3> {
        let shape = x.dims();
        let mut values = read(x);
        products::rotate(
            &mut values,
            shape[1],
            shape[2],
            &rotation.cos,
            &rotation.sin,
        );
        wrap(values, shape)
    }

    fn append(
        &self,
        history: &mut Self::History,
        start: usize,
        k: Tensor<Burn, 3>,
        v: Tensor<Burn, 3>,
    ) {
        history.write(start, &read(k), &read(v));
    }

    fn truncate(&self, history: &mut Self::History, len: usize) {
        history.truncate(len);
    }

    fn attention(
        &self,
        q: Tensor<Burn, 3>,
        history: &Self::History,
        start: usize,
        window: Option<usize>,
        sinks: &Self::Vector,
    ) -> Tensor<Burn, 2> {
        let [n, heads, head_dim] = q.dims();
        let mut out = vec![0.0; n * heads * head_dim];
        Attention {
            kernels: &self.kernels,
            history,
            start,
            window,
            sinks,
            head_dim,
        }
        .run(&read(q), &mut out);
        wrap(out, [n, heads * head_dim])
    }

    fn route(&self, x: Tensor<Burn, 2>, router: &Self::Linear, top_k: usize) -> Routing<Burn> {
        let [n, _] = x.dims();
        let (logits, experts) = self.product(&read(x), n, router);
        let (mut ids, mut weights) = (Vec::with_capacity(n * top_k), Vec::with_capacity(n * top_k));
        for row in logits.chunks_exact(experts) {
            let (chosen, shares) = choose(row, top_k);
            ids.extend(chosen.iter().map(|&id| id as i64));
            weights.extend(shares);
        }
        Routing {
            ids: wrap_ids(ids, [n, top_k]),
            weights: wrap(weights, [n, top_k]),
        }
    }

    fn experts(
        &self,
        x: Tensor<Burn, 2>,
        routing: Routing<Burn>,
        experts: &Self::Experts,
        limit: f32,
    ) -> Tensor<Burn, 2> {
        let shape = x.dims();
        let mut y = vec![0.0; shape[0] * shape[1]];
        let ids: Vec<u32> = routing.ids.into_data().iter::<u32>().collect();
        products::experts(
            &self.kernels,
            &read(x),
            shape[0],
            &ids,
            &read(routing.weights),
            &(&experts.gate_up).into(),
            &(&experts.down).into(),
            limit,
            &mut y,
        );
        wrap(y, shape)
    }

    fn logits(&self, x: Tensor<Burn, 2>, unembedding: &Self::Table) -> Result<Vec<f32>, Error> {
        let [n, _] = x.dims();
        let mut y = vec![0.0; n * unembedding.rows()];
        products::linear(
            &self.kernels,
            &read(x),
            n,
            &LinearView::unbiased(unembedding),
            &mut y,
        );
        Ok(y)
    }
}

impl Cpu {
    /// `x Wᵀ + b` for weights side by side: `[n, rows of all]` and the number of rows.
    fn product(&self, x: &[f32], n: usize, parts: &[Linear]) -> (Vec<f32>, usize) {
        let rows = parts.iter().map(|part| part.weight.rows()).sum();
        let mut y = vec![0.0; n * rows];
        let mut first = 0;
        for part in parts {
            let width = part.weight.rows();
            let mut columns = vec![0.0; n * width];
            products::linear(&self.kernels, x, n, &part.into(), &mut columns);
            for (y, columns) in y.chunks_exact_mut(rows).zip(columns.chunks_exact(width)) {
                y[first..first + width].copy_from_slice(columns);
            }
            first += width;
        }
        (y, rows)
    }
}

/// The `k` largest of a token's router logits, falling, of equal ones the first; and the softmax over them alone.
fn choose(logits: &[f32], k: usize) -> (Vec<usize>, Vec<f32>) {
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    ids.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    ids.truncate(k);
    let exps: Vec<f32> = ids
        .iter()
        .map(|&id| (logits[id] - logits[ids[0]]).exp())
        .collect();
    let sum: f32 = exps.iter().sum();
    let weights = exps.iter().map(|exp| exp / sum).collect();
    (ids, weights)
}

/// The values of a tensor, row-major.
fn read<const D: usize>(t: Tensor<Burn, D>) -> Vec<f32> {
    t.into_data()
        .into_vec()
        .expect("activations are f32 on this backend")
}

/// A tensor around values, without a copy.
fn wrap<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<Burn, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive(values, &shape)))
}

fn wrap_ids<const D: usize>(values: Vec<i64>, shape: [usize; D]) -> Tensor<Burn, D, Int> {
    Tensor::from_primitive(primitive(values, &shape))
}

fn primitive<T: candle_core::WithDType>(values: Vec<T>, shape: &[usize]) -> CandleTensor {
    let tensor = candle_core::Tensor::from_vec(values, shape, &candle_core::Device::Cpu);
    CandleTensor::new(tensor.expect("callers give as many values as the shape has"))
}

#[cfg(test)]
mod tests {
    use super::choose;
    use crate::engine::testing::Golden;

    #[test]
    fn the_router_chooses_and_weighs_as_the_reference_does() {
        let golden = Golden::read("elementwise");
        let ids = golden.i64("router_indices");
        let ids: Vec<usize> = ids.into_iter().map(|id| id as usize).collect();
        let (logits, weights) = (golden.f32("router_logits"), golden.f32("router_weights"));
        for (token, logits) in logits.chunks_exact(32).enumerate() {
            let (mut found, shares) = choose(logits, 4);
            let mut expected = ids[4 * token..4 * token + 4].to_vec();
            for (share, expected) in shares.iter().zip(&weights[4 * token..]) {
                assert!(
                    (share - expected).abs() < 1e-6,
                    "token {token}: {share}, expected {expected}"
                );
            }
            // Of equal logits the reference may name either first.
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "token {token}");
        }
    }
}
