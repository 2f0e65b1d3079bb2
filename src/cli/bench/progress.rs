//! How far the tests are, on a terminal's standard error.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressStyle};

use super::measure::Test;
use crate::cli::progress;
use crate::cli::style::Style;

/// One line that is drawn over; nothing where there is no terminal.
#[derive(Clone, Debug)]
pub struct Progress {
    style: Style,
    bar: ProgressBar,
}

impl Progress {
    /// For `tests` tests. It is never redrawn by a clock: that would be measured too.
    pub fn new(tests: usize) -> Self {
        let style = Style::of_stderr();
        if !style.redraws {
            return Self {
                style,
                ..Self::hidden()
            };
        }
        let bar = ProgressBar::with_draw_target(Some(tests as u64), progress::target());
        let template = "{bar:20} {pos}/{len} {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
        Self { style, bar }
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Self {
            style: Style::plain(),
            bar: ProgressBar::hidden(),
        }
    }

    /// Something that is no test is done.
    pub fn say(&self, what: &str) {
        self.bar.set_message(self.style.clean(what).into_owned());
        self.bar.tick();
    }

    /// `test` begins with its repetition, 0 being what comes before.
    pub fn test(&self, test: &Test, repetition: usize) {
        let (kind, tokens, depth) = (test.kind.name(), test.tokens, test.depth);
        let what = match repetition {
            0 => "warming up".to_owned(),
            repetition => format!("repetition {repetition}"),
        };
        self.say(&format!("{kind} {tokens} at depth {depth}, {what}"));
    }

    /// `done` tokens of those before a test are read.
    pub fn filling(&self, done: usize, depth: usize) {
        self.say(&format!("reading up to depth {depth}: {done} tokens"));
    }

    /// A test is done.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Takes the line away when the process ends at once.
    pub fn eraser(&self) -> impl Fn() + Send + 'static {
        let redraws = self.style.redraws;
        move || {
            if redraws {
                let _ = io::stderr().write_all(b"\r\x1b[2K");
            }
        }
    }

    /// `label: text` on a line of its own.
    pub fn note(&self, label: &str, text: &str) {
        let line = format!("{} {}\n", self.style.label(label), self.style.clean(text));
        // Standard error may be gone; the figures do not depend on it.
        self.bar.suspend(|| {
            let _ = io::stderr().write_all(line.as_bytes());
        });
    }
}
