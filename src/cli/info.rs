//! `gptoss info`: what a checkpoint holds, what it needs, and whether it fits here and the device it would run on.

use std::fmt::Write;

use serde::Serialize;

use super::args;
use super::config;
use super::model::{self, Place, Room};
use crate::checkpoint::{Checkpoint, LayerType, Layout, Summary};
use crate::hub::{ModelRef, decimal_bytes as bytes};
use crate::session::memory::{DevicePlan, Fit, Machine, Plan};

/// What is said of the built-in model.
const TOY: &str = "a toy that exercises the program: it knows greetings, capitals and the like, is often \
                   wrong, and is no assistant";

/// Everything that is shown, in the order of the JSON object.
#[derive(Debug, Serialize)]
struct Facts<'a> {
    source: &'a str,
    layout: &'static str,
    tensors: usize,
    layers: usize,
    sliding_layers: usize,
    sliding_window: usize,
    hidden_size: usize,
    attention_heads: usize,
    key_value_heads: usize,
    head_dim: usize,
    experts: usize,
    experts_per_token: usize,
    vocabulary: usize,
    max_context: usize,
    expert_type: &'static str,
    dense_type: &'static str,
    weight_bytes: u64,
    expert_bytes: u64,
    attention_bytes: u64,
    embedding_bytes: u64,
    other_bytes: u64,
    decode_bytes_per_token: u64,
    context: usize,
    history_bytes_per_token: u64,
    history_bytes: u64,
    work_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dense_copy_bytes: Option<u64>,
    needed_bytes: u64,
    machine_bytes: Option<u64>,
    available_bytes: Option<u64>,
    fits: Option<Fit>,
    #[serde(flatten)]
    device: DeviceFacts,
    toy: bool,
    files: Vec<FileFacts>,
}

/// What the model would run on. All but the first are `null` for the CPU.
#[derive(Debug, Default, Serialize)]
struct DeviceFacts {
    /// As `--device` takes it.
    device: String,
    device_name: Option<String>,
    /// Bytes that may be taken of its memory, also `null` where they are not known.
    device_memory_bytes: Option<u64>,
    /// Tokens that there is to be room for.
    device_context: Option<usize>,
    /// Bytes for them and what is asked for of the weights.
    device_needed_bytes: Option<u64>,
    device_fits: Option<bool>,
    /// Layers whose experts are on it, or would fit; `null` where not even the rest does.
    gpu_layers: Option<usize>,
    /// For people, a line each.
    #[serde(skip)]
    said: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FileFacts {
    path: String,
    bytes: u64,
}

/// Runs `gptoss info` and gives what it prints.
///
/// # Errors
/// When there is no such model, it is not here, or its files are not what they should be.
pub fn run(args: &args::Info) -> anyhow::Result<Vec<u8>> {
    let settings = config::load(args.model.given().or(args.device.given()))?.settings();
    let checkpoint = model::open(&settings, false)?;
    let toy = model::named(&settings)? == ModelRef::Tiny;
    let summary = checkpoint.summary();
    let context = settings
        .context
        .unwrap_or(checkpoint.config.max_position_embeddings);
    let plan = Plan::new(
        &checkpoint.config,
        summary.weight_bytes(),
        settings.kv_type,
        settings.dense,
        context,
    );
    let on_device = DevicePlan::new(
        &checkpoint.config,
        summary.weight_bytes(),
        settings.kv_type,
        settings.dense,
        settings.context,
    )
    .with_gpu_layers(settings.gpu_layers);
    let place = model::place(settings.device, &on_device, settings.gpu_memory)?;
    let facts = Facts {
        device: DeviceFacts::new(place, &on_device),
        ..Facts::new(&checkpoint, &summary, &plan, Machine::here(), toy)
    };
    let mut text = if args.json {
        serde_json::to_string_pretty(&facts)?
    } else {
        facts.text(settings.context.is_none())
    };
    if args.json {
        text.push('\n');
    }
    Ok(text.into_bytes())
}

impl<'a> Facts<'a> {
    fn new(
        checkpoint: &'a Checkpoint,
        summary: &Summary,
        plan: &Plan,
        machine: Option<Machine>,
        toy: bool,
    ) -> Self {
        let config = &checkpoint.config;
        let sliding = |layer: &&LayerType| **layer == LayerType::Sliding;
        let (layout, expert_type) = match checkpoint.layout {
            Layout::HuggingFace => ("Hugging Face", "MXFP4"),
            Layout::HuggingFaceBf16 => ("Hugging Face", "BF16"),
            Layout::Original => ("original", "MXFP4"),
        };
        Self {
            source: &checkpoint.source,
            layout,
            tensors: summary.tensors,
            layers: config.num_hidden_layers,
            sliding_layers: config.layer_types.iter().filter(sliding).count(),
            sliding_window: config.sliding_window,
            hidden_size: config.hidden_size,
            attention_heads: config.num_attention_heads,
            key_value_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            experts: config.num_experts,
            experts_per_token: config.experts_per_token,
            vocabulary: config.vocab_size,
            max_context: config.max_position_embeddings,
            expert_type,
            dense_type: "BF16",
            weight_bytes: summary.weight_bytes(),
            expert_bytes: summary.expert_bytes,
            attention_bytes: summary.attention_bytes,
            embedding_bytes: summary.embedding_bytes,
            other_bytes: summary.other_bytes,
            decode_bytes_per_token: summary.decode_bytes,
            context: plan.context,
            history_bytes_per_token: plan.history_per_token,
            history_bytes: plan.history(),
            work_bytes: plan.work,
            dense_copy_bytes: (plan.dense_copy > 0).then_some(plan.dense_copy),
            needed_bytes: plan.needed(),
            machine_bytes: machine.map(|machine| machine.total),
            available_bytes: machine.map(|machine| machine.available),
            fits: machine.map(|machine| plan.fit(machine)),
            device: DeviceFacts::default(),
            toy,
            files: summary
                .files
                .iter()
                .map(|file| FileFacts {
                    path: file.path.display().to_string(),
                    bytes: file.bytes,
                })
                .collect(),
        }
    }

