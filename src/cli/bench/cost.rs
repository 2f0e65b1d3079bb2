//! What a token costs by design: bytes that must be read, and arithmetic.

use crate::checkpoint::{Checkpoint, Config, ExpertWeight, LayerType};
use crate::engine::cache::visible;
use crate::engine::{Dense, EngineOptions, KvType};

/// Bytes of a BF16 number.
const BF16: usize = 2;
/// MXFP4: 32 values in 16 bytes, and a scale.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 17;

/// A model as it is kept.
#[derive(Clone, Debug)]
pub struct Cost {
    config: Config,
    dense: Dense,
    kv_type: KvType,
    /// On a device other than the CPU.
    on_device: bool,
    /// Layers whose experts the CPU reads beside such a device.
    on_host: usize,
    /// The experts are in MXFP4, not in BF16.
    packed: bool,
}

impl Cost {
    /// Of `checkpoint` with the choices of `options`.
    pub fn new(checkpoint: &Checkpoint, options: &EngineOptions, on_device: bool) -> Self {
        let first = checkpoint.weights.layers.first();
        let layers = checkpoint.config.num_hidden_layers;
        let on_gpu = options.gpu_layers.filter(|_| on_device).unwrap_or(layers);
        Self {
            config: checkpoint.config.clone(),
            dense: options.dense,
            kv_type: options.kv_type,
            on_device,
            on_host: layers - on_gpu.min(layers),
            packed: first
                .is_some_and(|layer| matches!(layer.gate_up.weight, ExpertWeight::Mxfp4 { .. })),
        }
    }

    /// Bytes of weights that the step of one token reads: attention, router, the chosen experts, norms, the output
    /// matrix and one row of the embedding.
    pub fn weight_bytes(&self) -> u64 {
        let c = &self.config;
        let hidden = c.hidden_size;
        let (q, kv) = (c.query_size(), c.key_value_size());
        let dense = |rows, cols| {
            if self.on_device {
                self.dense.device_bytes(rows, cols)
            } else {
                self.dense.bytes(rows, cols)
            }
        };
        let attention = dense(q, hidden) + 2 * dense(kv, hidden) + dense(hidden, q);
        let biases = q + 2 * kv + hidden + c.num_attention_heads;
        let router = c.num_experts * (hidden + 1);
        let layer = attention + self.chosen_experts() + BF16 * (biases + router + 2 * hidden);
        let ends = dense(c.vocab_size + 1, hidden) + BF16 * hidden;
        (c.num_hidden_layers * layer + ends) as u64
    }

    /// Of these bytes those that the CPU reads beside a device.
    pub fn host_bytes(&self) -> u64 {
        (self.on_host * self.chosen_experts()) as u64
    }

    /// The experts of one layer that a token is given.
    fn chosen_experts(&self) -> usize {
        let c = &self.config;
        let (hidden, inner) = (c.hidden_size, c.intermediate_size);
        let expert = self.expert_bytes(2 * inner, hidden) + self.expert_bytes(hidden, inner);
        c.experts_per_token * expert
    }

    /// One product of one expert with its bias.
    fn expert_bytes(&self, rows: usize, cols: usize) -> usize {
        let weights = if self.packed {
            rows * cols.div_ceil(BLOCK) * BLOCK_BYTES
        } else {
            BF16 * rows * cols
        };
        weights + BF16 * rows
    }

    /// Bytes that a decoded token must read, on average over `n` of them after `depth` tokens.
    pub fn decode_bytes(&self, depth: usize, n: usize) -> f64 {
        let heads = 2 * self.config.num_key_value_heads;
        let values = heads * self.kv_type.bytes(self.config.head_dim);
        let history = self.keys(depth, n) * values as f64 / n as f64;
        self.weight_bytes() as f64 + history
    }

    /// Operations, two for each multiplication and addition, of reading `n` tokens after `depth` others: all products
    /// with weights, attention over the keys that each token sees, and the output matrix once, for the last of them.
    pub fn prefill_operations(&self, depth: usize, n: usize) -> f64 {
        let c = &self.config;
        let products = n as f64 * self.products() as f64;
        // A key is multiplied with q and its value by the share, in every head.
        let attention = self.keys(depth, n) * 2.0 * c.query_size() as f64;
        let output = (c.vocab_size * c.hidden_size) as f64;
        2.0 * (products + attention + output)
    }

    /// Multiplications of one token with weights, without the output matrix.
    fn products(&self) -> usize {
        let c = &self.config;
        let (hidden, inner) = (c.hidden_size, c.intermediate_size);
        let attention = (c.query_size() + 2 * c.key_value_size() + c.query_size()) * hidden;
        let experts = c.experts_per_token * 3 * inner * hidden;
        c.num_hidden_layers * (attention + c.num_experts * hidden + experts)
    }

