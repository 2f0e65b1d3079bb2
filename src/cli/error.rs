//! Errors as people read them: one line, and where there is a way out, a hint.

use std::fmt;
use std::io::{self, Write};

use super::Exit;
use super::style::Style;
use crate::session;

/// An error with a way out.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: String,
    exit: Exit,
}

impl Failure {
    /// Something that cannot be done.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
            exit: Exit::Failed,
        }
    }

    /// A command line that cannot be meant.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            ..Self::new(message, hint)
        }
    }

    /// A run that ended without anything to use.
    pub fn no_answer(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit: Exit::NoAnswer,
            ..Self::new(message, hint)
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The message, and the hint if there is one, for where they are shown apart.
pub fn parts(error: &anyhow::Error) -> (String, Option<String>) {
    (format!("{error:#}"), hint(error).map(str::to_owned))
}

/// The way out, where there is one.
fn hint(error: &anyhow::Error) -> Option<&str> {
    let hint = if let Some(failure) = failure(error) {
        Some(failure.hint.as_str())
    } else {
        let mut causes = error.chain();
        causes.find_map(|cause| cause.downcast_ref::<session::Error>()?.way_out())
    };
    hint.filter(|hint| !hint.is_empty())
}

/// `error: ...`, and the hint after a blank line.
fn render(error: &anyhow::Error, style: Style) -> String {
    let message = style.wrapped(&format!("{error:#}"), "error: ".len());
    let hint = match hint(error) {
        Some(hint) => format!(
            "\n{} {}\n",
            style.label("hint:"),
            style.clean(&style.wrapped(hint, "hint: ".len()))
        ),
        None => String::new(),
    };
    format!(
        "{} {}\n{hint}",
        style.error("error:"),
        style.clean(&message)
    )
}

fn failure(error: &anyhow::Error) -> Option<&Failure> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// Prints `error` and gives the exit code that goes with it.
pub fn report(error: &anyhow::Error, style: Style) -> Exit {
    // A standard error that is gone leaves nobody to tell.
    let _ = io::stderr().write_all(render(error, style).as_bytes());
    failure(error).map_or(Exit::Failed, |failure| failure.exit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn an_error_is_one_line_with_its_causes_and_its_hint() {
        let error = Err::<(), _>(Failure::new("`x.txt` is empty", "write something"))
            .context("reading the prompt")
            .unwrap_err();
        assert_eq!(
            render(&error, Style::plain()),
            "error: reading the prompt: `x.txt` is empty\n\nhint: write something\n"
        );
        assert_eq!(
            render(&anyhow::anyhow!("no"), Style::plain()),
            "error: no\n"
        );
    }
}
