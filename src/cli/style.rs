//! Colour where a terminal wants it, and text that cannot harm a terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use crate::text::sanitize;

/// How one stream is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The stream is a terminal: control characters must not reach it.
    pub terminal: bool,
    /// Lines can be drawn over: progress may be shown.
    pub redraws: bool,
    /// Escape codes for colour are welcome.
    color: bool,
    /// Columns of a terminal.
    columns: Option<usize>,
}

impl Style {
    /// A file or a pipe.
    pub const fn plain() -> Self {
        Self {
            terminal: false,
            redraws: false,
            color: false,
            columns: None,
        }
    }

    /// Standard error.
    pub fn of_stderr() -> Self {
        let style = Self::new(io::stderr().is_terminal(), |name| std::env::var_os(name));
        Self {
            columns: console::Term::stderr()
                .size_checked()
                .map(|(_, columns)| usize::from(columns)),
            ..style
        }
    }

    /// Standard output.
    pub fn of_stdout() -> Self {
        Self::new(io::stdout().is_terminal(), |name| std::env::var_os(name))
    }

    /// Colour needs a terminal that can show it and a user who did not set `NO_COLOR`
    /// (<https://no-color.org>: any value but the empty one).
    fn new(terminal: bool, variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = variable("TERM").is_none_or(|value| value.is_empty() || value == "dumb");
        Self {
            terminal,
            redraws: terminal && !dumb,
            color: terminal && !dumb && !refused,
            columns: None,
        }
    }

    /// Beside the point: thinking, figures.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// The word `error:`.
    pub fn error(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// The words `warning:` and `hint:`.
    pub fn label(self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    /// `text` as it may go to this stream: as it is to files and pipes, without control characters to a
    /// terminal.
    pub fn clean(self, text: &str) -> Cow<'_, str> {
        if self.terminal {
            sanitize(text)
        } else {
            Cow::Borrowed(text)
        }
    }

    /// `text` in lines of a terminal, broken between words; its first line follows `taken` cells. As it is for files and pipes.
    pub fn wrapped(self, text: &str, taken: usize) -> String {
        let Some(columns) = self
            .columns
            .filter(|columns| self.terminal && *columns >= 20)
        else {
            return text.to_owned();
        };
        let mut out = String::new();
        let mut used = taken;
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                out.push('\n');
                used = 0;
            }
            for (index, word) in words(line, columns).into_iter().enumerate() {
                let width = console::measure_text_width(word);
                if index > 0 && used + 1 + width > columns {
                    out.push('\n');
                    used = 0;
                } else if index > 0 {
                    out.push(' ');
                    used += 1;
                }
                out.push_str(word);
                used += width;
            }
        }
        out
    }

    /// Each piece closes what it opens, so that nothing is left on when the program ends anywhere.
    fn wrap(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// What stands between spaces; what stands between backquotes is one word, as it is to be copied.
fn words(line: &str, longest: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut quoted_since = None;
    for (at, character) in line.char_indices() {
        match character {
            '`' if quoted_since.is_none() => {
                // Without an end it is no quote.
                let rest = &line[at + 1..];
                quoted_since = rest.find('`').filter(|end| *end < longest).map(|_| at);
            }
            '`' => quoted_since = None,
            ' ' if quoted_since.is_none() => {
                words.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&line[start..]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(terminal: bool, variables: &[(&str, &str)]) -> Style {
        Style::new(terminal, |name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn colour_needs_a_capable_terminal_and_no_objection() {
        assert_eq!(
            style(true, &[("TERM", "xterm")]).dim("x"),
            "\x1b[2mx\x1b[0m"
        );
        assert_eq!(style(false, &[("TERM", "xterm")]).dim("x"), "x");
        assert_eq!(style(true, &[("TERM", "dumb")]).dim("x"), "x");
        assert_eq!(style(true, &[]).dim("x"), "x");
        let no_color = [("TERM", "xterm"), ("NO_COLOR", "1")];
        assert_eq!(style(true, &no_color).dim("x"), "x");
        // An empty NO_COLOR says nothing.
        let empty = [("TERM", "xterm"), ("NO_COLOR", "")];
        assert_eq!(style(true, &empty).dim("x"), "\x1b[2mx\x1b[0m");
    }

    #[test]
    fn lines_are_broken_between_words_on_a_terminal() {
        let narrow = Style {
            columns: Some(20),
            ..style(true, &[("TERM", "xterm")])
        };
        assert_eq!(
            narrow.wrapped("no model `x/y` here; fetch it first\n  1  2", 7),
            "no model\n`x/y` here; fetch it\nfirst\n  1  2"
        );
        assert_eq!(
            narrow.wrapped("one two three, `a b c`", 0),
            "one two three,\n`a b c`"
        );
        assert_eq!(
            narrow.wrapped("one two three, ` and four", 0),
            "one two three, ` and\nfour"
        );
        let text = "no model of this name is anywhere here";
        assert_eq!(Style::plain().wrapped(text, 7), text);
    }

    #[test]
    fn text_cannot_command_a_terminal() {
        let hostile = "a\x1b[31mb\x07\x08\r\n\tc\x7f\u{9b}2Jd\u{202e}e\u{2066}f 👩‍👩‍👧 日本語\0";
        let terminal = style(true, &[]);
        assert_eq!(terminal.clean(hostile), "ab\n\tcdef 👩‍👩‍👧 日本語");
        assert_eq!(Style::plain().clean(hostile), hostile);
    }
}
