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

use super::args::{MachineArgs, ModelArgs, positive, whole};
use super::interrupt::Interrupt;
use super::{Exit, config, model, print};
use crate::checkpoint::Checkpoint;
use crate::engine::{self, Cancel};
use crate::session::memory::{self, Machine};
use crate::session::{DeviceChoice, LoadOptions};
use crate::settings::Settings;
use cost::Cost;
use measure::{Bench, Kind, Peak, Test};
use plan::{Asked, Plan};
use progress::Progress;
use report::{Measured, Report, Statistics};
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
               and after the tests; reached is the share of it
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
    match text.parse() {
        Ok(number) if (1..=MOST_REPETITIONS).contains(&number) => Ok(number),
        _ => Err(format!(
            "expected a whole number from 1 to {MOST_REPETITIONS}"
        )),
    }
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
    options.device = check_memory(&checkpoint, &settings, &plan, &progress)?;
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
    plan: &Plan,
    progress: &Progress,
) -> anyhow::Result<DeviceChoice> {
    let needed = memory::Plan::new(
        &checkpoint.config,
        checkpoint.summary().weight_bytes(),
        settings.kv_type,
        settings.dense,
        plan.positions(),
    );
    let (device, note) = model::device(settings.device, needed.needed())?;
    if let Some(note) = note {
        progress.note("note:", &note);
    }
    if let Some(machine) = Machine::here().filter(|_| !device.is_gpu())
        && let Some(warning) = model::check_memory(&needed, machine)?
    {
        progress.note("warning:", &warning);
    }
    Ok(device)
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
    let in_use = options.in_use()?;
    let cost = Cost::new(checkpoint, &in_use);
    progress.say("measuring the memory bandwidth");
    let mut bandwidth = vec![bandwidth::measure(in_use.threads)];

    progress.say("loading");
    let peak = Peak::default();
    let read_before = memory::read_from_disk();
    let loading = Instant::now();
    let model = peak.watch(|| engine::load(checkpoint, options))?;
    let load = loading.elapsed();
    let cancel = Cancel::new();
    interrupt.arm(&cancel);

    let mut bench = Bench {
        tokens: tokens::token_ids(args.routing, model.vocab_size(), plan.positions()),
        model,
        held: 0,
        logits: Vec::new(),
        repetitions: args.repetitions,
        cancel: &cancel,
        peak: &peak,
        progress,
    };
    progress.say("first token");
    let short = SHORT.min(plan.positions());
    let first_token = bench.first_token(short)?.map(|time| (time, short));
    let from_disk = read_before
        .zip(memory::read_from_disk())
        .map(|(before, after)| after.saturating_sub(before));

    let mut results = Vec::new();
    for test in plan.tests() {
        let times = bench.run(test)?;
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
    drop(bench);
    if !cancel.is_cancelled() {
        progress.say("measuring the memory bandwidth");
        bandwidth.push(bandwidth::measure(in_use.threads));
    }
    Ok(Report {
        source: checkpoint.source.clone(),
        weights: checkpoint.summary().weight_bytes(),
        in_use,
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
