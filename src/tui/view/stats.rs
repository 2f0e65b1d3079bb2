//! Figures and settings in words.

use super::figures::{count, rate, seconds};
use crate::session::Sampling;
use crate::store::TurnRecord;
use crate::tui::app::App;

/// The figures of a turn that the status line shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    /// Tokens per second.
    pub prefill: Option<f64>,
    pub decode: Option<f64>,
    pub first: Option<std::time::Duration>,
    pub reused: usize,
}

impl Figures {
    pub fn of(record: &TurnRecord) -> Self {
        let per_second = |tokens: usize, time: std::time::Duration| {
            (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
        };
        let read = record.prompt_tokens.saturating_sub(record.cached_tokens);
        Self {
            prefill: per_second(read, record.prefill),
            decode: per_second(record.generated_tokens.saturating_sub(1), record.decode),
            first: record.time_to_first_token,
            reused: record.cached_tokens,
        }
    }
}

/// All there is to say.
pub(crate) fn text(app: &App) -> String {
    let mut lines = vec![model(app)];
    if let Some(record) = app.last_turn() {
        let figures = Figures::of(record);
        let speed = |speed: Option<f64>| {
            speed.map_or_else(String::new, |speed| format!(" at {} tok/s", rate(speed)))
        };
        lines.push(format!(
            "prompt: {} tokens, {} reused, the others read in {}{}",
            count(record.prompt_tokens),
            count(record.cached_tokens),
            seconds(record.prefill),
            speed(figures.prefill)
        ));
        lines.push(format!(
            "answer: {} tokens in {}{}",
            count(record.generated_tokens),
            seconds(record.decode),
            speed(figures.decode)
        ));
        if let Some(first) = figures.first {
            lines.push(format!("first token after {}", seconds(first)));
        }
    }
    lines.push(format!("reasoning: {}", app.setup.reasoning));
    lines.push(values(&app.sampling));
    lines.push(seed(app));
    lines.push(max_tokens(app));
    if let Some((branch, of)) = app.branch {
        lines.push(format!("branch {branch} of {of}"));
    }
    lines.join("\n")
}

pub(crate) fn model(app: &App) -> String {
    match &app.model {
        Some(model) => format!(
            "model: {} on {}, loaded in {}; context: {} of {} tokens",
            model.name,
            model.device,
            seconds(model.load_time),
            count(app.context_used()),
            count(model.context)
        ),
        None => format!("model: {}, not loaded", app.wanted),
    }
}

pub(crate) fn sampling(sampling: &Sampling) -> String {
    let seed = sampling
        .seed
        .map_or_else(|| "off".to_owned(), |seed| seed.to_string());
    format!("{}, seed {seed}", values(sampling))
}

fn values(sampling: &Sampling) -> String {
    format!(
        "temperature {}, top-k {}, top-p {}, min-p {}, repetition-penalty {}",
        sampling.temperature,
        sampling.top_k,
        sampling.top_p,
        sampling.min_p,
        sampling.repetition_penalty,
    )
}

/// What the last turn had, and what the next one will have.
fn seed(app: &App) -> String {
    let last = app.last_turn().map(|record| record.seed);
    match (last, app.sampling.seed) {
        (Some(last), None) => format!("seed: {last} by chance; `/seed {last}` has it again"),
        (Some(last), Some(next)) if last != next => {
            format!("seed: {last} in the last turn, {next} from now on")
        }
        (_, Some(seed)) => format!("seed: {seed}"),
        (None, None) => "seed: off".to_owned(),
    }
}

pub(crate) fn mouse(app: &App) -> &'static str {
    if app.mouse {
        "mouse on: the wheel scrolls; hold Shift (Option on a Mac) to select text"
    } else {
        "mouse off: it is the terminal's and selects text; PageUp and PageDown scroll"
    }
}

pub(crate) fn max_tokens(app: &App) -> String {
    app.max_tokens.map_or_else(
        || "max-tokens off".to_owned(),
        |tokens| format!("max-tokens {tokens}"),
    )
}

pub(crate) fn theme(app: &App) -> String {
    format!("theme: {}", app.theme_name.as_str())
}
