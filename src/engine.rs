//! Token ids in, token ids out. Knows no text, no roles and no terminal.

pub mod candle;
pub mod generator;
pub mod sampler;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use generator::{Event, Finish, Generator, Request, Stats};
pub use sampler::{Sampler, Sampling};

/// Asks a running turn to stop; one per turn, so that a late request cannot hit the next one.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How the KV history is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    #[default]
    Bf16,
    F32,
}

/// What to run on and how.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub kv_type: KvType,
    /// Largest number of positions the history may hold; `None`: what the checkpoint allows.
    pub context: Option<usize>,
    /// `None`: one per physical core.
    pub threads: Option<usize>,
}

/// Why the engine could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the prompt has {prompt} tokens and the context holds {context}")]
    PromptTooLong { prompt: usize, context: usize },
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("token id {id} is outside the vocabulary of {vocab_size}")]
    TokenOutOfRange { id: u32, vocab_size: usize },
    #[error("the logits at position {position} are not finite")]
    NotFinite { position: usize },
    #[error("`{name}` is {value}, expected {expected}")]
    Sampling {
        name: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("{0}")]
    Device(String),
}

/// The model with its cache behind one object-safe face: what [`Generator`] drives.
pub trait LanguageModel: Send {
    /// Rows of logits.
    fn vocab_size(&self) -> usize;
    /// Positions the history can hold.
    fn context(&self) -> usize;
    /// Committed positions.
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Forgets everything from position `len` on.
    fn truncate(&mut self, len: usize);
    /// Runs `tokens` at positions `len()..` and commits them. Returns the logits of the last `logits` of them,
    /// `[logits, vocab_size]` row-major (empty for 0), or `None` when cancelled: then nothing is committed.
    fn forward(
        &mut self,
        tokens: &[u32],
        logits: usize,
        cancel: &Cancel,
    ) -> Result<Option<Vec<f32>>, Error>;
    /// For the figures: `cpu (candle, avx512, 2 threads)`.
    fn device(&self) -> String;
}

/// Loads a checkpoint onto the CPU.
pub fn load(
    checkpoint: &crate::checkpoint::Checkpoint,
    options: &EngineOptions,
) -> Result<Box<dyn LanguageModel>, Error> {
    let _ = (checkpoint, options);
    todo!()
}
