//! `gptoss bench`: how fast a model reads and makes tokens here, and how fast this machine would allow.

mod bandwidth;
mod cost;
mod measure;
mod plan;
mod progress;
mod report;
mod tokens;

use std::time::Instant;

use anyhow::Context;

use super::args::{MachineArgs, ModelArgs, expected, positive, whole};
use super::interrupt::Interrupt;
use super::{Exit, config, model, print};
use crate::checkpoint::Checkpoint;
use crate::cli::progress::of_load;
use crate::engine::{self, Cancel};
use crate::session::memory::{self, DevicePlan, Machine};
use crate::session::{self, LoadOptions};
use crate::settings::{self, Settings};
use cost::Cost;
use measure::{Bench, Kind, Peak, Test};
use plan::{Asked, Plan};
use progress::Progress;
use report::{Measured, OnDevice, Report, Statistics};
use tokens::Routing;

const OUTPUT: &str = "Output";

/// Tokens of the prompt for the time to the first token: a short question.
const SHORT: usize = 16;
/// More would take longer than anybody waits, and be a slip of the keyboard.
const MOST_REPETITIONS: usize = 10_000;

const AFTER_HELP: &str = "\
Every --prompt and every --gen is measured at every --depth. In the table:
  tokens/s     the median of the repetitions; spread is how far the furthest lies from it
  reads/token  bytes of weights and history that a decoded token must read
  ceiling      tokens/s at which that takes all of the memory bandwidth, which is measured before
               and after the tests, on a GPU by copying within its memory; reached is the share of it
  arithmetic   operations of a prefill, two to a multiplication and addition
Load is without the vocabulary. A start is cold if weights came from the disk until the first token.

Token ids are random, the same in every run. Tokenisation, sampling and stop tokens are left out.
With --routing text ids follow Zipf's law and stretches of 4 to 16 tokens come again, as in text.

Ctrl-C ends it with what was measured so far.";

/// `gptoss bench`
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP, args_override_self = true)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// Tokens to read at once (prefill), separated by commas [default: 128,512]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = positive)]
    #[arg(allow_negative_numbers = true)]
    prompt: Option<Vec<usize>>,
    /// Tokens to make one by one (decode) [default: 64]
    #[arg(long = "gen", value_name = "N,...", value_delimiter = ',', value_parser = positive)]
    #[arg(allow_negative_numbers = true)]
    generate: Option<Vec<usize>>,
    /// Tokens that are there before [default: 0,2048]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = whole::<usize>)]
    #[arg(allow_negative_numbers = true)]
    depth: Option<Vec<usize>>,
    /// Timed runs of each test, after a warm-up
    #[arg(long, value_name = "N", value_parser = repetitions, allow_negative_numbers = true)]
    #[arg(default_value = "3")]
    repetitions: usize,
    /// How token ids are drawn
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    routing: Routing,

    /// Print a Markdown table
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    markdown: bool,
    /// Print one JSON object
    #[arg(long, help_heading = OUTPUT)]
    json: bool,

    #[command(flatten)]
    machine: MachineArgs,
}

fn repetitions(text: &str) -> Result<usize, String> {
    settings::within(text, 1..=MOST_REPETITIONS).map_err(expected)
}

/// Runs `gptoss bench`.
///
/// # Errors
/// What is wrong with flags, the model, or its numbers.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let settings = config::load(args.model.given().or(args.machine.given()))?.settings();
    let mut options = args.machine.load_options(&settings)?;
    let opening = Instant::now();
    let checkpoint = model::open(&settings, false)?;
    let opened = opening.elapsed();
    let most = checkpoint.config.max_position_embeddings;
    let plan = Plan::new(&args.asked(), settings.context.unwrap_or(most))?;

    let progress = Progress::new(plan.tests().len());
    if let Some(left_out) = &plan.left_out {
        progress.note("note:", left_out);
    }
    check_memory(&checkpoint, &settings, &mut options, &plan, &progress)?;
    let interrupt = Interrupt::install(progress.eraser()).context("cannot handle signals")?;
    let mut report = measure(args, &checkpoint, &options, &plan, &progress, &interrupt)?;
    report.load += opened;
    progress.clear();

    let text = if args.json {
        report.json()?
    } else if args.markdown {
        report.markdown()
    } else {
        report.text()
    };
    let printed = print(text.as_bytes())?;
    Ok(interrupt.received().unwrap_or(printed))
}

impl Args {
    fn asked(&self) -> Asked {
        Asked {
            prompt: self.prompt.clone(),
            generate: self.generate.clone(),
            depth: self.depth.clone(),
        }
    }
}

