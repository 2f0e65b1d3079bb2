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
mod awake;
mod elementwise;
mod history;
pub mod kernels;
mod pages;
pub mod products;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use burn::tensor::{Int, Tensor, TensorPrimitive};
use burn_candle::{Candle, CandleTensor};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use self::attention::Attention;
use self::awake::awake;
use self::history::History;
use self::kernels::{BLOCK, Kernels, Q8Block, Rows, q8_from_bf16};
use self::pages::Pages;
use self::products::{Arithmetic, LinearView, Scratch};
use super::backend::{Engine, Routing};
use super::rope::Rope;
use super::{Dense, Draw, Drawn, EngineOptions, Error, InUse, KvType, Likeliest, sampler};
use crate::checkpoint::{Bf16, Experts, Linear};

/// The burn backend of the CPU.
pub type Burn = Candle<f32, i64>;

/// The CPU engine: a kernel set and a pool of threads.
pub struct Cpu {
    arithmetic: Arithmetic,
    in_use: InUse,
    pool: ThreadPool,
    scratch: Mutex<Scratch>,
    /// The room of the logits of one token.
    logits: Mutex<Vec<f32>>,
}

impl Cpu {
    /// By default the fastest kernels of this machine on one thread per physical core.
    ///
    /// # Errors
    /// [`Error::Kernels`] where this CPU cannot run the kernels asked for, [`Error::Device`] where the threads
    /// cannot be started.
    pub fn new(options: &EngineOptions) -> Result<Self, Error> {
        Self::with_kernels(kernels_for(options)?, options)
    }

    /// As [`new`](Self::new), with a kernel set of one's own choice.
    ///
    /// # Errors
    /// [`Error::Device`] where the threads cannot be started.
    pub fn with_kernels(kernels: Kernels, options: &EngineOptions) -> Result<Self, Error> {
        let in_use = in_use(&kernels, options);
        let threads = in_use.threads;
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("gptoss-{i}"))
            .build()
            .map_err(|error| Error::Device(format!("starting {threads} threads: {error}")))?;
        let arithmetic = Arithmetic {
            kernels,
            compute: in_use.compute,
        };
        Ok(Self {
            arithmetic,
            in_use,
            pool,
            scratch: Mutex::default(),
            logits: Mutex::default(),
        })
    }

    /// What `choose` makes of the logits after one row. They are nearly a megabyte, and new memory costs a page fault
    /// every four kilobytes.
    fn last_logits<T>(
        &self,
        x: Tensor<Burn, 2>,
        unembedding: &Matrix,
        choose: impl FnOnce(&mut [f32]) -> T,
    ) -> T {
        let mut logits = self.logits.lock().unwrap_or_else(PoisonError::into_inner);
        logits.resize(unembedding.rows, 0.0);
        products::linear(
            self.arithmetic,
            &read(x),
            1,
            &[unembedding.view()],
            &mut logits,
        );
        choose(&mut logits)
    }
}

/// The kernels that `options` ask for, or the fastest of this machine.
///
/// # Errors
/// [`Error::Kernels`] where this CPU cannot run them.
pub fn kernels_for(options: &EngineOptions) -> Result<Kernels, Error> {
    let Some(name) = &options.kernels else {
        return Ok(Kernels::detect());
    };
    Kernels::by_name(name).ok_or_else(|| Error::Kernels {
        name: name.clone(),
        available: Kernels::available().map(|set| set.name).collect(),
    })
}

