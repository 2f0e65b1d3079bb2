//! How much memory a checkpoint needs and how much this machine has.

mod device;

pub use device::DevicePlan;

use super::{Dense, KvType};
use crate::checkpoint::Config;
use crate::engine::dense_bytes;

/// Tokens of a prompt that are worked on at once, for the estimate of the work space.
const CHUNK: usize = 512;
/// What the vocabulary takes in memory, per entry: text, merges and their tables.
const TOKENIZER_BYTES_PER_ENTRY: usize = 600;

/// The memory of this machine, or of the container it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes installed.
    pub total: u64,
    /// Bytes that can be used without pushing other programs out.
    pub available: u64,
}

impl Machine {
    /// What the system says; `None` where it says nothing.
    pub fn here() -> Option<Self> {
        let mut system = sysinfo::System::new();
        system.refresh_memory();
        let machine = Self {
            total: system.total_memory(),
            available: system.available_memory(),
        };
        if machine.total == 0 {
            return None;
        }
        Some(match system.cgroup_limits() {
            Some(limits) => machine.within(limits.total_memory, limits.rss),
            None => machine,
        })
    }

    /// This machine for a container that may use `limit` bytes of it and holds `held`. Cached files are
    /// not held: the system gives them back, and the weights are among them.
    fn within(self, limit: u64, held: u64) -> Self {
        let total = self.total.min(limit);
        Self {
            total,
            available: self.available.min(total.saturating_sub(held)),
        }
    }
}

/// What a run needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The weights. Mapped from their files: short of memory they are read again and again instead.
    pub weights: u64,
    /// What the dense weights take beside the map where they are kept in 8 bits, else nothing.
    pub dense_copy: u64,
    /// Activations of a prompt chunk, logits and vocabulary: an estimate.
    pub work: u64,
    /// KV history per token, all layers.
    pub history_per_token: u64,
    /// Positions the history is planned for.
    pub context: usize,
}

/// Whether a [`Plan`] fits a [`Machine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Everything fits into what is free now.
    Fits,
    /// It fits the machine, not what is free now.
    Crowded,
    /// History and work space fit, the weights do not stay in memory beside them.
    WeightsFromDisk,
    /// Not even history and work space fit.
    TooLarge,
}

impl Plan {
    /// The plan for `context` positions of a model of `weights` bytes.
    pub fn new(
        config: &Config,
        weights: u64,
        kv_type: KvType,
        dense: Dense,
        context: usize,
    ) -> Self {
        let heads = config.num_attention_heads * config.head_dim;
        let expert = 2 * config.intermediate_size + config.hidden_size;
        let per_token = 4 * config.hidden_size + 2 * heads + config.experts_per_token * expert;
        let work = 4 * (CHUNK * per_token + config.vocab_size)
            + TOKENIZER_BYTES_PER_ENTRY * config.vocab_size;
        let keys_and_values = 2 * config.num_hidden_layers * config.num_key_value_heads;
        Self {
            weights,
            dense_copy: dense_copy(config, dense),
            work: work as u64,
            history_per_token: (keys_and_values * kv_type.bytes(config.head_dim)) as u64,
            context,
        }
    }

    /// KV history of the whole context.
    pub fn history(&self) -> u64 {
        self.history_per_token.saturating_mul(self.context as u64)
    }

    /// Weights, a copy of some of them, work space and the whole history.
    pub fn needed(&self) -> u64 {
        self.anonymous().saturating_add(self.weights)
    }

    /// What must be in memory: all but the weights.
    fn anonymous(&self) -> u64 {
        self.history()
            .saturating_add(self.work)
            .saturating_add(self.dense_copy)
    }

    /// The plan without 8-bit copies.
    #[must_use]
    pub fn as_published(self) -> Self {
        Self {
            dense_copy: 0,
            ..self
        }
    }

    /// How it goes on `machine`.
    pub fn fit(&self, machine: Machine) -> Fit {
        if self.anonymous() > machine.total {
            Fit::TooLarge
        } else if self.needed() > machine.total {
            Fit::WeightsFromDisk
        } else if self.needed() > machine.available {
            Fit::Crowded
        } else {
            Fit::Fits
        }
    }

    /// The longest context, up to the planned one, that stays in `bytes` with weights and work space.
    pub fn context_within(&self, bytes: u64) -> usize {
        let left = bytes.saturating_sub(self.weights + self.dense_copy + self.work);
        let positions = left / self.history_per_token.max(1);
        usize::try_from(positions).map_or(self.context, |positions| positions.min(self.context))
    }
}

/// Attention, embedding and output in 8 bits.
fn dense_copy(config: &Config, dense: Dense) -> u64 {
    match dense {
        Dense::Bf16 => 0,
        Dense::Q8 => dense_bytes(config, |rows, cols| dense.bytes(rows, cols)),
    }
}

/// What of this process is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes of its own.
    pub anonymous: u64,
    /// Bytes of mapped files; the system can take them back.
    pub mapped: u64,
}

