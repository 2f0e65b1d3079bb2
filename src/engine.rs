//! The engine: token ids in, token ids out. It knows no text, no roles and no terminal.
//!
//! [`model`] is gpt-oss on one page, written over the operations of [`backend`]; [`candle`] runs them on the CPU
//! and [`twin`] is the slow, obvious version of them; [`generator`] is the loop around it all. [`devices`] says what
//! else there is to compute on.

pub mod backend;
pub mod cache;
pub mod candle;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub mod cube;
pub mod devices;
pub mod generator;
mod load;
pub mod model;
mod progress;
pub mod rope;
pub mod sampler;
#[cfg(test)]
mod testing;
pub mod twin;

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use generator::{CHUNK, Event, Finish, Generator, Output, Request, Stats};
pub use load::{Bandwidth, device_bandwidth, load};
pub use progress::{LoadProgress, LoadStep};
pub use sampler::{Draw, Sampler, Sampling};

use crate::checkpoint::{Checkpoint, Config};
use backend::Engine;
use cache::KvCache;
use candle::kernels::{BLOCK, Q8Block};
use model::Transformer;

/// Asks a running generation to stop; one per turn, so that a late request cannot hit the next one.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Nothing is asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop within one token or one prefill chunk.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How the KV history is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// Two bytes a value, half the memory.
    #[default]
    Bf16,
    /// Four bytes a value, exactly what was computed.
    F32,
    /// One byte a value, with a scale for each head of a position.
    Q8,
}

impl KvType {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::Q8 => "q8",
        }
    }

    /// Bytes of the `head_dim` stored values of one head.
    pub const fn bytes(self, head_dim: usize) -> usize {
        match self {
            Self::Bf16 => 2 * head_dim,
            Self::F32 => 4 * head_dim,
            Self::Q8 => head_dim + 4,
        }
    }
}

/// How far activations are rounded for products with weights. Sums, norms, softmax and the residual are f32 always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// Not at all.
    F32,
    /// To BF16 where many tokens are multiplied at once; to 15 bits or not at all where one is.
    Bf16,
    /// Products with packed weights: to 15 bits with a scale for each 32.
    Int16,
    /// Products with packed weights: to 8 bits with a scale for each 32; with BF16 weights: to BF16.
    Int8,
}

impl Compute {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int16 => "int16",
            Self::Int8 => "int8",
        }
    }
}

/// What the dense weights (attention, embedding and output) are kept as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dense {
    /// As stored, read from the memory map.
    #[default]
    Bf16,
    /// Rounded at load to 8 bits with a scale for each 32, in memory of our own.
    Q8,
}

impl Dense {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Q8 => "q8",
        }
    }

    /// Bytes of a matrix of `rows` rows as it is kept: rows of 8-bit weights are filled up to whole blocks.
    pub const fn bytes(self, rows: usize, cols: usize) -> usize {
        match self {
            Self::Bf16 => 2 * rows * cols,
            Self::Q8 => rows * cols.div_ceil(BLOCK) * size_of::<Q8Block>(),
        }
    }

    /// The same on a device other than the CPU: rows end with whole words.
    pub const fn device_bytes(self, rows: usize, cols: usize) -> usize {
        match self {
            Self::Bf16 => 2 * rows * cols,
            Self::Q8 => rows * (cols + 4 * cols.div_ceil(64)),
        }
    }
}

/// Positions that a history on a device other than the CPU begins with; it doubles.
pub const FIRST_POSITIONS: usize = 1024;

/// Bytes of attention, embedding and output, where a matrix of so many rows and columns takes `bytes` of them.
pub fn dense_bytes(config: &Config, bytes: impl Fn(usize, usize) -> usize) -> u64 {
    let (hidden, heads) = (config.hidden_size, config.query_size());
    let layer = bytes(heads + 2 * config.key_value_size(), hidden) + bytes(hidden, heads);
    let tables = 2 * bytes(config.vocab_size, hidden);
    (config.num_hidden_layers * layer + tables) as u64
}

/// Bytes of the experts of one layer of a model whose weights are `published` bytes, about.
pub fn expert_layer_bytes(config: &Config, published: u64) -> u64 {
    let dense = dense_bytes(config, |rows, cols| Dense::Bf16.bytes(rows, cols));
    published.saturating_sub(dense) / config.num_hidden_layers.max(1) as u64
}

/// Bytes that a model whose weights are `published` bytes takes on a device other than the CPU.
pub fn device_weight_bytes(config: &Config, published: u64, dense: Dense) -> u64 {
    let of = |dense: Dense| dense_bytes(config, |rows, cols| dense.device_bytes(rows, cols));
    (published + of(dense)).saturating_sub(of(Dense::Bf16))
}

