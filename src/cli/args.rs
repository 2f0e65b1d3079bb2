//! The flags of `run` and `info`, and those that other commands share. Strings become values here; the inside never sees one.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::error::Failure;
use super::model;
use crate::hub::ModelRef;
use crate::session::{Compute, Dense, DeviceChoice, KvType, LoadOptions, LoadProgress, Reasoning};
use crate::settings::{
    self, COMPUTE, Choice, DENSE, Given, KV_TYPES, MOST_THREADS, Named, Paths, Settings,
};

/// Which model and how its history is kept.
#[derive(Args, Debug)]
pub struct ModelArgs {
    /// `20b`, `120b`, `tiny` (the built-in toy), a directory, or a repository as `OWNER/NAME[@REVISION]`
    /// [default: 20b]
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<ModelRef>,
    /// Most tokens the context may hold [default: what the model allows]
    #[arg(long, value_name = "TOKENS", value_parser = positive, allow_negative_numbers = true)]
    pub context: Option<usize>,
    /// How keys and values of the context are kept [default: bf16]
    #[arg(long, value_name = "TYPE", value_parser = named(KV_TYPES))]
    pub kv_type: Option<KvType>,
}

/// `gptoss info`
#[derive(Args, Debug)]
#[command(args_override_self = true)]
pub struct Info {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// `gptoss run`
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_override_self = true)]
#[allow(clippy::struct_excessive_bools)] // Flags are flags.
pub struct Run {
    /// The prompt; `-` reads standard input, as does no prompt at all when something is piped in
    #[arg(value_name = "PROMPT", conflicts_with = "prompt_file")]
    pub prompt: Option<String>,
    /// Read the prompt from FILE, `-` for standard input
    #[arg(long = "prompt", short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prompt_file: Option<PathBuf>,
    #[command(flatten)]
    pub model: ModelArgs,

    /// Instructions for the whole answer: the system prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "system_file", help_heading = PROMPT)]
    pub system: Option<String>,
    /// Read the instructions from FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = PROMPT)]
    pub system_file: Option<PathBuf>,
    /// How long to think: low, medium or high [default: medium]
    #[arg(long, short, value_name = "LEVEL", help_heading = PROMPT)]
    pub reasoning: Option<Reasoning>,
    /// Functions the model may call: a JSON list of {"type": "function", "function": {...}}
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = PROMPT)]
    pub tools: Option<PathBuf>,
    /// Complete the prompt as it is, without the chat format
    #[arg(long, help_heading = PROMPT, conflicts_with_all = CHAT_ONLY)]
    pub raw: bool,
    /// Complete the token ids in FILE, separated by commas or white space; needs --raw
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = PROMPT)]
    #[arg(requires = "raw", conflicts_with_all = ["prompt", "prompt_file"])]
    pub prompt_ids: Option<PathBuf>,
    /// The date the model is told, YYYY-MM-DD [default: today]
    #[arg(long, value_name = "DATE", hide = true)]
    pub current_date: Option<jiff::civil::Date>,

    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// Show the thinking on standard error [default: when it is a terminal]
    #[arg(long, conflicts_with = "hide_thinking", help_heading = OUTPUT)]
    pub show_thinking: bool,
    /// Do not show the thinking
    #[arg(long, help_heading = OUTPUT)]
    pub hide_thinking: bool,
    /// Print one JSON object at the end instead of streaming text
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Write the answer to FILE, `-` for standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Nothing on standard error but errors
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,

    #[command(flatten)]
    pub machine: MachineArgs,
}

const PROMPT: &str = "Prompt";
const SAMPLING: &str = "Sampling";
const OUTPUT: &str = "Output";
const MACHINE: &str = "Machine";

/// What has no meaning without the chat format.
const CHAT_ONLY: [&str; 6] = [
    "system",
    "system_file",
    "reasoning",
    "tools",
    "show_thinking",
    "hide_thinking",
];

const AFTER_HELP: &str = "\
Text from files and standard input is UTF-8; a byte order mark is removed, CRLF becomes LF, and one
line break at the end is removed. An argument is taken as it is, --raw text too. With a prompt
argument standard input is not read.

The answer goes to standard output and ends in a line break; everything else goes to standard error.";

/// How a token is chosen.
#[derive(Args, Debug)]
#[command(next_help_heading = SAMPLING)]
pub struct SamplingArgs {
    /// 0 always takes the likeliest token [default: 1]
    #[arg(long, short, value_name = "T", value_parser = number, allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Choose among the K likeliest tokens, 0 for all [default: 0]
    #[arg(long, value_name = "K", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Choose among the likeliest tokens that together have probability P [default: 1]
    #[arg(long, value_name = "P", value_parser = number, allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Choose among tokens at least P times as likely as the likeliest [default: 0]
    #[arg(long, value_name = "P", value_parser = number, allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Make tokens that were already used less likely; 1 changes nothing [default: 1]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true)]
    pub repetition_penalty: Option<f32>,
    /// The same seed gives the same text [default: drawn, and printed]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole::<u64>,
        allow_negative_numbers = true
    )]
    pub seed: Option<u64>,
    /// Stop after N tokens, thinking included [default: when the context is full]
    #[arg(long, short = 'n', value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub max_tokens: Option<usize>,
}