impl Resident {
    /// What it is now; `None` where the system does not tell.
    pub fn now() -> Option<Self> {
        Self::of_status(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    /// Of the text of `/proc/self/status`.
    fn of_status(text: &str) -> Option<Self> {
        Some(Self {
            anonymous: bytes_of(text, "RssAnon:")?,
            mapped: bytes_of(text, "RssFile:")? + bytes_of(text, "RssShmem:")?,
        })
    }

    /// All of it.
    pub fn total(self) -> u64 {
        self.anonymous + self.mapped
    }
}

/// A line of `/proc/self/status` in bytes.
fn bytes_of(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Bytes that this process has made the system read from the disk so far; `None` where the system does not tell.
pub fn read_from_disk() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes:"))?;
    line.trim().parse().ok()
}

/// The most memory this process has held so far, in bytes, mapped files included; `None` where the
/// system does not tell.
pub fn peak_rss() -> Option<u64> {
    // On Linux getrusage also counts what the process that started this one had then.
    let status = std::fs::read_to_string("/proc/self/status").ok();
    if let Some(peak) = status.and_then(|status| bytes_of(&status, "VmHWM:")) {
        return Some(peak);
    }
    #[cfg(unix)]
    {
        use nix::sys::resource::{UsageWho, getrusage};
        let max_rss = getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss();
        // Linux counts in kibibytes, macOS in bytes.
        let unit = if cfg!(target_vendor = "apple") {
            1
        } else {
            1024
        };
        u64::try_from(max_rss).ok().map(|value| value * unit)
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{LayerType, RopeScaling};

    /// gpt-oss-20b.
    fn config() -> Config {
        Config {
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
        }
    }

    const GIB: u64 = 1 << 30;

    fn plan(context: usize) -> Plan {
        Plan::new(
            &config(),
            13_761_264_768,
            KvType::Bf16,
            Dense::Bf16,
            context,
        )
    }

    #[test]
    fn the_history_of_the_20b_is_48_kib_per_token() {
        assert_eq!(plan(0).history_per_token, 48 * 1024);
        assert_eq!(plan(131_072).history(), 6 * GIB);
        let f32 = Plan::new(&config(), 0, KvType::F32, Dense::Bf16, 131_072);
        assert_eq!(f32.history(), 12 * GIB);
    }

    fn machine(total: u64, available: u64) -> Machine {
        Machine {
            total: total * GIB,
            available: available * GIB,
        }
    }

    #[test]
    fn a_container_has_what_its_limit_and_the_machine_leave() {
        assert_eq!(machine(64, 50).within(8 * GIB, 2 * GIB), machine(8, 6));
        assert_eq!(machine(64, 3).within(8 * GIB, 2 * GIB), machine(8, 3));
        assert_eq!(machine(64, 50).within(u64::MAX, 10 * GIB), machine(64, 50));
        assert_eq!(machine(64, 50).within(GIB, 2 * GIB), machine(1, 0));
    }

    #[test]
    fn says_how_a_plan_goes_on_a_machine() {
        assert_eq!(plan(8192).fit(machine(24, 20)), Fit::Fits);
        assert_eq!(plan(8192).fit(machine(24, 8)), Fit::Crowded);
        assert_eq!(plan(8192).fit(machine(8, 6)), Fit::WeightsFromDisk);
        assert_eq!(plan(131_072).fit(machine(4, 3)), Fit::TooLarge);
    }

    #[test]
    fn says_which_context_would_fit() {
        let plan = plan(131_072);
        let room = plan.weights + plan.work + 1000 * plan.history_per_token;
        assert_eq!(plan.context_within(room), 1000);
        assert_eq!(plan.context_within(GIB), 0);
        assert_eq!(plan.context_within(u64::MAX), 131_072);
    }

    #[test]
    fn dense_weights_in_8_bits_take_34_bytes_for_32_values_beside_the_map() {
        let plan = Plan::new(&config(), 13_761_264_768, KvType::Bf16, Dense::Q8, 8192);
        // 2,880 columns are 90 blocks, 4,096 are 128.
        let layer = (4096 + 2 * 512) * 90 * 34 + 2880 * 128 * 34;
        assert_eq!(plan.dense_copy, 24 * layer + 2 * 201_088 * 90 * 34);
        assert_eq!(plan.dense_copy, 1_907_481_600);
        let published = self::plan(8192);
        assert_eq!(plan.needed(), published.needed() + plan.dense_copy);
        assert_eq!(plan.as_published(), published);
        let room = plan.weights + plan.dense_copy + plan.work + 1000 * plan.history_per_token;
        assert_eq!(plan.context_within(room), 1000);
    }

    #[test]
    fn anonymous_and_mapped_memory_are_read_apart() {
        let text = "VmRSS:\t    5120 kB\nRssAnon:\t    1024 kB\nRssFile:\t    4000 kB\nRssShmem:\t      96 kB\n";
        let expected = Resident {
            anonymous: 1 << 20,
            mapped: 4 << 20,
        };
        assert_eq!(Resident::of_status(text), Some(expected));
        assert_eq!(expected.total(), 5 << 20);
        assert_eq!(Resident::of_status("VmRSS:\t1 kB\n"), None);
    }

    #[test]
    #[cfg(unix)]
    fn the_peak_is_a_believable_number_of_bytes() {
        let peak = peak_rss().expect("every unix tells");
        assert!((1 << 20..1 << 40).contains(&peak), "{peak}");
    }
}
