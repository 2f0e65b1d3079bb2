//! The figures, for people, for pages and for programs.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::measure::{Kind, Most, PerToken, Test};
use super::tokens::Routing;
use crate::engine::{Compute, Dense, InUse, KvType};
use crate::hub::decimal_bytes;

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// The model.
    pub source: String,
    /// Bytes of its weights.
    pub weights: u64,
    /// What it ran on and with.
    pub run: String,
    /// The same as `--device` takes it.
    pub name: String,
    /// What a CPU ran with, also beside a device.
    pub cpu: Option<InUse>,
    /// How dense weights were kept.
    pub dense: Dense,
    /// How the history was stored.
    pub kv_type: KvType,
    /// What another device was used for.
    pub device: Option<OnDevice>,
    /// From the start of loading to the model being ready, without the vocabulary.
    pub load: Duration,
    /// Bytes that came from the disk until the first token, where the system tells.
    pub from_disk: Option<u64>,
    /// The time to read a short prompt right after, and its tokens.
    pub first_token: Option<(Duration, usize)>,
    /// Where the system tells.
    pub memory: Option<Most>,
    /// The most memory the process held, as the system counted it.
    pub peak_rss: Option<u64>,
    /// Bytes a second of the memory that the model is in, before the tests and after them.
    pub bandwidth: Vec<f64>,
    /// What the CPU does beside a device.
    pub split: Option<Split>,
    /// A signal ended it, and there may be less than was asked for.
    pub interrupted: bool,
    /// How the tokens were drawn.
    pub routing: Routing,
    /// Timed runs of a test.
    pub repetitions: usize,
    /// In the order in which they were run.
    pub results: Vec<Measured>,
}

/// The figures of a device other than the CPU.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice {
    /// What a decoded token cost.
    pub per_token: Option<PerToken>,
    /// Bytes of its memory that were taken at the end.
    pub memory: u64,
}

/// A model of which the experts of some layers stay on the CPU.
#[derive(Clone, Debug)]
pub struct Split {
    /// Layers whose experts are on the device.
    pub gpu_layers: usize,
    /// Bytes of a decoded token that the CPU reads.
    pub reads: f64,
    /// Bytes a second that it can, before the tests and after them.
    pub bandwidth: Vec<f64>,
}

/// A test and what came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was done.
    pub test: Test,
    /// Tokens a second.
    pub rate: Statistics,
    /// Bytes that a token must read (decode) or operations that it takes (prefill).
    pub cost: f64,
}

/// A median, and how far the values lie from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// The middle one, or between the two middle ones.
    pub median: f64,
    /// The largest distance of a value from the median; `None` of a single value.
    pub spread: Option<f64>,
}

impl Statistics {
    /// Of `values`; `None` where there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (last, n) = (values.last()?, values.len());
        let median = f64::midpoint(values[(n - 1) / 2], values[n / 2]);
        Some(Self {
            median,
            spread: (n > 1).then(|| (median - values[0]).max(last - median)),
        })
    }
}

/// `--json`
#[derive(Debug, Serialize)]
struct Json<'a> {
    tests: Vec<JsonTest>,
    interrupted: bool,
    device: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_layers: Option<usize>,
    bandwidth_bytes_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_bandwidth_bytes_per_second: Option<f64>,
    load_seconds: f64,
    peak_rss_bytes: Option<u64>,
    anonymous_bytes: Option<u64>,
    threads: Option<usize>,
    kernels: Option<&'a str>,
    compute: &'a str,
    dense: &'a str,
    kv_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    launches_per_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crossed_bytes_per_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_memory_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct JsonTest {
    kind: Kind,
    tokens: usize,
    depth: usize,
    tokens_per_second: f64,
    spread: Option<f64>,
    ceiling_tokens_per_second: Option<f64>,
}

/// Columns of the table: what is asked, what was measured, what it is held against.
const COLUMNS: [&str; 8] = [
    "test",
    "depth",
    "tokens/s",
    "spread",
    "reads/token",
    "ceiling",
    "reached",
    "arithmetic",
];

type Row = [String; COLUMNS.len()];