/// What `options` come to with `kernels`.
pub fn in_use(kernels: &Kernels, options: &EngineOptions) -> InUse {
    InUse {
        kernels: kernels.name,
        compute: kernels.compute(options.compute),
        dense: options.dense,
        kv_type: options.kv_type,
        threads: options.threads.unwrap_or_else(physical_cores),
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

/// A dense matrix and its bias.
pub struct Matrix {
    weight: MatrixWeight,
    bias: Option<Bf16>,
    rows: usize,
    cols: usize,
}

enum MatrixWeight {
    /// As stored.
    Bf16(Bf16),
    /// Rounded to 8 bits: the bytes of `[rows, cols / BLOCK]` blocks, rounded up.
    Q8(Pages<u8>),
}

impl Matrix {
    fn new(weight: &Bf16, bias: Option<&Bf16>, dense: Dense) -> Self {
        let (rows, cols) = (weight.rows(), weight.cols());
        let weight = match dense {
            Dense::Bf16 => MatrixWeight::Bf16(weight.clone()),
            Dense::Q8 => {
                let mut bytes = Pages::zeroed(dense.bytes(rows, cols));
                let blocks: &mut [Q8Block] = bytes.as_chunks_mut().0;
                blocks
                    .par_chunks_exact_mut(cols.div_ceil(BLOCK))
                    .enumerate()
                    .with_min_len(16)
                    .for_each(|(i, row)| q8_from_bf16(weight.row(i), row));
                MatrixWeight::Q8(bytes)
            }
        };
        Self {
            weight,
            bias: bias.cloned(),
            rows,
            cols,
        }
    }

    fn values(&self) -> Rows<'_> {
        match &self.weight {
            MatrixWeight::Bf16(weight) => Rows::Bf16(&weight.bytes),
            MatrixWeight::Q8(bytes) => Rows::Q8(bytes.as_chunks().0),
        }
    }

    fn view(&self) -> LinearView<'_> {
        LinearView {
            weight: self.values(),
            bias: self.bias.as_ref().map(|bias| &*bias.bytes),
            rows: self.rows,
            cols: self.cols,
        }
    }
}

/// Both products of one layer's experts.
pub struct CpuExperts {
    gate_up: Experts,
    down: Experts,
}

impl Engine for Cpu {
    type Burn = Burn;
    type Vector = Vec<f32>;
    type Linear = Vec<Matrix>;
    type Table = Matrix;
    type Experts = CpuExperts;
    type Rotation = Rotation;
    type History = History;

    fn describe(&self) -> String {
        self.in_use.to_string()
    }

    fn run<R: Send>(&self, forward: impl FnOnce() -> R + Send) -> R {
        self.pool.install(|| awake(forward))
    }

    fn load_vector(&self, vector: &Bf16) -> Self::Vector {
        vector.to_f32()
    }

    fn load_linear(&self, parts: &[&Linear]) -> Self::Linear {
        let matrix =
            |part: &&Linear| Matrix::new(&part.weight, Some(&part.bias), self.in_use.dense);
        self.run(|| parts.iter().map(matrix).collect())
    }

    fn load_router(&self, router: &Linear) -> Self::Linear {
        vec![Matrix::new(&router.weight, Some(&router.bias), Dense::Bf16)]
    }

    fn load_table(&self, table: &Bf16) -> Self::Table {
        self.run(|| Matrix::new(table, None, self.in_use.dense))
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
        let cols = table.cols;
        let mut values = vec![0.0; tokens.len() * cols];
        for (&id, values) in tokens.iter().zip(values.chunks_exact_mut(cols)) {
            let row = table.values().slice(cols, id as usize..id as usize + 1);
            self.arithmetic.kernels.unpack(row, cols, values);
        }
        wrap(values, [tokens.len(), cols])
    }

    fn rms_norm(&self, x: Tensor<Burn, 2>, gain: &Self::Vector, eps: f32) -> Tensor<Burn, 2> {
        let shape = x.dims();
        let mut y = vec![0.0; shape[0] * shape[1]];
        elementwise::rms_norm(&read(x), gain, eps, &mut y);
        wrap(y, shape)
    }

    fn norm_linear(
        &self,
        x: Tensor<Burn, 2>,
        gain: &Self::Vector,
        eps: f32,
        weight: &Self::Linear,
    ) -> Tensor<Burn, 2> {
        let [n, _] = x.dims();
        let t = read(self.rms_norm(x, gain, eps));
        let (y, rows) = product(self.arithmetic, &t, n, weight);
        wrap(y, [n, rows])
    }

    fn add_linear(
        &self,
        residual: Tensor<Burn, 2>,
        x: Tensor<Burn, 2>,
        weight: &Self::Linear,
    ) -> Tensor<Burn, 2> {
        let shape = residual.dims();
        let (y, _) = product(self.arithmetic, &read(x), shape[0], weight);
        let mut residual = read(residual);
        for (residual, y) in residual.iter_mut().zip(y) {
            *residual += y;
        }
        wrap(residual, shape)
    }

    fn rotation(&self, positions: Range<usize>, rope: &Rope) -> Self::Rotation {
        let (cos, sin) = rope.cos_sin(positions);
        Rotation { cos, sin }
    }

