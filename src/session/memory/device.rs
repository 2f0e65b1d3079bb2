//! What a model needs on a device other than the CPU, where everything must fit.

use super::{Dense, KvType, Plan};
use crate::checkpoint::Config;
use crate::engine::{FIRST_POSITIONS, device_weight_bytes, expert_layer_bytes};

/// Positions that are planned for where no context was asked for: a conversation.
const CONVERSATION: usize = 8192;

/// What a run needs on a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePlan {
    /// The weights as the device keeps them.
    pub weights: u64,
    /// The same with attention, embedding and output in 8 bits.
    pub weights_in_8_bits: u64,
    /// The experts of one layer, which may stay on the CPU.
    pub layer: u64,
    /// Layers of the model.
    pub layers: usize,
    /// Layers whose experts are on the device; `None`: all.
    pub gpu_layers: Option<usize>,
    /// Activations of a prompt chunk and logits: an estimate.
    pub work: u64,
    /// KV history per token, all layers.
    pub history_per_token: u64,
    /// Positions the history is planned for.
    pub context: usize,
}

impl DevicePlan {
    /// The plan for a model whose weights are `published` bytes. Without a `context` asked for there is room for a
    /// conversation; more is taken when it is needed, if the device has it then.
    pub fn new(
        config: &Config,
        published: u64,
        kv_type: KvType,
        dense: Dense,
        context: Option<usize>,
    ) -> Self {
        let context = context.unwrap_or(config.max_position_embeddings.min(CONVERSATION));
        let plan = Plan::new(config, published, kv_type, dense, context);
        let weights = |dense| device_weight_bytes(config, published, dense);
        Self {
            weights: weights(dense),
            weights_in_8_bits: weights(Dense::Q8),
            layer: expert_layer_bytes(config, published),
            layers: config.num_hidden_layers,
            gpu_layers: None,
            work: plan.work,
            history_per_token: plan.history_per_token,
            context,
        }
    }

    /// Weights, work space, and the history as it will have grown.
    pub fn needed(&self) -> u64 {
        self.needed_for(self.weights, self.context)
    }

    fn needed_for(&self, weights: u64, context: usize) -> u64 {
        let positions = context.max(FIRST_POSITIONS).next_power_of_two() as u64;
        let history = self.history_per_token.saturating_mul(positions);
        let elsewhere = self.layers - self.gpu_layers.unwrap_or(self.layers).min(self.layers);
        weights
            .saturating_sub(self.layer * elsewhere as u64)
            .saturating_add(self.work)
            .saturating_add(history)
    }

    /// The plan that leaves the experts of all layers but `gpu_layers` on the CPU.
    #[must_use]
    pub const fn with_gpu_layers(self, gpu_layers: Option<usize>) -> Self {
        Self { gpu_layers, ..self }
    }

    /// The most layers whose experts fit into `bytes` with the rest; `None` where not even the rest does.
    pub fn layers_in(&self, bytes: u64) -> Option<usize> {
        let rest = self.with_gpu_layers(Some(0)).needed();
        let left = bytes.checked_sub(rest)?;
        let fitting = left.checked_div(self.layer).unwrap_or(u64::MAX);
        Some(
            usize::try_from(fitting)
                .unwrap_or(usize::MAX)
                .min(self.layers),
        )
    }