/// What to run with.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// What to run on. `Auto` here knows nothing of what the model needs: [`devices::choose`] does.
    pub device: devices::Choice,
    /// Where compiled kernels of a GPU are kept for the next start; `None`: nowhere.
    pub kernel_cache: Option<PathBuf>,
    /// Layers whose experts a GPU holds, the first ones; the others are computed by the CPU. `None`: all.
    pub gpu_layers: Option<usize>,
    /// How the history is stored.
    pub kv_type: KvType,
    /// Positions the history may hold; `None`: as many as the checkpoint was made for.
    pub context: Option<usize>,
    /// `None`: one per physical core.
    pub threads: Option<usize>,
    /// `None`: the fastest that is no further from f32 than the official model in BF16.
    pub compute: Option<Compute>,
    /// How the dense weights are kept.
    pub dense: Dense,
    /// A set of CPU kernels by name; `None`: the fastest.
    pub kernels: Option<String>,
    /// Told how far the load is; it can stop it.
    pub progress: LoadProgress,
}

impl EngineOptions {
    /// What these options come to on this machine.
    ///
    /// # Errors
    /// [`Error::Kernels`] where this CPU cannot run the kernels asked for.
    pub fn in_use(&self) -> Result<InUse, Error> {
        Ok(candle::in_use(&candle::kernels_for(self)?, self))
    }
}

/// What [`EngineOptions`] come to on a machine: every choice is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The set of CPU kernels.
    pub kernels: &'static str,
    /// How far activations are rounded.
    pub compute: Compute,
    /// How the dense weights are kept.
    pub dense: Dense,
    /// How the history is stored.
    pub kv_type: KvType,
    /// How many compute.
    pub threads: usize,
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.threads == 1 { "" } else { "s" };
        write!(
            f,
            "cpu (candle, {}, compute {}, dense {}, kv {}, {} thread{plural})",
            self.kernels,
            self.compute.name(),
            self.dense.name(),
            self.kv_type.name(),
            self.threads,
        )
    }
}

/// Why the engine could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The history cannot hold the prompt.
    #[error("the prompt has {prompt} tokens and the context holds {context}")]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Positions of the history.
        context: usize,
    },
    /// There is nothing to predict from.
    #[error("the prompt is empty, expected at least one token")]
    EmptyPrompt,
    /// An id that has no row in the embedding.
    #[error("token id {id} is outside the vocabulary, expected 0 to {}", .vocab_size - 1)]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocab_size: usize,
    },
    /// NaN or infinity where numbers were due.
    #[error(
        "the logits at position {position} are not finite: the checkpoint is damaged, or the device computes wrongly"
    )]
    NotFinite {
        /// Position of the token that the logits came after.
        position: usize,
    },
    /// A sampling value outside its interval.
    #[error("`{name}` is {value}, expected {expected}")]
    Sampling {
        /// As on the command line.
        name: &'static str,
        /// As given.
        value: String,
        /// The interval.
        expected: &'static str,
    },
    /// A context that the checkpoint cannot have.
    #[error(
        "a context of {context} tokens was asked for, expected 1 to {max}, which the checkpoint was made for"
    )]
    Context {
        /// As asked for.
        context: usize,
        /// `max_position_embeddings`
        max: usize,
    },
    /// A set of kernels that is not there.
    #[error("this CPU cannot run the `{name}` kernels, expected one of {}", .available.join(", "))]
    Kernels {
        /// As asked for.
        name: String,
        /// Those it can run.
        available: Vec<&'static str>,
    },
    /// The load was asked to stop.
    #[error("loading was stopped")]
    Stopped,
    /// The device or the system failed.
    #[error("{0}")]
    Device(String),
    /// There is no such device, or it cannot be used, or it failed.
    #[error(transparent)]
    Gpu(#[from] devices::Error),
}

/// A model with its cache behind one object-safe face: what [`Generator`] drives.
pub trait LanguageModel: Send {
    /// Logits per row.
    fn vocab_size(&self) -> usize;

    /// Positions the history can hold.
    fn context(&self) -> usize;

    /// Forgets everything from position `len` on.
    fn truncate(&mut self, len: usize);

    /// Runs `tokens` at the next positions and commits them. Gives the logits of the last `logits` of them,
    /// `[logits, vocab_size]` row-major, or `None` when cancelled: then nothing is committed.
    ///
    /// # Errors
    /// [`Error::Device`]
    fn forward(
        &mut self,
        tokens: &[u32],
        logits: usize,
        cancel: &Cancel,
    ) -> Result<Option<Vec<f32>>, Error>;

