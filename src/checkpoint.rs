//! A published checkpoint on disk, memory-mapped: configuration, tensor directory, weights by role.

mod config;
pub mod mxfp4;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use config::{Config, LayerType, RopeScaling};

/// What can be wrong with a checkpoint. Every text names the file, the value, what was expected and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{0}` has no config.json")]
    NoConfig(PathBuf),
}

/// A byte range of a memory-mapped file, or of the built-in model. Cheap to clone; never copied.
#[derive(Clone)]
pub struct Bytes {/* private */}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        todo!()
    }
}

/// A BF16 tensor as stored: little-endian, row-major, not necessarily aligned.
#[derive(Clone)]
pub struct Bf16 {
    pub bytes: Bytes,
    pub shape: Vec<usize>,
}

/// `y = W x + b`: weight `[out, in]`, bias `[out]`.
#[derive(Clone)]
pub struct Linear {
    pub weight: Bf16,
    pub bias: Bf16,
}

/// The weights of all experts for one of the two products of the MLP.
#[derive(Clone)]
pub enum ExpertWeight {
    /// MXFP4: blocks `[experts, out, in/32, 16]`, scales `[experts, out, in/32]`, one byte each.
    Mxfp4 { blocks: Bytes, scales: Bytes },
    /// BF16 `[experts, in, out]` (input-major, as transformers stores unquantised experts).
    Bf16(Bf16),
}

/// One expert product: `out`, `in` and the number of experts are the same for both storage forms.
#[derive(Clone)]
pub struct Experts {
    pub experts: usize,
    pub rows: usize,
    pub cols: usize,
    pub weight: ExpertWeight,
    /// `[experts, out]`
    pub bias: Bf16,
}

/// One transformer block, whatever layout it came from.
#[derive(Clone)]
pub struct Layer {
    pub attention_norm: Bf16,
    pub q: Linear,
    pub k: Linear,
    pub v: Linear,
    /// `[heads]`
    pub sinks: Bf16,
    pub out: Linear,
    pub mlp_norm: Bf16,
    pub router: Linear,
    /// Rows alternate: even = gate, odd = up.
    pub gate_up: Experts,
    pub down: Experts,
}

/// All weights of the model by role.
#[derive(Clone)]
pub struct Weights {
    /// `[vocab, hidden]`
    pub embedding: Bf16,
    pub layers: Vec<Layer>,
    pub norm: Bf16,
    /// `[vocab, hidden]`
    pub unembedding: Bf16,
}

/// How the files name and store the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Hugging Face names, MXFP4 experts.
    HuggingFace,
    /// Hugging Face names, BF16 experts.
    HuggingFaceBf16,
    /// OpenAI's `original/` folder.
    Original,
}

/// A checkpoint that was checked: configuration and every tensor fit together.
pub struct Checkpoint {
    pub config: Config,
    pub layout: Layout,
    pub weights: Weights,
    /// Where it came from, for messages: a directory, or `tiny (built in)`.
    pub source: String,
    /// Ids that end generation, from generation_config.json (or `eos_token_id` of config.json).
    pub eos_token_ids: Vec<u32>,
    /// The text of tokenizer.json, beside the weights or in the parent of `original/`.
    pub tokenizer_json: Option<Arc<[u8]>>,
}

impl Checkpoint {
    /// Opens the checkpoint in `directory`, mapping its files.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let _ = directory;
        todo!()
    }
    /// The toy model that is part of the program.
    pub fn tiny() -> Self {
        todo!()
    }
}