impl Plan {
    /// All tests, the deeper ones later: what is read for one depth serves the next.
    fn tests(&self) -> Vec<Test> {
        let of = |kind, depth, lengths: &[usize]| -> Vec<Test> {
            let test = |&tokens| Test {
                kind,
                tokens,
                depth,
            };
            lengths.iter().map(test).collect()
        };
        self.depth
            .iter()
            .flat_map(|&depth| {
                let mut tests = of(Kind::Prefill, depth, &self.prompt);
                tests.extend(of(Kind::Decode, depth, &self.generate));
                tests
            })
            .collect()
    }
}

/// Says what memory will be like, and chooses the device by it.
fn check_memory(
    checkpoint: &Checkpoint,
    settings: &Settings,
    options: &mut LoadOptions,
    plan: &Plan,
    progress: &Progress,
) -> anyhow::Result<()> {
    let (config, weights) = (&checkpoint.config, checkpoint.summary().weight_bytes());
    let (kv_type, dense, positions) = (options.kv_type, options.dense, plan.positions());
    let on_device = DevicePlan::new(config, weights, kv_type, dense, Some(positions));
    if let Some(note) = model::choose_device(options, &on_device, settings.gpu_memory)? {
        progress.note("note:", &note);
    }
    let needed = memory::Plan::new(config, weights, kv_type, dense, positions);
    if let Some(machine) = Machine::here().filter(|_| !options.device.is_gpu())
        && let Some(warning) = model::check_memory(&needed, machine)?
    {
        progress.note("warning:", &warning);
    }
    Ok(())
}

/// Bandwidth, load, first token, the tests, bandwidth: in this order, and what a signal leaves of it.
fn measure(
    args: &Args,
    checkpoint: &Checkpoint,
    options: &LoadOptions,
    plan: &Plan,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<Report> {
    let on_device = options.device.is_gpu();
    let cost = Cost::new(checkpoint, options, on_device);
    let of_cpu = (!on_device).then(|| options.in_use()).transpose()?;
    let mut bandwidth = Vec::new();
    if let Some(in_use) = &of_cpu {
        progress.say("measuring the memory bandwidth");
        bandwidth.push(bandwidth::measure(in_use.threads));
    }

    progress.say("loading");
    let peak = Peak::default();
    let read_before = memory::read_from_disk();
    let loading = Instant::now();
    let look = |step| progress.say(&format!("loading{}", of_load(step)));
    let model = options
        .progress
        .watched(look, || peak.watch(|| engine::load(checkpoint, options)))
        .map_err(session::Error::from)?;
    let load = loading.elapsed();
    if on_device {
        progress.say("measuring the memory bandwidth");
        bandwidth.extend(model.device_bandwidth().map_err(session::Error::from)?);
    }
    let cancel = Cancel::new();
    interrupt.arm(&cancel);

    let mut bench = Bench {
        tokens: tokens::token_ids(args.routing, model.vocab_size(), plan.positions()),
        model,
        held: 0,
        logits: Vec::new(),
        per_token: None,
        repetitions: args.repetitions,
        cancel: &cancel,
        peak: &peak,
        progress,
    };
    progress.say("first token");
    let short = SHORT.min(plan.positions());
    let first_token = bench
        .first_token(short)
        .map_err(session::Error::from)?
        .map(|time| (time, short));
    let from_disk = read_before
        .zip(memory::read_from_disk())
        .map(|(before, after)| after.saturating_sub(before));

    let mut results = Vec::new();
    for test in plan.tests() {
        let times = bench.run(test).map_err(session::Error::from)?;
        let rates = times
            .iter()
            .map(|time| test.tokens as f64 / time.as_secs_f64());
        let Some(rate) = Statistics::of(rates.collect()) else {
            break;
        };
        let cost = match test.kind {
            Kind::Decode => cost.decode_bytes(test.depth, test.tokens),
            Kind::Prefill => cost.prefill_operations(test.depth, test.tokens) / test.tokens as f64,
        };
        results.push(Measured { test, rate, cost });
        progress.done();
    }
    // The buffer of the second reading is no memory of the model, and needs room.
    let peak_rss = memory::peak_rss();
    let Bench {
        model, per_token, ..
    } = bench;
    let run = model.describe();
    let device = model.device_figures().map(|figures| OnDevice {
        per_token,
        memory: figures.memory,
    });
    if !cancel.is_cancelled() {
        progress.say("measuring the memory bandwidth");
        match &of_cpu {
            None => bandwidth.extend(model.device_bandwidth().map_err(session::Error::from)?),
            Some(in_use) => {
                drop(model);
                bandwidth.push(bandwidth::measure(in_use.threads));
            }
        }
    }
    Ok(Report {
        source: checkpoint.source.clone(),
        weights: checkpoint.summary().weight_bytes(),
        run,
        cpu: of_cpu,
        dense: options.dense,
        kv_type: options.kv_type,
        device,
        load,
        from_disk,
        first_token,
        memory: peak.most(),
        peak_rss,
        bandwidth,
        routing: args.routing,
        repetitions: args.repetitions,
        results,
    })
}