    /// As [`forward`](Self::forward), but gives the `k` likeliest ids after the last token alone, with their logits,
    /// falling, of equal ones the first. Where a logit is not finite, the inner option is `None`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn likeliest(
        &mut self,
        tokens: &[u32],
        k: usize,
        cancel: &Cancel,
    ) -> Result<Option<Likeliest>, Error> {
        let logits = self.forward(tokens, 1, cancel)?;
        Ok(logits.map(|logits| sampler::likeliest(&logits, k)))
    }

    /// As [`forward`](Self::forward), but gives the id that `draw` falls on after the last token. Where a logit is not
    /// finite, the inner option is `None`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn draw(
        &mut self,
        tokens: &[u32],
        draw: Draw,
        cancel: &Cancel,
    ) -> Result<Option<Drawn>, Error> {
        let logits = self.forward(tokens, 1, cancel)?;
        Ok(logits.map(|mut logits| sampler::draw(&mut logits, draw)))
    }

    /// For the figures: `cpu (candle, avx2, compute f32, dense bf16, kv bf16, 2 threads)`.
    fn describe(&self) -> String;

    /// What was counted of the device so far; `None` for the CPU.
    fn device_figures(&self) -> Option<DeviceFigures> {
        None
    }
}

/// How a device other than the CPU was used since the model was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFigures {
    /// Kernels launched.
    pub launches: u64,
    /// Bytes that crossed between host and device, weights apart.
    pub crossed: u64,
    /// Bytes of its memory that are taken now, in use or not.
    pub memory: u64,
}

/// Token ids with their logits, falling; `None` where a logit is not finite.
pub type Likeliest = Option<Vec<(u32, f32)>>;

/// A token id; `None` where a logit is not finite.
pub type Drawn = Option<u32>;

/// A transformer on an engine, with its cache.
pub struct Loaded<E: Engine> {
    transformer: Transformer<E>,
    cache: KvCache<E>,
}

impl<E: Engine> Loaded<E> {
    /// The weights of `checkpoint` on `engine`, and an empty cache.
    ///
    /// # Errors
    /// [`Error::Context`]
    pub fn new(engine: E, checkpoint: &Checkpoint, options: &EngineOptions) -> Result<Self, Error> {
        let max = checkpoint.config.max_position_embeddings;
        let context = options.context.unwrap_or(max);
        if context == 0 || context > max {
            return Err(Error::Context { context, max });
        }
        let transformer = Transformer::new(engine, checkpoint);
        transformer.engine().check()?;
        let cache = transformer.new_cache(options.kv_type, context);
        Ok(Self { transformer, cache })
    }
}

impl<E: Engine> LanguageModel for Loaded<E> {
    fn vocab_size(&self) -> usize {
        self.transformer.config().vocab_size
    }

    fn context(&self) -> usize {
        self.cache.capacity()
    }

    fn truncate(&mut self, len: usize) {
        self.cache.truncate(self.transformer.engine(), len);
    }

    fn forward(
        &mut self,
        tokens: &[u32],
        logits: usize,
        cancel: &Cancel,
    ) -> Result<Option<Vec<f32>>, Error> {
        let Self { transformer, cache } = self;
        let mut after_block = unless_cancelled(cancel);
        transformer
            .engine()
            .run(|| transformer.forward(tokens, logits, cache, &mut after_block))
    }

    fn likeliest(
        &mut self,
        tokens: &[u32],
        k: usize,
        cancel: &Cancel,
    ) -> Result<Option<Likeliest>, Error> {
        let Self { transformer, cache } = self;
        let mut after_block = unless_cancelled(cancel);
        transformer
            .engine()
            .run(|| transformer.likeliest(tokens, k, cache, &mut after_block))
    }

    fn draw(
        &mut self,
        tokens: &[u32],
        draw: Draw,
        cancel: &Cancel,
    ) -> Result<Option<Drawn>, Error> {
        let Self { transformer, cache } = self;
        let mut after_block = unless_cancelled(cancel);
        transformer
            .engine()
            .run(|| transformer.draw(tokens, draw, cache, &mut after_block))
    }

    fn describe(&self) -> String {
        self.transformer.engine().describe()
    }
}

fn unless_cancelled<T>(cancel: &Cancel) -> impl FnMut(usize, &T) -> ControlFlow<()> + Send {
    move |_, _| {
        if cancel.is_cancelled() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// What a driver says, on one line.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
