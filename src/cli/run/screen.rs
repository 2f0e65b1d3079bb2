//! Standard error: thinking, progress, warnings and figures.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::cli::progress;
use crate::cli::report::Figures;
use crate::cli::style::Style;
use crate::session::LoadProgress;

/// What a person sees beside the answer.
#[derive(Debug)]
pub struct Screen {
    style: Style,
    quiet: bool,
    thinking: bool,
    bar: Option<ProgressBar>,
    /// A bar is on the screen; a signal that ends the process takes it away.
    drawn: Arc<AtomicBool>,
    /// A line was begun and not ended.
    mid_line: bool,
}

impl Screen {
    /// Thinking is shown when `show` or, unless `quiet` or `hide`, on a terminal.
    pub fn new(quiet: bool, show: bool, hide: bool) -> Self {
        let style = Style::of_stderr();
        Self {
            style,
            quiet,
            thinking: show || (style.terminal && !hide && !quiet),
            bar: None,
            drawn: Arc::default(),
            mid_line: false,
        }
    }

    /// Takes away the bar that is on the screen, if there is one, without the screen.
    pub fn eraser(&self) -> impl Fn() + Send + 'static {
        let drawn = self.drawn.clone();
        move || {
            if drawn.load(Ordering::Relaxed) {
                let _ = io::stderr().write_all(b"\r\x1b[2K");
            }
        }
    }

    /// There is a person to ask.
    pub fn is_interactive(&self) -> bool {
        !self.quiet && self.style.terminal && io::stdin().is_terminal()
    }

    /// Does `work`, which loads `what`, with a sign of life and of how far it is.
    pub fn loading<T>(
        &mut self,
        what: &str,
        progress: &LoadProgress,
        work: impl FnOnce() -> T,
    ) -> T {
        let what = self.style.clean(what).into_owned();
        self.show(ProgressBar::new_spinner().with_message(format!("loading {what}")));
        let Some(bar) = self.bar.clone() else {
            return work();
        };
        let look =
            move |step| bar.set_message(format!("loading {what}{}", progress::of_load(step)));
        let result = progress.watched(look, work);
        self.clear();
        result
    }

    /// The prompt of `total` tokens begins to be read.
    pub fn begin_prompt(&mut self, total: usize) {
        self.show(ProgressBar::new(total as u64).with_style(reading("")));
    }

    /// `done` tokens of the prompt are read.
    pub fn prompt(&self, done: usize) {
        if let Some(bar) = &self.bar {
            // Before the first piece is read there is no speed, and so no time left, to show.
            if done > 0 && bar.position() == 0 {
                bar.set_style(reading(" {rate}, {eta} left"));
            }
            bar.set_position(done as u64);
        }
    }

    /// Takes away what shows progress.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.drawn.store(false, Ordering::Relaxed);
        }
    }

    /// More thinking.
    pub fn thinking(&mut self, text: &str) {
        if self.thinking {
            let label = if self.mid_line { "" } else { "thinking: " };
            let text = format!("{label}{}", self.style.clean(text));
            self.write(&self.style.dim(&text));
        }
    }

    /// More of what the model says to the user before the answer.
    pub fn preamble(&mut self, text: &str) {
        if !self.quiet {
            self.write(&self.style.clean(text));
        }
    }

    /// The end of a message that stands here; on a terminal a blank line sets it apart.
    pub fn end_message(&mut self) {
        if self.mid_line {
            self.write(if self.style.terminal { "\n\n" } else { "\n" });
            self.mid_line = false;
        }
    }

    /// `warning: ...`, on a line of its own.
    pub fn warn(&mut self, text: &str) {
        if !self.quiet {
            self.end_message();
            let warning = format!(
                "{} {}\n",
                self.style.label("warning:"),
                self.style.clean(text)
            );
            self.write(&warning);
            self.mid_line = false;
        }
    }

    /// The figures of the run.
    pub fn figures(&mut self, figures: &Figures) {
        if !self.quiet {
            self.end_message();
            if self.style.terminal {
                self.write("\n");
            }
            let text = figures.text();
            for line in text.lines() {
                self.write(&format!("{}\n", self.style.dim(line)));
            }
            self.mid_line = false;
        }
    }

    fn show(&mut self, bar: ProgressBar) {
        if !self.quiet && self.style.redraws {
            bar.set_draw_target(progress::target());
            bar.enable_steady_tick(TICK);
            self.bar = Some(bar);
            self.drawn.store(true, Ordering::Relaxed);
        }
    }

    fn write(&mut self, text: &str) {
        self.mid_line |= !text.is_empty();
        // Standard error may be gone; the answer does not depend on it.
        let mut stderr = io::stderr().lock();
        let _ = stderr
            .write_all(text.as_bytes())
            .and_then(|()| stderr.flush());
    }
}

/// The bar of a prompt that is being read, with what is known beyond the count.
fn reading(more: &str) -> ProgressStyle {
    ProgressStyle::with_template(&format!(
        "{{spinner}} reading the prompt {{bar:20}} {{pos}}/{{len}} tokens{more}"
    ))
    .expect("the template is well formed")
    .with_key(
        "rate",
        |state: &ProgressState, text: &mut dyn fmt::Write| {
            // A text in memory takes everything.
            let _ = write!(text, "{:.0} tok/s", state.per_sec());
        },
    )
}

/// Between two frames of a spinner.
const TICK: Duration = Duration::from_millis(100);