    /// The flags with which it would fit into `bytes`, if there are any.
    pub fn way_into(&self, bytes: u64) -> Option<String> {
        // Where it was asked for how many layers, fewer of them are the nearest way.
        if self.gpu_layers.is_some()
            && let Some(layers) = self.layers_in(bytes)
        {
            return Some(format!("--gpu-layers {layers}"));
        }
        let most = |weights| {
            let halves = std::iter::successors(Some(self.context.next_power_of_two()), |context| {
                Some(context / 2).filter(|half| *half >= FIRST_POSITIONS)
            });
            let mut shorter = halves.map(|context| context.min(self.context));
            shorter.find(|context| self.needed_for(weights, *context) <= bytes)
        };
        if let Some(context) = most(self.weights) {
            return Some(format!("--context {context}"));
        }
        match most(self.weights_in_8_bits)? {
            context if context == self.context => Some("--dense q8".to_owned()),
            context => Some(format!("--dense q8 --context {context}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 20b with what was asked for.
    const PLAN: DevicePlan = DevicePlan {
        weights: 13_800_000_000,
        weights_in_8_bits: 12_100_000_000,
        layer: 425_000_000,
        layers: 24,
        gpu_layers: None,
        work: 250_000_000,
        history_per_token: 49_152,
        context: 100_000,
    };

    #[test]
    fn the_history_is_planned_as_it_grows() {
        let of = |context| DevicePlan { context, ..PLAN }.needed() - PLAN.weights - PLAN.work;
        assert_eq!(of(0), 1024 * 49_152);
        assert_eq!(of(1025), 2048 * 49_152);
        assert_eq!(of(100_000), 131_072 * 49_152);
    }

    #[test]
    fn the_flags_that_help_do_help() {
        let way = |tenths: u64| PLAN.way_into(tenths * 100_000_000);
        assert_eq!(way(300).as_deref(), Some("--context 100000"));
        assert_eq!(way(180).as_deref(), Some("--context 65536"));
        assert_eq!(way(142).as_deref(), Some("--context 2048"));
        assert_eq!(way(140).as_deref(), Some("--dense q8 --context 32768"));
        assert_eq!(way(120), None);
        let short = DevicePlan {
            context: 4000,
            ..PLAN
        };
        assert_eq!(
            short.way_into(13_000_000_000).as_deref(),
            Some("--dense q8")
        );
    }

    #[test]
    fn the_experts_of_the_last_layers_may_stay_elsewhere() {
        let plan = DevicePlan {
            context: 8192,
            ..PLAN
        };
        let rest: u64 = 13_800_000_000 - 24 * 425_000_000 + 250_000_000 + 8192 * 49_152;
        assert_eq!(plan.layers_in(rest - 1), None);
        assert_eq!(plan.layers_in(rest), Some(0));
        assert_eq!(plan.layers_in(12_000_000_000), Some(18));
        assert_eq!(plan.layers_in(rest + 24 * 425_000_000), Some(24));
        assert_eq!(plan.layers_in(u64::MAX), Some(24));
        let way = plan.with_gpu_layers(Some(24)).way_into(12_000_000_000);
        assert_eq!(way.as_deref(), Some("--gpu-layers 18"));
        let most = plan.with_gpu_layers(Some(18)).needed();
        assert!(most <= 12_000_000_000, "{most}");
    }

    #[test]
    fn the_built_in_model_is_planned_as_it_is_kept() {
        let tiny = crate::checkpoint::Checkpoint::tiny();
        let published = tiny.summary().weight_bytes();
        let plan = |dense| DevicePlan::new(&tiny.config, published, KvType::Bf16, dense, None);
        assert_eq!(plan(Dense::Bf16).weights, published);
        // 192 and 256 columns are 3 and 4 times 64: 68 bytes for 128.
        let rows = 6 * (4 + 2 * 2) * 64 + 2 * 2944;
        let less = rows * 192 * 60 / 64 + 6 * 192 * 256 * 60 / 64;
        assert_eq!(plan(Dense::Q8).weights, published - less);
        assert_eq!(plan(Dense::Q8).weights, plan(Dense::Bf16).weights_in_8_bits);
        assert_eq!(plan(Dense::Bf16).context, 8192);
        // Packed 17 bytes for 32; the rest are biases, router and norms.
        let packed: u64 = 8 * 3 * 192 * 128 / 32 * 17;
        let layer = plan(Dense::Bf16).layer;
        assert!(
            layer >= packed && layer < packed * 11 / 10,
            "{layer}, {packed}"
        );
    }
}
