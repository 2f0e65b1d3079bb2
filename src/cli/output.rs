//! Where the answer goes: standard output or a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::style::Style;
use crate::text::is_unsafe;

/// The receiver of the answer.
#[derive(Debug)]
pub struct Answer {
    target: Target,
    style: Style,
    /// The last character written; none before the first.
    last: Option<char>,
    state: State,
}

#[derive(Debug)]
enum Target {
    Stdout,
    File {
        file: File,
        path: PathBuf,
        /// It was not there before.
        created: bool,
    },
}

#[derive(Debug)]
enum State {
    Open,
    /// Whoever read it is gone.
    Closed,
    Failed(io::Error),
}

impl Answer {
    /// Standard output.
    pub fn stdout() -> Self {
        Self::new(Target::Stdout, Style::of_stdout())
    }

    /// A file, or standard output for `-`. A file is opened at once, so that one which cannot be written is known before the model is
    /// loaded, and keeps its old content until the answer begins.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn file(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::stdout());
        }
        // A link that leads nowhere was there before, too.
        let created = path.symlink_metadata().is_err();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        let target = Target::File {
            file,
            path: path.to_owned(),
            created,
        };
        Ok(Self::new(target, Style::plain()))
    }

    fn new(target: Target, style: Style) -> Self {
        Self {
            target,
            style,
            last: None,
            state: State::Open,
        }
    }

    /// Writes and flushes more of the answer; `false` when nobody takes it any more.
    pub fn push(&mut self, text: &str) -> bool {
        let style = self.style;
        self.write(&style.clean(text))
    }

    /// Writes a JSON value on a line of its own.
    pub fn json(&mut self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(value)?;
        if self.style.terminal {
            // Inside strings only, where JSON has an escape for them.
            text = text
                .chars()
                .map(|character| {
                    if is_unsafe(character) {
                        format!("\\u{:04x}", u32::from(character))
                    } else {
                        character.to_string()
                    }
                })
                .collect();
        }
        self.end_line();
        text.push('\n');
        self.write(&text);
        Ok(())
    }

    /// Ends the line, if one was begun.
    pub fn end_line(&mut self) {
        if self.last.is_some_and(|last| last != '\n') {
            self.write("\n");
        }
    }

    /// Nothing was written so far.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The file that was made for this answer and was not there before.
    pub fn created_file(&self) -> Option<PathBuf> {
        match &self.target {
            Target::File {
                path,
                created: true,
                ..
            } => Some(path.clone()),
            _ => None,
        }
    }

    /// The stream is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.style.terminal
    }

    /// Whoever read it is gone.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// The end: what could not be written is an error, a reader that left is none.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let state = std::mem::replace(&mut self.state, State::Open);
        match state {
            State::Open | State::Closed => Ok(()),
            State::Failed(error) => Err(error).with_context(|| match &self.target {
                Target::Stdout => "cannot write to standard output".to_owned(),
                Target::File { path, .. } => format!("cannot write `{}`", path.display()),
            }),
        }
    }

    fn write(&mut self, text: &str) -> bool {
        if !matches!(self.state, State::Open) {
            return false;
        }
        if text.is_empty() {
            return true;
        }
        let first = self.last.is_none();
        let written = match &mut self.target {
            Target::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout
                    .write_all(text.as_bytes())
                    .and_then(|()| stdout.flush())
            }
            Target::File { file, .. } => {
                if first {
                    // Devices and pipes have no length; writing says what is wrong with others.
                    let _ = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
                }
                file.write_all(text.as_bytes())
            }
        };
        match written {
            Ok(()) => self.last = text.chars().last().or(self.last),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.state = State::Closed,
            Err(error) => self.state = State::Failed(error),
        }
        matches!(self.state, State::Open)
    }
}

impl Drop for Answer {
    /// A file that was made for an answer which never came goes again.
    fn drop(&mut self) {
        if let (
            None,
            Target::File {
                path,
                created: true,
                ..
            },
        ) = (self.last, &self.target)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_content_until_the_answer_begins() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("answer.txt");
        std::fs::write(&path, "an older and longer answer").unwrap();
        let mut answer = Answer::file(&path).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "an older and longer answer"
        );
        assert!(answer.push("new"));
        answer.end_line();
        answer.end_line();
        answer.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
    }

    #[test]
    fn a_file_made_for_nothing_goes_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("answer.txt");
        let answer = Answer::file(&path).unwrap();
        assert!(path.exists());
        drop(answer);
        assert!(!path.exists());
    }

    #[test]
    #[cfg(unix)]
    fn a_link_to_a_new_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link.txt");
        std::os::unix::fs::symlink(directory.path().join("answer.txt"), &link).unwrap();
        drop(Answer::file(&link).unwrap());
        assert!(link.symlink_metadata().is_ok());
    }

    #[test]
    fn an_unwritable_path_is_known_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let error = Answer::file(&directory.path().join("no/such/answer.txt")).unwrap_err();
        assert!(
            format!("{error:#}").contains("No such file or directory"),
            "{error:#}"
        );
        let error = Answer::file(directory.path()).unwrap_err();
        assert!(format!("{error:#}").contains("Is a directory"), "{error:#}");
    }

    #[test]
    fn json_on_a_terminal_is_still_json_and_harmless() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("answer.json");
        let mut answer = Answer::file(&path).unwrap();
        answer.style.terminal = true;
        let value = serde_json::json!({"text": "a\u{9b}2J\u{202e}\x1b\n"});
        answer.json(&value).unwrap();
        drop(answer);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"text\":\"a\\u009b2J\\u202e\\u001b\\n\"}\n");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
