//! `gptoss bench`: how fast a model reads and makes tokens here, and how fast this machine would allow.

mod bandwidth;
mod cost;
mod measure;
mod plan;
mod progress;
mod report;
mod tokens;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::args::{MachineArgs, ModelArgs, expected, positive, whole};
use super::interrupt::Interrupt;
use super::{Exit, config, model, print};
use crate::checkpoint::Checkpoint;
use crate::cli::progress::of_load;
use crate::engine::{self, Cancel, InUse};
use crate::session::memory::{self, DevicePlan, Machine};
use crate::session::{self, LoadOptions};
use crate::settings::{self, Settings};
use cost::Cost;
use measure::{Bench, Kind, Peak, Test};
use plan::{Asked, Plan};
use progress::Progress;
use report::{Measured, OnDevice, Report, Split, Statistics};
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
               and after the tests, on a GPU by copying within its memory; reached is the share of it.
               What experts on the CPU read is counted at its bandwidth, and stands after a +
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
    let job = Job {
        args,
        checkpoint: &checkpoint,
        options: &options,
        plan: &plan,
        progress: &progress,
        interrupt: &interrupt,
        gpu_memory: settings.gpu_memory,
    };
    let mut report = job.measure()?;
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

/// What is measured, and on what.
struct Job<'a> {
    args: &'a Args,
    checkpoint: &'a Checkpoint,
    options: &'a LoadOptions,
    plan: &'a Plan,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
    /// The most bytes of a GPU's memory to take.
    gpu_memory: Option<u64>,
}

/// Bytes a second of the device's memory and of the CPU's, each where it computes.
#[derive(Default)]
struct Bandwidths {
    device: Vec<f64>,
    host: Vec<f64>,
}

impl Job<'_> {
    /// Bandwidth, load, first token, the tests, bandwidth: in this order, and what a signal leaves of it.
    fn measure(&self) -> anyhow::Result<Report> {
        let Self {
            args,
            checkpoint,
            options,
            plan,
            progress,
            ..
        } = self;
        let on_device = options.device.is_gpu();
        let cost = Cost::new(checkpoint, options, on_device);
        let split = cost.host_bytes() > 0;
        let of_cpu = (split || !on_device)
            .then(|| options.in_use())
            .transpose()?;
        let cancel = Cancel::new();
        let mut bandwidths = Bandwidths::default();
        // The buffers need the room that the model has afterwards.
        let opening = self.read_bandwidths(&mut bandwidths, of_cpu, &cancel)?;

        progress.say("loading");
        let peak = Arc::new(Peak::default());
        let read_before = memory::read_from_disk();
        let loading = Instant::now();
        let look = |step| progress.say(&format!("loading{}", of_load(step)));
        let model = options
            .progress
            .watched(look, || peak.watch(|| engine::load(checkpoint, options)))
            .map_err(session::Error::from)?;
        let load = opening + loading.elapsed();
        self.interrupt.arm(&cancel);

        let (run, figures) = (model.describe(), model.device_figures());
        let bench = Bench {
            tokens: tokens::token_ids(args.routing, model.vocab_size(), plan.positions()),
            model,
            held: 0,
            logits: Vec::new(),
            repetitions: args.repetitions,
            cancel: cancel.clone(),
            peak: Arc::clone(&peak),
            progress: (*progress).clone(),
        };
        progress.say("first token");
        let (short, tests) = (SHORT.min(plan.positions()), plan.tests());
        let outcome = worker::run(bench, short, &tests).map_err(session::Error::from)?;
        // The buffers of the second reading are no memory of the model.
        let peak_rss = memory::peak_rss();
        drop(outcome.bench);
        if !cancel.is_cancelled() {
            self.read_bandwidths(&mut bandwidths, of_cpu, &cancel)?;
        }
        let Bandwidths { device, host } = bandwidths;
        let (bandwidth, host) = if on_device {
            (device, host)
        } else {
            (host, Vec::new())
        };
        Ok(Report {
            source: checkpoint.source.clone(),
            weights: checkpoint.summary().weight_bytes(),
            run,
            name: options.device.to_string(),
            cpu: of_cpu,
            dense: options.dense,
            kv_type: options.kv_type,
            device: figures.map(|figures| OnDevice {
                per_token: outcome.per_token,
                memory: outcome.memory.unwrap_or(figures.memory),
            }),
            load,
            from_disk: read_before
                .zip(outcome.from_disk)
                .map(|(before, after)| after.saturating_sub(before)),
            first_token: outcome.first_token.map(|time| (time, short)),
            memory: peak.most(),
            peak_rss,
            bandwidth,
            split: split.then(|| Split {
                gpu_layers: options.gpu_layers.unwrap_or(0),
                reads: cost.host_bytes() as f64,
                bandwidth: host,
            }),
            interrupted: cancel.is_cancelled(),
            routing: args.routing,
            repetitions: args.repetitions,
            results: results(&cost, &tests, &outcome.times),
        })
    }

    /// Reads how fast the memories are that the model is in, and gives how long a device took to open. A stop in between
    /// leaves the rest out.
    fn read_bandwidths(
        &self,
        bandwidths: &mut Bandwidths,
        of_cpu: Option<InUse>,
        cancel: &Cancel,
    ) -> anyhow::Result<Duration> {
        self.progress.say("measuring the memory bandwidth");
        let of_device = engine::device_bandwidth(self.options, self.gpu_memory)
            .map_err(session::Error::from)?;
        bandwidths
            .device
            .extend(of_device.map(|device| device.bytes_per_second));
        if let Some(in_use) = of_cpu
            && !cancel.is_cancelled()
        {
            bandwidths.host.push(bandwidth::measure(in_use.threads));
        }
        Ok(of_device.map_or(Duration::ZERO, |device| device.opening))
    }
}

/// The tests of which there are times, with what they came to.
fn results(cost: &Cost, tests: &[Test], times: &[Vec<Duration>]) -> Vec<Measured> {
    let measured = |(test, times): (&Test, &Vec<Duration>)| {
        let rates = times
            .iter()
            .map(|time| test.tokens as f64 / time.as_secs_f64());
        Some(Measured {
            test: *test,
            rate: Statistics::of(rates.collect())?,
            cost: match test.kind {
                Kind::Decode => cost.decode_bytes(test.depth, test.tokens),
                Kind::Prefill => {
                    cost.prefill_operations(test.depth, test.tokens) / test.tokens as f64
                }
            },
        })
    };
    tests.iter().zip(times).filter_map(measured).collect()
}
