//! OpenAI's `original/` layout, by the names of `gpt_oss/torch/model.py` and `weights.py`: q, k and v are stacked,
//! `mlp1` is gate and up, `mlp2` is down.

use super::config::Config;
use super::tensors::Tensors;
use super::{ExpertWeight, Experts, Layer, Linear, Weights};

const BLOCK: usize = super::mxfp4::BLOCK;
const BLOCK_BYTES: usize = super::mxfp4::BLOCK_BYTES;

/// Whether the tensors are named in this way.
pub(super) fn is_layout_of(tensors: &Tensors) -> bool {
    tensors.any(|name| name.starts_with("block."))
}

pub(super) fn weights(tensors: &mut Tensors, config: &Config) -> Weights {
    let (vocab, hidden) = (config.vocab_size, config.hidden_size);
    Weights {
        embedding: tensors.bf16("embedding.weight", &[vocab, hidden]),
        layers: (0..config.num_hidden_layers)
            .map(|index| layer(tensors, config, index))
            .collect(),
        norm: tensors.bf16("norm.scale", &[hidden]),
        unembedding: tensors.bf16("unembedding.weight", &[vocab, hidden]),
    }
}

fn layer(tensors: &mut Tensors, config: &Config, index: usize) -> Layer {
    let hidden = config.hidden_size;
    let (queries, keys) = (config.query_size(), config.key_value_size());
    let attention = format!("block.{index}.attn");
    let mlp = format!("block.{index}.mlp");
    let attention_norm = tensors.bf16(&format!("{attention}.norm.scale"), &[hidden]);
    let [q, k, v] = stacked(
        tensors,
        &format!("{attention}.qkv"),
        [queries, keys, keys],
        hidden,
    );
    Layer {
        attention_norm,
        q,
        k,
        v,
        sinks: tensors.bf16(&format!("{attention}.sinks"), &[config.num_attention_heads]),
        out: linear(tensors, &format!("{attention}.out"), [hidden, queries]),
        mlp_norm: tensors.bf16(&format!("{mlp}.norm.scale"), &[hidden]),
        router: linear(
            tensors,
            &format!("{mlp}.gate"),
            [config.num_experts, hidden],
        ),
        gate_up: experts(
            tensors,
            config,
            &format!("{mlp}.mlp1"),
            [2 * config.intermediate_size, hidden],
        ),
        down: experts(
            tensors,
            config,
            &format!("{mlp}.mlp2"),
            [hidden, config.intermediate_size],
        ),
    }
}

fn linear(tensors: &mut Tensors, prefix: &str, [rows, cols]: [usize; 2]) -> Linear {
    let [linear] = stacked(tensors, prefix, [rows], cols);
    linear
}

/// Products of one input that are stored as one.
fn stacked<const N: usize>(
    tensors: &mut Tensors,
    prefix: &str,
    rows: [usize; N],
    cols: usize,
) -> [Linear; N] {
    let weights = tensors.bf16_parts(&format!("{prefix}.weight"), rows, &[cols]);
    let mut biases = tensors
        .bf16_parts(&format!("{prefix}.bias"), rows, &[])
        .into_iter();
    weights.map(|weight| Linear {
        weight,
        bias: biases.next().expect("there are as many biases as weights"),
    })
}

fn experts(
    tensors: &mut Tensors,
    config: &Config,
    prefix: &str,
    [rows, cols]: [usize; 2],
) -> Experts {
    let experts = config.num_experts;
    let blocks = [experts, rows, cols / BLOCK, BLOCK_BYTES];
    Experts {
        experts,
        rows,
        cols,
        weight: ExpertWeight::Mxfp4 {
            blocks: tensors.u8(&format!("{prefix}_weight.blocks"), &blocks),
            scales: tensors.u8(&format!("{prefix}_weight.scales"), &blocks[..3]),
        },
        bias: tensors.bf16(&format!("{prefix}_bias"), &[experts, rows]),
    }
}