    fn append(
        &self,
        history: &mut Self::History,
        start: usize,
        qkv: Tensor<Burn, 2>,
        rotation: &Self::Rotation,
    ) -> Tensor<Burn, 3> {
        let [n, width] = qkv.dims();
        let (kv_heads, d) = (history.kv_heads(), history.head_dim());
        let heads = width / d - 2 * kv_heads;
        let mut qkv = read(qkv);
        // q and k lie side by side in a row.
        let Rotation { cos, sin } = rotation;
        elementwise::rotate(&mut qkv, width, heads + kv_heads, d, cos, sin);
        history.write(start, &qkv, width);
        // Of each row q stays.
        for i in 1..n {
            qkv.copy_within(i * width..i * width + heads * d, i * heads * d);
        }
        qkv.truncate(n * heads * d);
        wrap(qkv, [n, heads, d])
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
            kernels: &self.arithmetic.kernels,
            history,
            start,
            window,
            sinks,
            head_dim,
        }
        .run(&read(q), &mut out);
        wrap(out, [n, heads * head_dim])
    }

    fn norm_route(
        &self,
        x: Tensor<Burn, 2>,
        gain: &Self::Vector,
        eps: f32,
        router: &Self::Linear,
        top_k: usize,
    ) -> (Tensor<Burn, 2>, Routing<Burn>) {
        let [n, _] = x.dims();
        let t = self.rms_norm(x, gain, eps);
        let (logits, experts) = product(self.arithmetic.exact(), &read(t.clone()), n, router);
        let (mut ids, mut weights) = (Vec::with_capacity(n * top_k), Vec::with_capacity(n * top_k));
        for row in logits.chunks_exact(experts) {
            let (chosen, shares) = choose(row, top_k);
            ids.extend(chosen.iter().map(|&id| id as i64));
            weights.extend(shares);
        }
        let routing = Routing {
            ids: wrap_ids(ids, [n, top_k]),
            weights: wrap(weights, [n, top_k]),
        };
        (t, routing)
    }

    fn add_experts(
        &self,
        residual: Tensor<Burn, 2>,
        x: Tensor<Burn, 2>,
        routing: Routing<Burn>,
        experts: &Self::Experts,
        limit: f32,
    ) -> Tensor<Burn, 2> {
        let shape = x.dims();
        let mut y = read(residual);
        let ids: Vec<u32> = routing.ids.into_data().iter::<u32>().collect();
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        products::experts(
            self.arithmetic,
            &read(x),
            shape[0],
            &ids,
            &read(routing.weights),
            &(&experts.gate_up).into(),
            &(&experts.down).into(),
            limit,
            &mut scratch,
            &mut y,
        );
        wrap(y, shape)
    }

    fn logits(&self, x: Tensor<Burn, 2>, unembedding: &Self::Table) -> Result<Vec<f32>, Error> {
        let [n, _] = x.dims();
        let mut y = vec![0.0; n * unembedding.rows];
        products::linear(self.arithmetic, &read(x), n, &[unembedding.view()], &mut y);
        Ok(y)
    }

    fn likeliest(
        &self,
        x: Tensor<Burn, 2>,
        unembedding: &Self::Table,
        k: usize,
    ) -> Result<Likeliest, Error> {
        Ok(self.last_logits(x, unembedding, |logits| sampler::likeliest(logits, k)))
    }

    fn draw(
        &self,
        x: Tensor<Burn, 2>,
        unembedding: &Self::Table,
        draw: Draw,
    ) -> Result<Drawn, Error> {
        Ok(self.last_logits(x, unembedding, |logits| sampler::draw(logits, draw)))
    }
}

/// `x Wᵀ + b` for weights side by side: `[n, rows of all]` and the number of rows.
fn product(arithmetic: Arithmetic, x: &[f32], n: usize, parts: &[Matrix]) -> (Vec<f32>, usize) {
    let views: Vec<_> = parts.iter().map(Matrix::view).collect();
    let rows = views.iter().map(|view| view.rows).sum();
    let mut y = vec![0.0; n * rows];
    products::linear(arithmetic, x, n, &views, &mut y);
    (y, rows)
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
pub fn read<const D: usize>(t: Tensor<Burn, D>) -> Vec<f32> {
    t.into_data()
        .into_vec()
        .expect("activations are f32 on this backend")
}

/// A tensor around values, without a copy.
pub fn wrap<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<Burn, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive(values, &shape)))
}

/// A tensor of ids.
pub fn wrap_ids<const D: usize>(values: Vec<i64>, shape: [usize; D]) -> Tensor<Burn, D, Int> {
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