    fn memory(&self) -> String {
        let copy = self.dense_copy_bytes.map_or_else(String::new, |copy| {
            format!(", 8-bit copies {}", bytes(copy))
        });
        format!(
            "{} with a context of {}: weights {}{copy}, history {}, work space about {}",
            bytes(self.needed_bytes),
            self.context,
            bytes(self.weight_bytes),
            bytes(self.history_bytes),
            bytes(self.work_bytes)
        )
    }

    /// For people. `whole` when the context is the longest the model allows.
    fn text(&self, whole: bool) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<14}{value}");
        };
        row("model", self.source.to_owned());
        if self.toy {
            row("", TOY.to_owned());
        }
        row(
            "layout",
            format!("{}, {} tensors", self.layout, self.tensors),
        );
        row(
            "layers",
            format!(
                "{}: {} with a window of {}, {} full",
                self.layers,
                self.sliding_layers,
                self.sliding_window,
                self.layers - self.sliding_layers
            ),
        );
        row(
            "attention",
            format!(
                "{} query and {} key heads of {}, hidden size {}",
                self.attention_heads, self.key_value_heads, self.head_dim, self.hidden_size
            ),
        );
        row(
            "experts",
            format!(
                "{} per layer, {} for each token",
                self.experts, self.experts_per_token
            ),
        );
        row("vocabulary", format!("{} tokens", self.vocabulary));
        row("context", format!("up to {} tokens", self.max_context));
        row("weights", bytes(self.weight_bytes));
        row(
            "  experts",
            format!("{} ({})", bytes(self.expert_bytes), self.expert_type),
        );
        row(
            "  attention",
            format!("{} ({})", bytes(self.attention_bytes), self.dense_type),
        );
        row(
            "  embedding",
            format!("{} ({})", bytes(self.embedding_bytes), self.dense_type),
        );
        row(
            "  other",
            format!("{} ({})", bytes(self.other_bytes), self.dense_type),
        );
        row(
            "decode reads",
            format!(
                "{} of weights per token",
                bytes(self.decode_bytes_per_token)
            ),
        );
        row(
            "history",
            format!(
                "{} per token of context",
                bytes(self.history_bytes_per_token)
            ),
        );
        row("memory", self.memory());
        if let (Some(total), Some(available), Some(fits)) =
            (self.machine_bytes, self.available_bytes, self.fits)
        {
            row(
                "here",
                format!(
                    "{}, {} free now: {}",
                    bytes(total),
                    bytes(available),
                    verdict(fits)
                ),
            );
        }
        for (line, said) in self.device.said.iter().enumerate() {
            row(if line == 0 { "device" } else { "" }, said.clone());
        }
        if whole {
            row(
                "",
                "--context N shows what a shorter context needs".to_owned(),
            );
        }
        text
    }
}

impl DeviceFacts {
    fn new(place: Place, plan: &DevicePlan) -> Self {
        let all = plan.gpu_layers.unwrap_or(plan.layers).min(plan.layers);
        let (room, layers, fits) = match place {
            Place::Cpu(why) => {
                let why = why.unwrap_or_else(|| "no GPU is used".to_owned());
                return Self {
                    device: "cpu".to_owned(),
                    said: vec![format!("cpu ({why})")],
                    ..Self::default()
                };
            }
            Place::Gpu(room) => (room, Some(all), true),
            Place::Part(room, layers) => (room, Some(layers), false),
            Place::TooSmall(room) => {
                let layers = room.memory.and_then(|memory| plan.layers_in(memory));
                (room, layers, false)
            }
        };
        let of = plan.layers;
        let comes_to = match (fits, layers) {
            (true, _) if all < of => format!("it fits with the experts of {all} of {of} layers"),
            (true, _) => "it fits".to_owned(),
            (false, Some(layers)) => {
                format!("the experts of {layers} of {of} layers fit (--gpu-layers {layers})")
            }
            (false, None) => {
                let way = room.memory.and_then(|memory| plan.way_into(memory));
                let way = way.map_or_else(String::new, |flags| format!(", it would with {flags}"));
                format!("it does not fit, not even without experts{way}")
            }
        };
        let Room {
            device,
            memory,
            capped,
        } = room;
        let memory_said = match (memory, capped) {
            (None, _) => "memory unknown".to_owned(),
            (Some(memory), false) => bytes(memory),
            (Some(memory), true) => format!("{} of its memory (`gpu-memory`)", bytes(memory)),
        };
        Self {
            device: device.to_string(),
            said: vec![
                format!("{device} ({}), {memory_said}", device.name),
                format!(
                    "{} with a context of {}: {comes_to}",
                    bytes(plan.needed()),
                    plan.context
                ),
            ],
            device_name: Some(device.name),
            device_memory_bytes: memory,
            device_context: Some(plan.context),
            device_needed_bytes: Some(plan.needed()),
            device_fits: Some(fits),
            gpu_layers: layers,
        }
    }
}

fn verdict(fit: Fit) -> &'static str {
    match fit {
        Fit::Fits => "it fits",
        Fit::Crowded => "it fits once other programs give memory back",
        Fit::WeightsFromDisk => {
            "it runs slowly, the weights are read from the disk again and again"
        }
        Fit::TooLarge => "it does not fit",
    }
}
