//! The figures and the result of a run, for people and for programs.

use std::time::Duration;

use serde::Serialize;

use crate::hub::decimal_bytes;
use crate::session::{Completion, Finish, Stats, ToolCall, Turn, memory};

/// Everything known about one run.
#[derive(Debug)]
pub struct Figures {
    /// From the start of loading to the model being ready.
    pub load: Duration,
    /// What it ran on.
    pub device: String,
    /// Of the generation.
    pub stats: Stats,
    /// Why it ended.
    pub finish: Finish,
    /// The most memory the process held.
    pub peak_rss: Option<u64>,
}

impl Figures {
    /// Prompt tokens read per second; nothing where the reading was broken off.
    fn prefill_rate(&self) -> Option<f64> {
        self.stats.time_to_first_token?;
        self.stats.prefill_tokens_per_second()
    }

    /// The figures as of now.
    pub fn new(load: Duration, device: String, stats: Stats, finish: Finish) -> Self {
        Self {
            load,
            device,
            stats,
            finish,
            peak_rss: memory::peak_rss(),
        }
    }

    /// A few lines for people.
    pub fn text(&self) -> String {
        let stats = &self.stats;
        let rate = |rate: Option<f64>| match rate {
            Some(rate) => format!(" at {rate:.1} tok/s"),
            None => String::new(),
        };
        let read = match stats.time_to_first_token {
            Some(_) => format!(
                "{} read{}",
                stats.prompt_tokens.saturating_sub(stats.cached_tokens),
                rate(self.prefill_rate())
            ),
            None => "not read to its end".to_owned(),
        };
        let first = stats
            .time_to_first_token
            .map(|time| format!(", first token after {:.2} s", time.as_secs_f64()))
            .unwrap_or_default();
        let peak = self
            .peak_rss
            .map(|peak| format!(", peak memory {}", decimal_bytes(peak)))
            .unwrap_or_default();
        format!(
            "prompt   {}: {} reused, {read}\n\
             output   {}{} ({})\n\
             time     load {:.2} s{first}{peak}\n\
             run      seed {}, {}\n",
            count(stats.prompt_tokens),
            stats.cached_tokens,
            count(stats.generated_tokens),
            rate(stats.decode_tokens_per_second()),
            self.finish.name(),
            self.load.as_secs_f64(),
            stats.seed,
            self.device,
        )
    }
}

/// `1 token`, `2 tokens`.
pub fn count(tokens: usize) -> String {
    match tokens {
        1 => "1 token".to_owned(),
        _ => format!("{tokens} tokens"),
    }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    text: String,
    thinking: String,
    tool_calls: Vec<Call>,
    finish_reason: &'static str,
    token_ids: Vec<u32>,
    stats: StatsReport,
}

#[derive(Debug, Serialize)]
struct StatsReport {
    load_seconds: f64,
    prompt_tokens: usize,
    cached_tokens: usize,
    prefill_tokens_per_second: Option<f64>,
    ttft_seconds: Option<f64>,
    generated_tokens: usize,
    decode_tokens_per_second: Option<f64>,
    peak_rss_bytes: Option<u64>,
    seed: u64,
    device: String,
}

/// A tool call as it is printed. Arguments that are not JSON are given as the text they are.
#[derive(Debug, Serialize)]
pub struct Call {
    name: String,
    arguments: serde_json::Value,
}

impl Report {
    /// Of a turn.
    pub fn of_turn(turn: &Turn, figures: &Figures) -> Self {
        Self {
            text: turn.answer(),
            thinking: turn.thinking(),
            tool_calls: turn.tool_calls().into_iter().map(Call::from).collect(),
            finish_reason: figures.finish.name(),
            token_ids: turn.token_ids.clone(),
            stats: StatsReport::from(figures),
        }
    }

    /// Of a completion without harmony.
    pub fn of_completion(completion: &Completion, figures: &Figures) -> Self {
        Self {
            text: completion.text.clone(),
            thinking: String::new(),
            tool_calls: Vec::new(),
            finish_reason: figures.finish.name(),
            token_ids: completion.token_ids.clone(),
            stats: StatsReport::from(figures),
        }
    }
}

impl From<&Figures> for StatsReport {
    fn from(figures: &Figures) -> Self {
        let stats = &figures.stats;
        Self {
            load_seconds: figures.load.as_secs_f64(),
            prompt_tokens: stats.prompt_tokens,
            cached_tokens: stats.cached_tokens,
            prefill_tokens_per_second: figures.prefill_rate(),
            ttft_seconds: stats.time_to_first_token.map(|time| time.as_secs_f64()),
            generated_tokens: stats.generated_tokens,
            decode_tokens_per_second: stats.decode_tokens_per_second(),
            peak_rss_bytes: figures.peak_rss,
            seed: stats.seed,
            device: figures.device.clone(),
        }
    }
}

impl From<ToolCall> for Call {
    fn from(call: ToolCall) -> Self {
        Self {
            name: call.name,
            arguments: call
                .arguments
                .unwrap_or_else(|invalid| serde_json::Value::String(invalid.arguments)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_keep_load_prefill_and_decode_apart() {
        let stats = Stats {
            prompt_tokens: 1100,
            cached_tokens: 100,
            prefill: Duration::from_secs(10),
            time_to_first_token: Some(Duration::from_millis(10_050)),
            generated_tokens: 11,
            decode: Duration::from_millis(100),
            seed: 7,
        };
        let figures = Figures {
            load: Duration::from_millis(1500),
            device: "cpu (portable, 1 thread)".into(),
            stats,
            finish: Finish::Stop,
            peak_rss: Some(45_300_000),
        };
        // 11 tokens 10 ms apart are 100 tok/s: N tokens have N - 1 intervals between them.
        insta::assert_snapshot!(figures.text(), @r"
        prompt   1100 tokens: 100 reused, 1000 read at 100.0 tok/s
        output   11 tokens at 100.0 tok/s (stop)
        time     load 1.50 s, first token after 10.05 s, peak memory 45.3 MB
        run      seed 7, cpu (portable, 1 thread)
        ");
        let nothing = Figures {
            stats: Stats::default(),
            peak_rss: None,
            finish: Finish::Cancelled,
            ..figures
        };
        insta::assert_snapshot!(nothing.text(), @r"
        prompt   0 tokens: 0 reused, not read to its end
        output   0 tokens (cancelled)
        time     load 1.50 s
        run      seed 0, cpu (portable, 1 thread)
        ");
    }
}
