//! A GPU: burn's cube backend carries the activations, our `CubeCL` kernels compute, on Vulkan, Metal or CUDA alike.
//!
//! Weights, history and activations stay on the device; of a token only its id crosses over, and back the id drawn, the
//! likeliest ones or, where the sampler wants them all, the logits. Kernels are launched and not waited for, so that errors show late:
//! [`Engine::check`] asks for them.

pub mod kernels;
mod on_device;
mod on_host;
mod transfer;
mod weights;

use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use burn::tensor::{DType, Int, Shape, Tensor, TensorPrimitive};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeRuntime};
use cubecl::prelude::*;
use cubecl::stream_id::StreamId;

use self::kernels::argmax::{self, Candidates};
use self::kernels::attention::{self, Queries, attention};
use self::kernels::draw;
use self::kernels::embed::embed;
use self::kernels::experts::{self, ExpertWeights, Work};
use self::kernels::history::{self, History};
use self::kernels::linear::{Matrix, linear, norm_linear};
use self::kernels::norm::{Norm, rms_norm};
use self::kernels::route::route;
use self::kernels::{Buffer, Gpu};
pub use self::on_device::{OnDevice, bandwidth, load};
use self::transfer::Upload;
pub use self::transfer::{Steps, Transfer};
use self::weights::Loader;
use super::backend::{Engine, Routing};
use super::candle::{Cpu, CpuExperts};
use super::rope::Rope;
use super::{Dense, Draw, Drawn, EngineOptions, Error, KvType, Likeliest, sampler};
use crate::checkpoint::{Bf16, Config, Experts, Linear};

type Burn<R> = CubeBackend<R, f32, i32, u32>;

/// Positions that the table of cosines and sines begins with; it doubles.
const POSITIONS: usize = 4096;

/// The engine on one device.
pub struct Cube<R: CubeRuntime> {
    gpu: Gpu<R>,
    device: R::Device,
    upload: Upload<R>,
    description: String,
    dense: Dense,
    angles: Mutex<Option<Angles>>,
    /// What attention works in.
    attention: Buffer,
    candidates: Candidates,
    /// Layers whose experts are on the device; those of the others stay in the memory map.
    gpu_layers: usize,
    /// Layers whose experts were taken over so far.
    layers: AtomicUsize,
    /// Computes the experts that stay there.
    host: Option<Cpu>,
}

/// The cosines and sines of all positions from 0 on, `[positions, head_dim / 2]` each.
#[derive(Clone)]
pub struct Angles {
    cos: Buffer,
    sin: Buffer,
    positions: usize,
}

/// Both products of one layer's experts.
pub enum CubeExperts {
    /// On the device.
    Device {
        /// `[experts, 2 · intermediate, hidden]`
        gate_up: ExpertWeights,
        /// `[experts, hidden, intermediate]`
        down: ExpertWeights,
    },
    /// In the memory map, for the CPU.
    Host(CpuExperts),
}

