use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A checkpoint of few bytes, all zeros, that a test can spoil before it is opened.
struct Micro {
    config: Value,
    /// Type and shape by name.
    tensors: BTreeMap<String, (&'static str, Vec<usize>)>,
}

impl Micro {
    fn hugging_face() -> Self {
        Self::shaped(2, [32, 64], [4, 2, 6], [3, 2], 10)
    }

    /// In the published layout: layers, [hidden, intermediate], [heads, key heads, head_dim], [experts, chosen], vocabulary.
    fn shaped(
        layers: usize,
        [hidden, intermediate]: [usize; 2],
        [heads, key_heads, head_dim]: [usize; 3],
        [experts, chosen]: [usize; 2],
        vocab: usize,
    ) -> Self {
        let kinds = ["sliding_attention", "full_attention"];
        let config = json!({
            "architectures": ["GptOssForCausalLM"],
            "model_type": "gpt_oss",
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_attention_heads": heads,
            "num_key_value_heads": key_heads,
            "head_dim": head_dim,
            "num_local_experts": experts,
            "num_experts_per_tok": chosen,
            "vocab_size": vocab,
            "max_position_embeddings": 131_072,
            "sliding_window": 128,
            "layer_types": (0..layers).map(|i| kinds[i % 2]).collect::<Vec<_>>(),
            "rope_theta": 150_000,
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 32.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "original_max_position_embeddings": 4096,
                "truncate": false,
            },
            "rms_norm_eps": 1e-5,
            "eos_token_id": 3,
        });
        let (queries, keys) = (heads * head_dim, key_heads * head_dim);
        let mut tensors = BTreeMap::new();
        let mut add = |name: String, dtype, shape: &[usize]| {
            tensors.insert(name, (dtype, shape.to_vec()));
        };
        add("model.embed_tokens.weight".into(), "BF16", &[vocab, hidden]);
        add("model.norm.weight".into(), "BF16", &[hidden]);
        add("lm_head.weight".into(), "BF16", &[vocab, hidden]);
        for layer in 0..layers {
            let name = |rest: &str| format!("model.layers.{layer}.{rest}");
            add(name("input_layernorm.weight"), "BF16", &[hidden]);
            add(name("post_attention_layernorm.weight"), "BF16", &[hidden]);
            add(name("self_attn.sinks"), "BF16", &[heads]);
            for (product, rows, cols) in [
                ("self_attn.q_proj", queries, hidden),
                ("self_attn.k_proj", keys, hidden),
                ("self_attn.v_proj", keys, hidden),
                ("self_attn.o_proj", hidden, queries),
                ("mlp.router", experts, hidden),
            ] {
                add(name(&format!("{product}.weight")), "BF16", &[rows, cols]);
                add(name(&format!("{product}.bias")), "BF16", &[rows]);
            }
            for (product, rows, blocks) in [
                ("mlp.experts.gate_up_proj", 2 * intermediate, hidden / 32),
                ("mlp.experts.down_proj", hidden, intermediate / 32),
            ] {
                let shape = [experts, rows, blocks, 16];
                add(name(&format!("{product}_blocks")), "U8", &shape);
                add(name(&format!("{product}_scales")), "U8", &shape[..3]);
                add(name(&format!("{product}_bias")), "BF16", &shape[..2]);
            }
        }
        Self { config, tensors }
    }

    /// Header with its length, and the number of bytes that follow.
    fn header<'a>(&'a self, names: impl IntoIterator<Item = &'a String>) -> (Vec<u8>, u64) {
        let mut header = serde_json::Map::new();
        let mut end = 0;
        for name in names {
            let (dtype, shape) = &self.tensors[name];
            let width = match *dtype {
                "U8" => 1,
                "F32" => 4,
                _ => 2,
            };
            let begin = end;
            end += (width * shape.iter().product::<usize>()) as u64;
            let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]});
            header.insert(name.clone(), entry);
        }
        let text = Value::from(header).to_string();
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.into_bytes());
        (bytes, end)
    }

    fn weights<'a>(&'a self, names: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
        let (mut bytes, data) = self.header(names);
        bytes.resize(bytes.len() + data as usize, 0);
        bytes
    }

    fn open(&self) -> Result<Checkpoint, Error> {
        let config = self.config.to_string().into_bytes();
        Checkpoint::from_bytes(config, self.weights(self.tensors.keys()))
    }

    fn fault(&self) -> String {
        self.open().unwrap_err().to_string()
    }

    /// As `config.json` and `model.safetensors`.
    fn write(&self, directory: &Path) {
        fs::write(directory.join("config.json"), self.config.to_string()).unwrap();
        let weights = self.weights(self.tensors.keys());
        fs::write(directory.join("model.safetensors"), weights).unwrap();
    }

    /// As `config.json`, an index, and two shards: numbered from 0, one layer in each. Gives the index.
    fn write_shards(&self, directory: &Path) -> Value {
        fs::write(directory.join("config.json"), self.config.to_string()).unwrap();
        let shard = |name: &str| {
            let number = usize::from(name.starts_with("model.layers.1."));
            format!("model-0000{number}-of-00001.safetensors")
        };
        for wanted in [shard(""), shard("model.layers.1.")] {
            let names = self.tensors.keys().filter(|name| shard(name) == wanted);
            fs::write(directory.join(&wanted), self.weights(names)).unwrap();
        }
        let map: BTreeMap<_, _> = self
            .tensors
            .keys()
            .map(|name| (name, shard(name)))
            .collect();
        let index = json!({"metadata": {"total_size": 0}, "weight_map": map});
        fs::write(index_path(directory), index.to_string()).unwrap();
        index
    }
}

fn index_path(directory: &Path) -> PathBuf {
    directory.join("model.safetensors.index.json")
}

fn directory() -> TempDir {
    TempDir::new().unwrap()
}

/// What opening `path` says, with DIR in place of `directory`.
fn fault_at(path: &Path, directory: &TempDir) -> String {
    let text = Checkpoint::open(path).unwrap_err().to_string();
    text.replace(directory.path().to_str().unwrap(), "DIR")
}

fn fault(directory: &TempDir) -> String {
    fault_at(directory.path(), directory)
}

mod files_on_disk;
mod roles;
