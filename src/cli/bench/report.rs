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
    /// What a CPU ran with.
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
    /// Bytes a second, before the tests and after them.
    pub bandwidth: Vec<f64>,
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
    /// The largest distance of a value from the median.
    pub spread: f64,
}

impl Statistics {
    /// Of `values`; `None` where there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (last, n) = (values.last()?, values.len());
        let median = f64::midpoint(values[(n - 1) / 2], values[n / 2]);
        Some(Self {
            median,
            spread: (median - values[0]).max(last - median),
        })
    }
}

/// `--json`
#[derive(Debug, Serialize)]
struct Json<'a> {
    tests: Vec<JsonTest>,
    bandwidth_bytes_per_second: f64,
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
    spread: f64,
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
    /// The higher of the readings, so that no ceiling is too low.
    fn bandwidth(&self) -> f64 {
        self.bandwidth.iter().copied().fold(0.0, f64::max)
    }

    /// Tokens a second that memory allows.
    fn ceiling(&self, result: &Measured) -> Option<f64> {
        (result.test.kind == Kind::Decode).then(|| self.bandwidth() / result.cost)
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
            bandwidth_bytes_per_second: self.bandwidth(),
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
        let readings = self.bandwidth.iter().map(|reading| gigabytes(*reading));
        let bandwidth = match &readings.collect::<Vec<_>>()[..] {
            [before, after] => format!("{before} before, {after} after"),
            readings => format!("{} before", readings.join("")),
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
                    reads(result.cost),
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
                rate(spread, median),
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
        format!(
            "{times} after a warm-up; spread is the furthest from the median. Random token ids ({routing});\n\
             tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a\n\
             token must read; models that fit into the cache of the {processor} pass it.\n"
        )
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
mod tests {
    use super::*;

    const CPU: InUse = InUse {
        kernels: "avx512-bf16",
        compute: Compute::Int8,
        dense: Dense::Q8,
        kv_type: KvType::Bf16,
        threads: 2,
    };

    fn report() -> Report {
        let result = |kind, tokens, depth, median, spread, cost| Measured {
            test: Test {
                kind,
                tokens,
                depth,
            },
            rate: Statistics { median, spread },
            cost,
        };
        Report {
            source: "models/20b".to_owned(),
            weights: 13_761_264_768,
            run: CPU.to_string(),
            cpu: Some(CPU),
            dense: Dense::Q8,
            kv_type: KvType::Bf16,
            device: None,
            load: Duration::from_millis(1320),
            from_disk: Some(0),
            first_token: Some((Duration::from_millis(450), 16)),
            memory: Some(Most {
                total: 14_100_000_000,
                anonymous: 2_200_000_000,
                mapped: 11_900_000_000,
            }),
            peak_rss: Some(15_000_000_000),
            bandwidth: vec![50e9, 48e9],
            routing: Routing::Uniform,
            repetitions: 3,
            results: vec![
                result(Kind::Prefill, 512, 0, 72.5, 0.25, 6e9),
                result(Kind::Decode, 64, 2048, 15.0, 0.5, 2.5e9),
            ],
        }
    }

    #[test]
    fn the_table_sets_decode_against_memory_and_prefill_against_arithmetic() {
        insta::assert_snapshot!(report().text(), @r#"
        model       models/20b
        run         cpu (candle, avx512-bf16, compute int8, dense q8, kv bf16, 2 threads)
        load        1.32 s (warm: nothing came from the disk), then 0.45 s to the first token after a prompt of 16 tokens
        memory      at most 14.1 GB: 11.9 GB mapped, 2.2 GB anonymous
        bandwidth   50.0 GB/s before, 48.0 GB/s after

        test         depth  tokens/s  spread  reads/token  ceiling  reached   arithmetic
        prefill 512      0     72.50    0.25                                 435.0 Gop/s
        decode 64     2048     15.00    0.50      2.50 GB    20.00     75 %

        Median of up to 3 runs after a warm-up; spread is the furthest from the median. Random token ids (uniform);
        tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
        token must read; models that fit into the cache of the processor pass it.
        "#);
    }

    #[test]
    fn a_device_has_its_own_figures_and_none_of_the_processor() {
        let report = Report {
            run: "cuda:0 (Card), compute f32, dense q8, kv bf16".to_owned(),
            cpu: None,
            device: Some(OnDevice {
                per_token: Some(PerToken {
                    launches: 243.0,
                    crossed: 16.0,
                }),
                memory: 14_000_000_000,
            }),
            bandwidth: vec![4000e9, 4100e9],
            results: Vec::new(),
            ..report()
        };
        insta::assert_snapshot!(report.text(), @r#"
        model       models/20b
        run         cuda:0 (Card), compute f32, dense q8, kv bf16
        load        1.32 s (warm: nothing came from the disk), then 0.45 s to the first token after a prompt of 16 tokens
        memory      at most 14.1 GB: 11.9 GB mapped, 2.2 GB anonymous
        bandwidth   4000.0 GB/s before, 4100.0 GB/s after
        device      14.0 GB of its memory; 243 launches and 16 bytes to and fro for a decoded token

        test  depth  tokens/s  spread  reads/token  ceiling  reached  arithmetic

        Median of up to 3 runs after a warm-up; spread is the furthest from the median. Random token ids (uniform);
        tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
        token must read; models that fit into the cache of the device pass it.
        "#);
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(json["threads"], serde_json::Value::Null);
        assert_eq!(json["kernels"], serde_json::Value::Null);
        assert_eq!(json["compute"], "f32");
        assert_eq!(json["launches_per_token"], 243.0);
        assert_eq!(json["crossed_bytes_per_token"], 16.0);
        assert_eq!(json["device_memory_bytes"], 14_000_000_000_u64);
    }

    #[test]
    fn what_is_not_known_is_left_out_or_said() {
        let report = Report {
            from_disk: Some(12_600_000_000),
            first_token: None,
            memory: None,
            bandwidth: vec![50e9],
            repetitions: 1,
            results: Vec::new(),
            ..report()
        };
        insta::assert_snapshot!(report.text(), @r#"
        model       models/20b
        run         cpu (candle, avx512-bf16, compute int8, dense q8, kv bf16, 2 threads)
        load        1.32 s (cold: 12.6 GB came from the disk until the first token)
        memory      at most 15.0 GB; what of it is mapped this system does not tell
        bandwidth   50.0 GB/s before

        test  depth  tokens/s  spread  reads/token  ceiling  reached  arithmetic

        One run after a warm-up; spread is the furthest from the median. Random token ids (uniform);
        tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
        token must read; models that fit into the cache of the processor pass it.
        "#);
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(json["peak_rss_bytes"], 15_000_000_000_u64);
        assert_eq!(json["anonymous_bytes"], serde_json::Value::Null);
    }

    #[test]
    fn markdown_is_a_list_and_a_table() {
        insta::assert_snapshot!(report().markdown(), @r#"
        * model: models/20b
        * run: cpu (candle, avx512-bf16, compute int8, dense q8, kv bf16, 2 threads)
        * load: 1.32 s (warm: nothing came from the disk), then 0.45 s to the first token after a prompt of 16 tokens
        * memory: at most 14.1 GB: 11.9 GB mapped, 2.2 GB anonymous
        * bandwidth: 50.0 GB/s before, 48.0 GB/s after

        | test | depth | tokens/s | spread | reads/token | ceiling | reached | arithmetic |
        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | prefill 512 | 0 | 72.50 | 0.25 |  |  |  | 435.0 Gop/s |
        | decode 64 | 2048 | 15.00 | 0.50 | 2.50 GB | 20.00 | 75 % |  |

        Median of up to 3 runs after a warm-up; spread is the furthest from the median. Random token ids (uniform);
        tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
        token must read; models that fit into the cache of the processor pass it.
        "#);
    }

    #[test]
    fn json_has_medians_spreads_and_ceilings() {
        insta::assert_snapshot!(report().json().unwrap(), @r#"
        {
          "tests": [
            {
              "kind": "prefill",
              "tokens": 512,
              "depth": 0,
              "tokens_per_second": 72.5,
              "spread": 0.25,
              "ceiling_tokens_per_second": null
            },
            {
              "kind": "decode",
              "tokens": 64,
              "depth": 2048,
              "tokens_per_second": 15.0,
              "spread": 0.5,
              "ceiling_tokens_per_second": 20.0
            }
          ],
          "bandwidth_bytes_per_second": 50000000000.0,
          "load_seconds": 1.32,
          "peak_rss_bytes": 14100000000,
          "anonymous_bytes": 2200000000,
          "threads": 2,
          "kernels": "avx512-bf16",
          "compute": "int8",
          "dense": "q8",
          "kv_type": "bf16"
        }
        "#);
    }

    #[test]
    fn the_median_is_the_middle_and_the_spread_the_furthest_from_it() {
        let of = |values: &[f64]| Statistics::of(values.to_vec());
        let expected = |median, spread| Some(Statistics { median, spread });
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7.0]), expected(7.0, 0.0));
        assert_eq!(of(&[9.0, 1.0, 8.0]), expected(8.0, 7.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 5.0]), expected(3.0, 2.0));
    }
}
