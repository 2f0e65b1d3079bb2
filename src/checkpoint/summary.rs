//! What a checkpoint holds and what running it reads, in bytes.

use super::{Bf16, Checkpoint, ExpertWeight, Experts, Layer, Linear, WeightFile};

/// Bytes and counts for `gptoss info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub files: Vec<WeightFile>,
    pub tensors: usize,
    /// Experts of all layers, biases included.
    pub expert_bytes: u64,
    /// q, k, v and output products with biases, and sinks.
    pub attention_bytes: u64,
    /// Embedding and unembedding.
    pub embedding_bytes: u64,
    /// Norms and routers.
    pub other_bytes: u64,
    /// What one step of decoding reads of the weights: everything but the experts that are not chosen and the rows of
    /// the embedding that are not looked up.
    pub decode_bytes: u64,
    /// Numbers that each position adds to the history: a key and a value in every layer.
    pub kv_elements: u64,
}

impl Summary {
    /// All weights.
    pub fn weight_bytes(&self) -> u64 {
        self.expert_bytes + self.attention_bytes + self.embedding_bytes + self.other_bytes
    }

    /// History per position, if a number of it takes `element` bytes.
    pub fn kv_bytes_per_token(&self, element: usize) -> u64 {
        self.kv_elements * element as u64
    }
}

impl Checkpoint {
    /// Adds up what is here. Touches no weights.
    pub fn summary(&self) -> Summary {
        let Self {
            config, weights, ..
        } = self;
        let sum = |of: fn(&Layer) -> u64| weights.layers.iter().map(of).sum::<u64>();
        let experts = sum(|layer| expert_bytes(&layer.gate_up) + expert_bytes(&layer.down));
        let attention = sum(|layer| {
            let products = [&layer.q, &layer.k, &layer.v, &layer.out];
            products.into_iter().map(linear_bytes).sum::<u64>() + bytes(&layer.sinks)
        });
        let other = bytes(&weights.norm)
            + sum(|layer| {
                bytes(&layer.attention_norm) + bytes(&layer.mlp_norm) + linear_bytes(&layer.router)
            });
        // Divides exactly: every expert is as large as the next.
        let chosen = experts / config.num_experts as u64 * config.experts_per_token as u64;
        let row = bytes(&weights.embedding) / config.vocab_size as u64;
        Summary {
            files: self.files.clone(),
            tensors: self.tensors,
            expert_bytes: experts,
            attention_bytes: attention,
            embedding_bytes: bytes(&weights.embedding) + bytes(&weights.unembedding),
            other_bytes: other,
            decode_bytes: attention + other + chosen + row + bytes(&weights.unembedding),
            kv_elements: (2 * config.key_value_size() * config.num_hidden_layers) as u64,
        }
    }
}

fn bytes(tensor: &Bf16) -> u64 {
    tensor.bytes.len() as u64
}

fn linear_bytes(linear: &Linear) -> u64 {
    bytes(&linear.weight) + bytes(&linear.bias)
}

fn expert_bytes(experts: &Experts) -> u64 {
    let weight = match &experts.weight {
        ExpertWeight::Mxfp4 { blocks, scales } => (blocks.len() + scales.len()) as u64,
        ExpertWeight::Bf16(weight) => bytes(weight),
    };
    weight + bytes(&experts.bias)
}
