//! A published checkpoint on disk, memory-mapped: configuration, tensor directory, weights by role.

mod bytes;
mod config;
mod error;
mod files;
mod header;
mod hugging_face;
pub mod mxfp4;
mod original;
mod summary;
mod tensors;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use bytes::{Bf16, Bytes, bf16_to_f32};
pub use config::{Config, LayerType, RopeScaling};
pub use error::{Error, SafetensorsFault, TensorFault, TensorType};
pub use summary::Summary;

use files::{Files, Named};
use tensors::Tensors;

/// `y = W x + b`: weight `[out, in]`, bias `[out]`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out, in]`
    pub weight: Bf16,
    /// `[out]`
    pub bias: Bf16,
}

/// The weights of all experts for one of the two products of the MLP.
#[derive(Clone, Debug)]
pub enum ExpertWeight {
    /// As [`mxfp4`] describes, one byte each.
    Mxfp4 {
        /// `[experts, out, in/32, 16]`
        blocks: Bytes,
        /// `[experts, out, in/32]`
        scales: Bytes,
    },
    /// BF16 `[experts, in, out]` (input-major, as transformers stores unquantised experts).
    Bf16(Bf16),
}

/// One expert product: `out`, `in` and the number of experts are the same for both storage forms.
#[derive(Clone, Debug)]
pub struct Experts {
    /// How many.
    pub experts: usize,
    /// `out`
    pub rows: usize,
    /// `in`
    pub cols: usize,
    /// All of them together.
    pub weight: ExpertWeight,
    /// `[experts, out]`
    pub bias: Bf16,
}

/// One transformer block, whatever layout it came from.
#[derive(Clone, Debug)]
pub struct Layer {
    /// `[hidden]`
    pub attention_norm: Bf16,
    /// `[heads * head_dim, hidden]`
    pub q: Linear,
    /// `[key_value_heads * head_dim, hidden]`
    pub k: Linear,
    /// `[key_value_heads * head_dim, hidden]`
    pub v: Linear,
    /// `[heads]`
    pub sinks: Bf16,
    /// `[hidden, heads * head_dim]`
    pub out: Linear,
    /// `[hidden]`
    pub mlp_norm: Bf16,
    /// `[experts, hidden]`
    pub router: Linear,
    /// `[experts, 2 * intermediate, hidden]`. Rows alternate: even = gate, odd = up.
    pub gate_up: Experts,
    /// `[experts, hidden, intermediate]`
    pub down: Experts,
}

/// All weights of the model by role.
#[derive(Clone, Debug)]
pub struct Weights {
    /// `[vocab, hidden]`
    pub embedding: Bf16,
    /// From the embedding upwards.
    pub layers: Vec<Layer>,
    /// `[hidden]`
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

/// A file that holds weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its length, header included.
    pub bytes: u64,
}

/// tokenizer.json, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its text.
    pub json: Arc<[u8]>,
}

/// A checkpoint that was checked: configuration and every tensor fit together.
#[derive(Debug)]
pub struct Checkpoint {
    /// What the weights are for.
    pub config: Config,
    /// How they are stored.
    pub layout: Layout,
    /// Ranges of the mapped files.
    pub weights: Weights,
    /// Where it came from, for messages: a directory, or `tiny (built in)`.
    pub source: String,
    /// Ids that end generation, from `generation_config.json`, or else `config.json`. Empty if neither says.
    pub eos_token_ids: Vec<u32>,
    /// The tokenizer, beside the weights or in the parent of `original/`.
    pub tokenizer: Option<TokenizerFile>,
    /// Where the weights are.
    pub files: Vec<WeightFile>,
    /// How many tensors the files hold; the model uses each of them.
    pub tensors: usize,
}

impl Checkpoint {
    /// Opens the checkpoint in `directory`, mapping its files. Reads their headers only: the weights come in as they
    /// are used.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        Self::read(Files::find(directory)?)
    }

    /// The configuration of the checkpoint in `directory`; the weights are not looked at, save that there are some.
    pub fn config_of(directory: &Path) -> Result<Config, Error> {
        let file = Files::config(directory)?;
        Config::from_json(&file.path, &file.bytes)
    }

    /// The toy model that is part of the program.
    pub fn tiny() -> Self {
        macro_rules! built_in {
            ($name:literal) => {
                Named {
                    path: concat!("tiny (built in)/", $name).into(),
                    bytes: Bytes::from(&include_bytes!(concat!("../assets/tiny/", $name))[..]),
                }
            };
        }
        Self::read(Files {
            directory: "tiny (built in)".into(),
            config: built_in!("config.json"),
            generation_config: Some(built_in!("generation_config.json")),
            tokenizer: Some(built_in!("tokenizer.json")),
            weights: vec![built_in!("model.safetensors")],
            index: None,
        })
        .expect("the tests open the built-in model")
    }

    /// A checkpoint from the contents of its config.json and of a single safetensors file, in either layout.
    pub fn from_bytes(config: Vec<u8>, weights: Vec<u8>) -> Result<Self, Error> {
        let named = |path: &str, bytes: Vec<u8>| Named {
            path: path.into(),
            bytes: bytes.into(),
        };
        Self::read(Files {
            directory: "memory".into(),
            config: named("config.json", config),
            generation_config: None,
            tokenizer: None,
            weights: vec![named("model.safetensors", weights)],
            index: None,
        })
    }

    fn read(files: Files) -> Result<Self, Error> {
        let config = Config::from_json(&files.config.path, &files.config.bytes)?;
        let eos_token_ids = [files.generation_config.as_ref(), Some(&files.config)]
            .into_iter()
            .flatten()
            .map(|file| config::eos_token_ids(&file.path, &file.bytes, config.vocab_size))
            .find(|ids| !ids.as_ref().is_ok_and(Vec::is_empty))
            .unwrap_or_else(|| Ok(Vec::new()))?;

        let mut tensors = Tensors::read(&files)?;
        let count = tensors.len();
        let layout = if original::is_layout_of(&tensors) {
            Layout::Original
        } else if hugging_face::has_bf16_experts(&tensors) {
            Layout::HuggingFaceBf16
        } else {
            Layout::HuggingFace
        };
        let weights = match layout {
            Layout::Original => original::weights(&mut tensors, &config),
            _ => hugging_face::weights(&mut tensors, &config, layout),
        };
        tensors.finish()?;

        let weight_file = |file: &Named| WeightFile {
            path: file.path.clone(),
            bytes: file.bytes.len() as u64,
        };
        Ok(Self {
            config,
            layout,
            weights,
            source: files.directory.display().to_string(),
            eos_token_ids,
            tokenizer: files.tokenizer.map(|file| TokenizerFile {
                json: Arc::from(&*file.bytes),
                path: file.path,
            }),
            files: files.weights.iter().map(weight_file).collect(),
            tensors: count,
        })
    }
}

#[cfg(test)]
mod tests;