/// Which device, and what of it.
#[derive(Args, Debug)]
#[command(next_help_heading = MACHINE)]
pub struct DeviceArgs {
    /// What to run on: `auto`, `cpu`, `vulkan`, `metal` or `cuda`, and which of several: `vulkan:1`; `gptoss devices`
    /// lists them [default: auto]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceChoice>,
    /// Keep the experts of the first N layers only on the GPU, those of the others on the CPU [default: as many as fit]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub gpu_layers: Option<usize>,
    /// Plan with at most SIZE of the GPU's memory, as `8GB`, `7.5GB`, `11GiB` or bytes; other programs have the rest
    /// [default: all of it]
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub gpu_memory: Option<u64>,
}

/// What to run on, and with what.
#[derive(Args, Debug)]
#[command(next_help_heading = MACHINE)]
pub struct MachineArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// How far activations are rounded for products [default: auto]
    #[arg(long, value_name = "TYPE", value_parser = named(COMPUTE))]
    pub compute: Option<Choice<Compute>>,
    /// How the weights of attention, embedding and output are kept [default: bf16]
    #[arg(long, value_name = "TYPE", value_parser = named(DENSE))]
    pub dense: Option<Dense>,
    /// CPU kernels by name, or `auto`: the fastest [default: auto]
    #[arg(long, value_name = "NAME")]
    pub kernels: Option<String>,
    /// Threads to compute with on the CPU [default: one per core]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

impl ModelArgs {
    /// What these flags say.
    pub fn given(&self) -> Given {
        Given {
            model: self.model.as_ref().map(ModelRef::to_string),
            context: self.context,
            kv_type: self.kv_type,
            ..Given::default()
        }
    }
}

impl SamplingArgs {
    /// What these flags say; the sampling values are not yet validated.
    pub fn given(&self) -> Given {
        Given {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            max_tokens: self.max_tokens,
            ..Given::default()
        }
    }
}

impl DeviceArgs {
    /// What these flags say.
    pub fn given(&self) -> Given {
        Given {
            device: self.device,
            gpu_layers: self.gpu_layers,
            gpu_memory: self.gpu_memory,
            ..Given::default()
        }
    }
}

impl MachineArgs {
    /// What these flags say.
    pub fn given(&self) -> Given {
        Given {
            compute: self.compute,
            dense: self.dense,
            kernels: self.kernels.as_deref().map(Choice::from),
            threads: self.threads,
            ..self.device.given()
        }
    }

    /// How the model is loaded.
    ///
    /// # Errors
    /// When this machine cannot do it so.
    pub fn load_options(&self, settings: &Settings) -> anyhow::Result<LoadOptions> {
        // Experts that stay on the CPU, or may have to, are computed by its kernels.
        let whole = settings.gpu_layers.is_none() && settings.gpu_memory.is_none();
        let cpu_idle = settings.device.is_gpu() && whole;
        let kernels = self.kernels.as_deref().filter(|name| *name != "auto");
        if let (Some(kernels), true) = (kernels, cpu_idle) {
            return Err(Failure::usage(
                format!(
                    "--kernels {kernels} chooses among CPU kernels and the device is `{}`",
                    settings.device
                ),
                "leave --kernels out, or take --device cpu",
            )
            .into());
        }
        if let (Some(Choice::Only(compute)), true) = (self.compute, cpu_idle)
            && compute != Compute::F32
        {
            return Err(Failure::usage(
                format!(
                    "--compute {} rounds activations for CPU kernels and the device is `{}`, which computes in f32",
                    compute.name(),
                    settings.device
                ),
                "leave --compute out, or take --device cpu",
            )
            .into());
        }
        // Whether there is such a device is known at once, what the model needs is not.
        if settings.device.is_gpu() {
            model::check_device(settings.device)?;
        }
        let options = LoadOptions {
            device: settings.device,
            kernel_cache: Paths::kernels(|name| std::env::var_os(name)),
            kv_type: settings.kv_type,
            context: settings.context,
            gpu_layers: settings.gpu_layers,
            threads: settings.threads,
            compute: settings.compute,
            dense: settings.dense,
            kernels: settings.kernels.clone(),
            progress: LoadProgress::default(),
        };
        match options.in_use() {
            Ok(_) => Ok(options),
            Err(error) => Err(Failure::usage(
                error.to_string(),
                "--kernels auto takes the fastest of them",
            )
            .into()),
        }
    }
}

impl Run {
    /// What the flags say. Instructions are left out: they may have to be read first.
    pub fn given(&self) -> Given {
        let own = Given {
            reasoning: self.reasoning,
            show_thinking: match (self.show_thinking, self.hide_thinking) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            ..Given::default()
        };
        own.or(self.model.given())
            .or(self.sampling.given())
            .or(self.machine.given())
    }
}

/// One of `known`, by name.
fn named<T>(known: &'static [Named<T>]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let values = known
        .iter()
        .map(|(name, _, meaning)| PossibleValue::new(*name).help(*meaning));
    PossibleValuesParser::new(values).map(|text| {
        let named = known.iter().find(|(name, ..)| *name == text);
        named.expect("clap lets no other name pass").1
    })
}

pub fn positive(text: &str) -> Result<usize, String> {
    whole_from(1, text)
}

pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole_from(0, text)
}

fn whole_from<T: TryFrom<u64>>(least: u64, text: &str) -> Result<T, String> {
    settings::whole(text, least).map_err(expected)
}

fn threads(text: &str) -> Result<usize, String> {
    settings::within(text, 1..=MOST_THREADS).map_err(expected)
}

fn number(text: &str) -> Result<f32, String> {
    settings::decimal(text).map_err(expected)
}

fn size(text: &str) -> Result<u64, String> {
    settings::size(text).map_err(expected)
}

/// What is wrong with a value, as clap says it.
pub fn expected(what: impl AsRef<str>) -> String {
    format!("expected {}", what.as_ref())
}