impl<R: CubeRuntime> Cube<R> {
    /// An engine on `device`, which is called `name` in the figures.
    ///
    /// # Errors
    /// [`Error::Device`] where it has no kernel for a model of this shape, or the history of the context asked for would
    /// not fit into what it binds at once.
    pub fn new(
        device: R::Device,
        name: &str,
        transfer: Box<dyn Transfer<R>>,
        config: &Config,
        options: &EngineOptions,
    ) -> Result<Self, Error> {
        let mut client = R::client(&device);
        // SAFETY: every buffer of this engine is made and used on this one stream, whichever thread calls; calls are
        // one after the other, since a forward pass needs the cache for itself.
        #[allow(
            unsafe_code,
            reason = "a model may be loaded by one thread and run by another"
        )]
        unsafe {
            client.set_stream(StreamId::current());
        }
        let gpu = Gpu::new(client);
        supported(&gpu, config, options)?;
        let all = config.num_hidden_layers;
        let gpu_layers = options.gpu_layers.unwrap_or(all).min(all);
        let host = (gpu_layers < all).then(|| Cpu::new(options)).transpose()?;
        let mut description = format!(
            "{name}, compute f32, dense {}, kv {}",
            options.dense.name(),
            options.kv_type.name()
        );
        if let Some(cpu) = &host {
            let _ = write!(
                description,
                "; experts of {} of {all} layers on {}",
                all - gpu_layers,
                cpu.describe()
            );
        }
        Ok(Self {
            attention: gpu.empty(attention::work_len(
                config.num_attention_heads,
                config.head_dim,
            )),
            candidates: Candidates::new(&gpu, config.vocab_size),
            gpu,
            device,
            upload: Upload::new(transfer, options.progress.clone()),
            description,
            dense: options.dense,
            angles: Mutex::default(),
            gpu_layers,
            layers: AtomicUsize::new(0),
            host,
        })
    }

    /// The same with sums within planes, also where the runtime does not offer planes but the device has them of one
    /// size, as software devices do; `None` where it does not.
    pub fn with_planes(self) -> Option<Self> {
        let gpu = self.gpu.with_planes()?;
        Some(Self { gpu, ..self })
    }

    /// Bytes of device memory that are taken, in use or not.
    pub fn reserved(&self) -> u64 {
        let usage = self.gpu.client.memory_usage();
        usage.map_or(0, |usage| usage.bytes_reserved)
    }

    /// Kernels launched so far.
    pub fn launches(&self) -> u64 {
        self.gpu.launches()
    }

    /// Bytes that crossed between host and device so far, weights apart.
    pub fn crossed(&self) -> u64 {
        self.gpu.crossed()
    }

    const fn loader(&self) -> Loader<'_, R> {
        Loader {
            gpu: &self.gpu,
            upload: &self.upload,
        }
    }

    fn wrap<const D: usize>(&self, buffer: Buffer, shape: [usize; D]) -> Tensor<Burn<R>, D> {
        Tensor::from_primitive(TensorPrimitive::Float(self.primitive(
            buffer,
            &shape,
            DType::F32,
        )))
    }

    fn primitive(&self, buffer: Buffer, shape: &[usize], dtype: DType) -> CubeTensor<R> {
        CubeTensor::new_contiguous(
            self.gpu.client.clone(),
            self.device.clone(),
            Shape::from(shape.to_vec()),
            buffer.handle,
            dtype,
        )
    }

    /// The values of `buffer`, read back.
    fn read(&self, buffer: Buffer) -> Result<Vec<u32>, Error> {
        let words = self.gpu.read(buffer).map_err(Error::Device);
        // What the device itself says is nearer to the cause.
        self.upload.check()?;
        words
    }

    /// `x Wᵀ` over the vocabulary, on the device.
    fn all_logits(&self, x: Tensor<Burn<R>, 2>, unembedding: &Matrix) -> Buffer {
        let [n, _] = x.dims();
        let logits = self.gpu.empty(n * unembedding.rows);
        linear(&self.gpu, &taken(x), unembedding, None, &logits);
        logits
    }
}

/// Whether the kernels can run such a model on this device.
fn supported<R: Runtime>(
    gpu: &Gpu<R>,
    config: &Config,
    options: &EngineOptions,
) -> Result<(), Error> {
    let (kv_heads, d) = (config.num_key_value_heads, config.head_dim);
    let refuse = |what: String| Err(Error::Device(format!("{what}; --device cpu can")));
    if !matches!(d, 64 | 128) {
        return refuse(format!(
            "no GPU kernel has heads of {d} values, expected 64 or 128"
        ));
    }
    let widths = [
        config.hidden_size,
        config.intermediate_size,
        config.num_attention_heads * d,
    ];
    if let Some(width) = widths.iter().find(|width| !width.is_multiple_of(32)) {
        return refuse(format!(
            "no GPU kernel has rows of {width} values, expected a multiple of 32"
        ));
    }
    let context = options.context.unwrap_or(config.max_position_embeddings);
    let most = History::most(gpu, kv_heads, d, options.kv_type);
    if context > most {
        return Err(Error::Device(format!(
            "a history of {context} tokens in {} is more than this device can give a kernel at once, which is {most}; \
             --context {most} or --kv-type q8 takes less",
            options.kv_type.name()
        )));
    }
    Ok(())
}

impl<R: CubeRuntime> Engine for Cube<R> {
    type Burn = Burn<R>;
    type Vector = Buffer;
    type Linear = Matrix;
    type Table = Matrix;
    type Experts = CubeExperts;
    type Rotation = Angles;
    type History = History;

    fn describe(&self) -> String {
        self.description.clone()
    }

    fn check(&self) -> Result<(), Error> {
        let finished = self.gpu.finish().map_err(Error::Device);
        self.upload.check()?;
        finished
    }

    fn load_vector(&self, vector: &Bf16) -> Self::Vector {
        self.upload.values(&self.gpu, &vector.to_f32())
    }

