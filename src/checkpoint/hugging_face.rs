//! The published layout: transformers' names, MXFP4 experts, or BF16 ones `[experts, in, out]`.

use super::config::Config;
use super::tensors::Tensors;
use super::{ExpertWeight, Experts, Layer, Layout, Linear, Weights};

const BLOCK: usize = super::mxfp4::BLOCK;
const BLOCK_BYTES: usize = super::mxfp4::BLOCK_BYTES;

/// Whether the experts were saved unpacked.
pub(super) fn has_bf16_experts(tensors: &Tensors) -> bool {
    tensors.any(|name| name.ends_with(".mlp.experts.gate_up_proj"))
}

pub(super) fn weights(tensors: &mut Tensors, config: &Config, layout: Layout) -> Weights {
    let (vocab, hidden) = (config.vocab_size, config.hidden_size);
    Weights {
        embedding: tensors.bf16("model.embed_tokens.weight", &[vocab, hidden]),
        layers: (0..config.num_hidden_layers)
            .map(|index| layer(tensors, config, layout, index))
            .collect(),
        norm: tensors.bf16("model.norm.weight", &[hidden]),
        unembedding: tensors.bf16("lm_head.weight", &[vocab, hidden]),
    }
}

fn layer(tensors: &mut Tensors, config: &Config, layout: Layout, index: usize) -> Layer {
    let hidden = config.hidden_size;
    let (queries, keys) = (config.query_size(), config.key_value_size());
    let prefix = format!("model.layers.{index}");
    let attention = format!("{prefix}.self_attn");
    let gate_up = [2 * config.intermediate_size, hidden];
    let down = [hidden, config.intermediate_size];
    Layer {
        attention_norm: tensors.bf16(&format!("{prefix}.input_layernorm.weight"), &[hidden]),
        q: linear(tensors, &format!("{attention}.q_proj"), [queries, hidden]),
        k: linear(tensors, &format!("{attention}.k_proj"), [keys, hidden]),
        v: linear(tensors, &format!("{attention}.v_proj"), [keys, hidden]),
        sinks: tensors.bf16(&format!("{attention}.sinks"), &[config.num_attention_heads]),
        out: linear(tensors, &format!("{attention}.o_proj"), [hidden, queries]),
        mlp_norm: tensors.bf16(
            &format!("{prefix}.post_attention_layernorm.weight"),
            &[hidden],
        ),
        router: linear(
            tensors,
            &format!("{prefix}.mlp.router"),
            [config.num_experts, hidden],
        ),
        gate_up: experts(
            tensors,
            config,
            layout,
            &format!("{prefix}.mlp.experts.gate_up_proj"),
            gate_up,
        ),
        down: experts(
            tensors,
            config,
            layout,
            &format!("{prefix}.mlp.experts.down_proj"),
            down,
        ),
    }
}

fn linear(tensors: &mut Tensors, prefix: &str, [rows, cols]: [usize; 2]) -> Linear {
    Linear {
        weight: tensors.bf16(&format!("{prefix}.weight"), &[rows, cols]),
        bias: tensors.bf16(&format!("{prefix}.bias"), &[rows]),
    }
}

fn experts(
    tensors: &mut Tensors,
    config: &Config,
    layout: Layout,
    prefix: &str,
    [rows, cols]: [usize; 2],
) -> Experts {
    let experts = config.num_experts;
    let weight = if layout == Layout::HuggingFaceBf16 {
        ExpertWeight::Bf16(tensors.bf16(prefix, &[experts, cols, rows]))
    } else {
        let blocks = [experts, rows, cols / BLOCK, BLOCK_BYTES];
        ExpertWeight::Mxfp4 {
            blocks: tensors.u8(&format!("{prefix}_blocks"), &blocks),
            scales: tensors.u8(&format!("{prefix}_scales"), &blocks[..3]),
        }
    };
    Experts {
        experts,
        rows,
        cols,
        weight,
        bias: tensors.bf16(&format!("{prefix}_bias"), &[experts, rows]),
    }
}