impl Report {
    /// Tokens a second that memory allows. Where a part is read by the CPU, that takes its time before or after the rest.
    fn ceiling(&self, result: &Measured) -> Option<f64> {
        let (by_host, on_host) = match &self.split {
            Some(split) => (split.reads, split.reads / higher(&split.bandwidth)),
            None => (0.0, 0.0),
        };
        let seconds = (result.cost - by_host) / higher(&self.bandwidth) + on_host;
        (result.test.kind == Kind::Decode).then_some(1.0 / seconds)
    }

    /// The figures as one object.
    ///
    /// # Errors
    /// None that these figures could have.
    pub fn json(&self) -> serde_json::Result<String> {
        let tests = self.results.iter().map(|result| JsonTest {
            kind: result.test.kind,
            tokens: result.test.tokens,
            depth: result.test.depth,
            tokens_per_second: result.rate.median,
            spread: result.rate.spread,
            ceiling_tokens_per_second: self.ceiling(result),
        });
        let per_token = self.device.and_then(|device| device.per_token);
        let cpu = self.cpu.as_ref();
        let mut text = serde_json::to_string_pretty(&Json {
            tests: tests.collect(),
            interrupted: self.interrupted,
            device: &self.name,
            gpu_layers: self.split.as_ref().map(|split| split.gpu_layers),
            bandwidth_bytes_per_second: higher(&self.bandwidth),
            host_bandwidth_bytes_per_second: self
                .split
                .as_ref()
                .map(|split| higher(&split.bandwidth)),
            load_seconds: self.load.as_secs_f64(),
            peak_rss_bytes: self.memory.map(|most| most.total).or(self.peak_rss),
            anonymous_bytes: self.memory.map(|most| most.anonymous),
            threads: cpu.map(|cpu| cpu.threads),
            kernels: cpu.map(|cpu| cpu.kernels),
            compute: cpu.map_or(Compute::F32, |cpu| cpu.compute).name(),
            dense: self.dense.name(),
            kv_type: self.kv_type.name(),
            launches_per_token: per_token.map(|token| token.launches),
            crossed_bytes_per_token: per_token.map(|token| token.crossed),
            device_memory_bytes: self.device.map(|device| device.memory),
        })?;
        text.push('\n');
        Ok(text)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for (name, value) in self.facts() {
            let _ = writeln!(text, "{name:<12}{value}");
        }
        let rows = self.rows();
        let width = |column: usize| {
            let cells = rows.iter().map(|row: &Row| row[column].len());
            cells.chain([COLUMNS[column].len()]).max().unwrap_or(0)
        };
        let widths: [usize; COLUMNS.len()] = std::array::from_fn(width);
        text.push('\n');
        for row in [COLUMNS.map(str::to_owned)].iter().chain(&rows) {
            let mut line = format!("{:<width$}", row[0], width = widths[0]);
            for (cell, width) in row.iter().zip(widths).skip(1) {
                let _ = write!(line, "  {cell:>width$}");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text + "\n" + &self.notes()
    }

    /// For a page.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.facts() {
            let _ = writeln!(text, "* {name}: {value}");
        }
        let rule: Row =
            std::array::from_fn(|column| if column == 0 { "---" } else { "---:" }.to_owned());
        text.push('\n');
        for row in [COLUMNS.map(str::to_owned), rule]
            .iter()
            .chain(&self.rows())
        {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text + "\n" + &self.notes()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let disk = match self.from_disk {
            None => String::new(),
            Some(0) => " (warm: nothing came from the disk)".to_owned(),
            Some(bytes) => {
                // Some pages of the program itself may have been on the disk.
                let start = if bytes > self.weights / 100 {
                    "cold"
                } else {
                    "warm"
                };
                let bytes = decimal_bytes(bytes);
                format!(" ({start}: {bytes} came from the disk until the first token)")
            }
        };
        let first = match self.first_token {
            Some((time, tokens)) => {
                let plural = if tokens == 1 { "" } else { "s" };
                format!(
                    ", then {:.2} s to the first token after a prompt of {tokens} token{plural}",
                    time.as_secs_f64()
                )
            }
            None => String::new(),
        };
        let memory = match (self.memory, self.peak_rss) {
            (Some(most), _) => format!(
                "at most {}: {} mapped, {} anonymous",
                decimal_bytes(most.total),
                decimal_bytes(most.mapped),
                decimal_bytes(most.anonymous)
            ),
            (None, Some(peak)) => format!(
                "at most {}; what of it is mapped this system does not tell",
                decimal_bytes(peak)
            ),
            (None, None) => "this system does not tell".to_owned(),
        };
        let bandwidth = match &self.split {
            Some(split) => format!(
                "device {}; CPU {}",
                readings(&self.bandwidth),
                readings(&split.bandwidth)
            ),
            None => readings(&self.bandwidth),
        };
        let mut facts = vec![
            ("model", self.source.clone()),
            ("run", self.run.clone()),
            (
                "load",
                format!("{:.2} s{disk}{first}", self.load.as_secs_f64()),
            ),
            ("memory", memory),
            ("bandwidth", bandwidth),
        ];
        if let Some(device) = &self.device {
            let mut text = format!("{} of its memory", decimal_bytes(device.memory));
            if let Some(PerToken { launches, crossed }) = device.per_token {
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    "; {launches:.0} launches and {crossed:.0} bytes to and fro for a decoded token"
                );
            }
            facts.push(("device", text));
        }
        facts
    }