    fn load_linear(&self, parts: &[&Linear]) -> Self::Linear {
        self.loader().linear(parts, self.dense)
    }

    fn load_router(&self, router: &Linear) -> Self::Linear {
        self.loader().linear(&[router], Dense::Bf16)
    }

    fn load_table(&self, table: &Bf16) -> Self::Table {
        self.loader().table(table, self.dense)
    }

    fn load_experts(&self, gate_up: &Experts, down: &Experts) -> Self::Experts {
        let layer = self.layers.fetch_add(1, Ordering::Relaxed);
        match &self.host {
            Some(cpu) if layer >= self.gpu_layers => {
                CubeExperts::Host(cpu.load_experts(gate_up, down))
            }
            _ => CubeExperts::Device {
                gate_up: self.loader().experts(gate_up),
                down: self.loader().experts(down),
            },
        }
    }

    fn new_history(&self, kv_heads: usize, head_dim: usize, kv_type: KvType) -> Self::History {
        History::new(&self.gpu, kv_heads, head_dim, kv_type, 0)
    }

    fn embed(&self, tokens: &[u32], table: &Self::Table) -> Tensor<Self::Burn, 2> {
        let x = self.gpu.empty(tokens.len() * table.cols);
        embed(&self.gpu, &self.gpu.upload(tokens), table, &x);
        self.wrap(x, [tokens.len(), table.cols])
    }

    fn rms_norm(
        &self,
        x: Tensor<Self::Burn, 2>,
        gain: &Self::Vector,
        eps: f32,
    ) -> Tensor<Self::Burn, 2> {
        let (shape, x) = (x.dims(), taken(x));
        let y = self.gpu.empty(x.len);
        rms_norm(&self.gpu, &x, gain, eps, &y);
        self.wrap(y, shape)
    }

    fn norm_linear(
        &self,
        x: Tensor<Self::Burn, 2>,
        gain: &Self::Vector,
        eps: f32,
        weight: &Self::Linear,
    ) -> Tensor<Self::Burn, 2> {
        let [n, _] = x.dims();
        let y = self.gpu.empty(n * weight.rows);
        let norm = Norm { gain, eps, t: None };
        norm_linear(&self.gpu, &taken(x), norm, weight, &y);
        self.wrap(y, [n, weight.rows])
    }

    fn add_linear(
        &self,
        residual: Tensor<Self::Burn, 2>,
        x: Tensor<Self::Burn, 2>,
        weight: &Self::Linear,
    ) -> Tensor<Self::Burn, 2> {
        let shape = residual.dims();
        let y = self.gpu.empty(shape[0] * shape[1]);
        linear(&self.gpu, &taken(x), weight, Some(&taken(residual)), &y);
        self.wrap(y, shape)
    }