    /// Keys that the tokens at `depth..depth + n` see, all of them and all layers together.
    fn keys(&self, depth: usize, n: usize) -> f64 {
        let c = &self.config;
        let seen = |window| -> usize {
            (depth..depth + n)
                .map(|position| visible(position, window).len())
                .sum()
        };
        let (full, sliding) = (seen(None), seen(Some(c.sliding_window)));
        c.layer_types
            .iter()
            .map(|layer| match layer {
                LayerType::Full => full as f64,
                LayerType::Sliding => sliding as f64,
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::RopeScaling;

    /// gpt-oss-20b.
    fn cost(dense: Dense) -> Cost {
        let config = Config {
            hidden_size: 2880,
            intermediate_size: 2880,
            num_hidden_layers: 24,
            num_attention_heads: 64,
            num_key_value_heads: 8,
            head_dim: 64,
            num_experts: 32,
            experts_per_token: 4,
            vocab_size: 201_088,
            max_position_embeddings: 131_072,
            sliding_window: 128,
            layer_types: [LayerType::Sliding, LayerType::Full].repeat(12),
            rope_theta: 150_000.0,
            rope_scaling: RopeScaling {
                factor: 32.0,
                beta_fast: 32.0,
                beta_slow: 1.0,
                original_max_position_embeddings: 4096,
            },
            rms_norm_eps: 1e-5,
            swiglu_limit: 7.0,
        };
        Cost {
            config,
            dense,
            kv_type: KvType::Bf16,
            on_device: false,
            on_host: 0,
            packed: true,
        }
    }

    /// In hundredths of a gigabyte.
    fn rounded(bytes: u64) -> u64 {
        (bytes + 5_000_000) / 10_000_000
    }

    #[test]
    fn a_token_of_the_20b_reads_3_71_gb_with_bf16_and_2_57_gb_with_q8() {
        assert_eq!(rounded(cost(Dense::Bf16).weight_bytes()), 371);
        assert_eq!(rounded(cost(Dense::Q8).weight_bytes()), 257);
    }

    #[test]
    fn a_device_reads_as_much_as_the_cpu() {
        let on_device = |dense| Cost {
            on_device: true,
            ..cost(dense)
        };
        for dense in [Dense::Bf16, Dense::Q8] {
            // Rows of 2,880 and 4,096 fill whole words of scales.
            assert_eq!(on_device(dense).weight_bytes(), cost(dense).weight_bytes());
        }
    }

    #[test]
    fn experts_on_the_cpu_are_read_there() {
        let tiny = Checkpoint::tiny();
        let of = |gpu_layers, on_device| {
            let options = EngineOptions {
                gpu_layers,
                ..EngineOptions::default()
            };
            Cost::new(&tiny, &options, on_device)
        };
        // 4 experts of 3 times 192 by 128 values, 17 bytes for 32 of them, and their biases.
        let layer = 4 * (3 * 192 * 128 / 32 * 17 + 2 * (2 * 128 + 192));
        assert_eq!(of(Some(2), true).host_bytes(), 4 * layer);
        assert_eq!(of(Some(0), true).host_bytes(), 6 * layer);
        for (gpu_layers, on_device) in [
            (Some(6), true),
            (Some(9), true),
            (None, true),
            (Some(2), false),
        ] {
            assert_eq!(of(gpu_layers, on_device).host_bytes(), 0);
        }
        // They are counted all the same.
        assert_eq!(
            of(Some(2), true).weight_bytes(),
            of(None, true).weight_bytes()
        );
    }

    #[test]
    fn the_history_of_the_20b_adds_53_mb_at_depth_2048() {
        let cost = cost(Dense::Bf16);
        let more = cost.decode_bytes(2048, 1) - cost.weight_bytes() as f64;
        // 12 layers see 2,049 keys, 12 see 128; each is 8 heads of 64, with its value, in 2 bytes.
        let expected = 12 * (2049 + 128) * 2 * 512 * 2;
        assert!((more - f64::from(expected)).abs() < 1.0, "{more}");
        assert_eq!(expected / 1_000_000, 53);
    }

    #[test]
    fn the_depth_of_decoding_is_that_of_its_middle() {
        let cost = cost(Dense::Q8);
        let (three, middle) = (cost.decode_bytes(500, 3), cost.decode_bytes(501, 1));
        assert!((three - middle).abs() < 1.0, "{three} {middle}");
    }

    #[test]
    fn a_prompt_token_of_the_20b_takes_6_06_billion_operations_and_attention() {
        let cost = cost(Dense::Q8);
        assert_eq!(2 * cost.products() / 1_000_000, 6_056);
        let output = 2.0 * 201_088.0 * 2880.0;
        // Tokens 0, 1 and 2 see 1, 2 and 3 keys in 24 layers; a key costs 64 heads 64 products for q and 64 for v.
        let attention = 2.0 * f64::from(24 * 6 * 2 * 64 * 64);
        let expected = 2.0 * 3.0 * cost.products() as f64 + attention + output;
        assert!((cost.prefill_operations(0, 3) - expected).abs() < 1.0);
        // Behind the window twelve layers see no more.
        let (near, far) = (
            cost.prefill_operations(1000, 1),
            cost.prefill_operations(2000, 1),
        );
        let keys = 2.0 * f64::from(12 * 1000 * 2 * 64 * 64);
        assert!((far - near - keys).abs() < 1.0);
    }

    #[test]
    fn the_bytes_are_those_of_the_files() {
        let unpacked = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny-bf16");
        let unpacked = Checkpoint::open(unpacked.as_ref()).unwrap();
        for checkpoint in [Checkpoint::tiny(), unpacked] {
            let cost = Cost::new(&checkpoint, &EngineOptions::default(), false);
            assert_eq!(cost.weight_bytes(), checkpoint.summary().decode_bytes);
        }
    }
}