    fn rows(&self) -> Vec<Row> {
        let row = |result: &Measured| {
            let Test {
                kind,
                tokens,
                depth,
            } = result.test;
            let Statistics { median, spread } = result.rate;
            let none = String::new;
            let (reads, ceiling, reached, arithmetic) = match self.ceiling(result) {
                Some(ceiling) => (
                    match &self.split {
                        Some(split) => {
                            format!(
                                "{} + {}",
                                reads(result.cost - split.reads),
                                reads(split.reads)
                            )
                        }
                        None => reads(result.cost),
                    },
                    rate(ceiling, ceiling),
                    format!("{:.0} %", 100.0 * median / ceiling),
                    none(),
                ),
                None => (none(), none(), none(), operations(median * result.cost)),
            };
            [
                format!("{} {tokens}", kind.name()),
                depth.to_string(),
                rate(median, median),
                spread.map_or_else(String::new, |spread| rate(spread, median)),
                reads,
                ceiling,
                reached,
                arithmetic,
            ]
        };
        self.results.iter().map(row).collect()
    }

    fn notes(&self) -> String {
        let (routing, repetitions) = (self.routing.name(), self.repetitions);
        let times = if repetitions == 1 {
            "One run".to_owned()
        } else {
            format!("Median of up to {repetitions} runs")
        };
        let processor = if self.device.is_some() {
            "device"
        } else {
            "processor"
        };
        let interrupted = if self.interrupted {
            "Stopped: these are the figures until then.\n"
        } else {
            ""
        };
        let split = if self.split.is_some() {
            " Experts on the CPU\nread what stands after the +, from memory of its own and in their own time."
        } else {
            ""
        };
        format!(
            "{interrupted}{times} after a warm-up; spread is the furthest from the median. Random token ids ({routing});\n\
             tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a\n\
             token must read; models that fit into the cache of the {processor} pass it.{split}\n"
        )
    }
}

/// The higher of the readings of a bandwidth, so that no ceiling is too low.
fn higher(readings: &[f64]) -> f64 {
    readings.iter().copied().fold(0.0, f64::max)
}

fn readings(bandwidth: &[f64]) -> String {
    let readings: Vec<String> = bandwidth.iter().map(|rate| gigabytes(*rate)).collect();
    match &readings[..] {
        [before, after] => format!("{before} before, {after} after"),
        readings => format!("{} before", readings.join("")),
    }
}

/// With as many digits as are worth showing of `scale`.
fn rate(rate: f64, scale: f64) -> String {
    let digits = if scale < 1000.0 { 2 } else { 0 };
    format!("{rate:.digits$}")
}

fn reads(bytes: f64) -> String {
    if bytes < 1e9 {
        decimal_bytes(bytes as u64)
    } else {
        format!("{:.2} GB", bytes / 1e9)
    }
}

fn gigabytes(bytes: f64) -> String {
    format!("{:.1} GB/s", bytes / 1e9)
}

fn operations(per_second: f64) -> String {
    format!("{:.1} Gop/s", per_second / 1e9)
}

#[cfg(test)]
mod tests;