    fn rotation(&self, positions: Range<usize>, rope: &Rope) -> Self::Rotation {
        let mut held = self.angles.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some(angles) if positions.end <= angles.positions => angles.clone(),
            _ => {
                let positions = positions.end.next_power_of_two().max(POSITIONS);
                let (cos, sin) = rope.cos_sin(0..positions);
                let angles = Angles {
                    cos: self.gpu.upload(&cos),
                    sin: self.gpu.upload(&sin),
                    positions,
                };
                held.insert(angles).clone()
            }
        }
    }

    fn append(
        &self,
        history: &mut Self::History,
        start: usize,
        qkv: Tensor<Self::Burn, 2>,
        rotation: &Self::Rotation,
    ) -> Tensor<Self::Burn, 3> {
        let [n, width] = qkv.dims();
        let d = history.head_dim;
        let heads = width / d - 2 * history.kv_heads;
        history.reserve(&self.gpu, start + n);
        let q = self.gpu.empty(n * heads * d);
        let Angles { cos, sin, .. } = rotation;
        history::append(
            &self.gpu,
            &taken(qkv),
            cos,
            sin,
            n,
            start,
            history,
            heads,
            &q,
        );
        self.wrap(q, [n, heads, d])
    }

    // The next `append` writes where it starts.
    fn truncate(&self, _history: &mut Self::History, _len: usize) {}

    fn attention(
        &self,
        q: Tensor<Self::Burn, 3>,
        history: &Self::History,
        start: usize,
        window: Option<usize>,
        sinks: &Self::Vector,
    ) -> Tensor<Self::Burn, 2> {
        let [n, heads, d] = q.dims();
        let out = self.gpu.empty(n * heads * d);
        let queries = Queries {
            n,
            start,
            heads,
            window,
        };
        attention(
            &self.gpu,
            &taken(q),
            history,
            queries,
            sinks,
            &self.attention,
            &out,
        );
        self.wrap(out, [n, heads * d])
    }

    fn norm_route(
        &self,
        x: Tensor<Self::Burn, 2>,
        gain: &Self::Vector,
        eps: f32,
        router: &Self::Linear,
        top_k: usize,
    ) -> (Tensor<Self::Burn, 2>, Routing<Self::Burn>) {
        let (shape, x) = (x.dims(), taken(x));
        let n = shape[0];
        let (t, logits) = (self.gpu.empty(x.len), self.gpu.empty(n * router.rows));
        let norm = Norm {
            gain,
            eps,
            t: Some(&t),
        };
        norm_linear(&self.gpu, &x, norm, router, &logits);
        let (ids, weights) = (self.gpu.empty(n * top_k), self.gpu.empty(n * top_k));
        route(&self.gpu, &logits, n, router.rows, top_k, &ids, &weights);
        let routing = Routing {
            ids: Tensor::<_, 2, Int>::from_primitive(self.primitive(ids, &[n, top_k], DType::I32)),
            weights: self.wrap(weights, [n, top_k]),
        };
        (self.wrap(t, shape), routing)
    }

    fn add_experts(
        &self,
        residual: Tensor<Self::Burn, 2>,
        x: Tensor<Self::Burn, 2>,
        routing: Routing<Self::Burn>,
        experts: &Self::Experts,
        limit: f32,
    ) -> Tensor<Self::Burn, 2> {
        let (gate_up, down) = match experts {
            CubeExperts::Device { gate_up, down } => (gate_up, down),
            CubeExperts::Host(experts) => {
                return self.on_host(residual, x, routing, experts, limit);
            }
        };
        let shape = residual.dims();
        let [n, top_k] = routing.weights.dims();
        let work = Work::new(&self.gpu, Work::sizes(n, top_k, gate_up, down));
        let ids = buffer(routing.ids.into_primitive());
        let y = self.gpu.empty(shape[0] * shape[1]);
        experts::experts(
            &self.gpu,
            &taken(x),
            &taken(residual),
            &ids,
            &taken(routing.weights),
            n,
            top_k,
            gate_up,
            down,
            limit,
            &work,
            &y,
        );
        self.wrap(y, shape)
    }

    fn logits(
        &self,
        x: Tensor<Self::Burn, 2>,
        unembedding: &Self::Table,
    ) -> Result<Vec<f32>, Error> {
        let words = self.read(self.all_logits(x, unembedding))?;
        Ok(bytemuck::cast_vec(words))
    }

    fn likeliest(
        &self,
        x: Tensor<Self::Burn, 2>,
        unembedding: &Self::Table,
        k: usize,
    ) -> Result<Likeliest, Error> {
        let vocab = unembedding.rows;
        if k > argmax::MOST.min(vocab) {
            return Ok(sampler::likeliest(&self.logits(x, unembedding)?, k));
        }
        let logits = self.all_logits(x, unembedding);
        let found = self.gpu.empty(argmax::best_len(k));
        if k == 1 {
            argmax::argmax(&self.gpu, &logits, &self.candidates, &found);
        } else {
            argmax::top_k(&self.gpu, &logits, k, &self.candidates, &found);
        }
        Ok(argmax::best(&self.read(found)?))
    }

    fn draw(
        &self,
        x: Tensor<Self::Burn, 2>,
        unembedding: &Self::Table,
        draw: Draw,
    ) -> Result<Drawn, Error> {
        let logits = self.all_logits(x, unembedding);
        let found = self.gpu.empty(draw::DRAWN);
        draw::draw(&self.gpu, &logits, draw, &self.candidates, &found);
        Ok(draw::drawn(&self.read(found)?))
    }
}

/// The buffer under a tensor.
fn taken<R: CubeRuntime, const D: usize>(t: Tensor<Burn<R>, D>) -> Buffer {
    buffer(t.into_primitive().tensor())
}

fn buffer<R: CubeRuntime>(t: CubeTensor<R>) -> Buffer {
    let t = burn_cubecl::kernel::into_contiguous(t);
    Buffer {
        len: t.meta.shape().num_elements(),
        handle: t.handle,
    }
}
