//! Text and token ids from arguments, files and standard input.
//!
//! The rules, which the README states: text is UTF-8; a byte order mark at the start is removed; CRLF
//! becomes LF; one line break at the end is removed, since editors put it there. Arguments and `--raw`
//! text are taken as they are, save the byte order mark.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::error::Failure;

/// More text than any context holds (131,072 tokens of at most 128 bytes).
const MOST_BYTES: u64 = 16 << 20;

/// What a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What is asked.
    Prompt,
    /// The system prompt.
    Instructions,
    /// Function tools, as JSON.
    Tools,
    /// A prompt in token ids.
    TokenIds,
    /// A recorded answer.
    Recording,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Prompt => "the prompt",
            Self::Instructions => "the system prompt",
            Self::Tools => "the list of tools",
            Self::TokenIds => "the list of token ids",
            Self::Recording => "the recording",
        }
    }

    /// How the text itself is given, where a file is named that is not there.
    fn without_a_file(self) -> &'static str {
        match self {
            Self::Prompt => "--prompt takes a file; give the text itself as an argument",
            Self::Instructions => "--system-file takes a file; give the text itself with --system",
            Self::Tools | Self::TokenIds | Self::Recording => "",
        }
    }
}

/// A text that is still to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    place: Place,
    role: Role,
}

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The text itself.
    Argument(String),
    /// `-`
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// The text itself.
    pub fn argument(text: &str, role: Role) -> Self {
        let place = Place::Argument(text.to_owned());
        Self { place, role }
    }

    /// A file, or standard input for `-`.
    pub fn file(path: &Path, role: Role) -> Self {
        let place = if path.as_os_str() == "-" {
            Place::Stdin
        } else {
            Place::File(path.to_owned())
        };
        Self { place, role }
    }

    /// What standard input is read for, if it is.
    pub fn piped(&self) -> Option<&'static str> {
        (self.place == Place::Stdin).then(|| self.role.name())
    }

    /// The prompt as the command line names it; standard input when it names none and something is
    /// piped in.
    pub fn of_prompt(argument: Option<&str>, path: Option<&Path>) -> anyhow::Result<Self> {
        let stdin = Self::file(Path::new("-"), Role::Prompt);
        match (argument, path) {
            (Some("-"), _) => Ok(stdin),
            (Some(text), _) => Ok(Self::argument(text, Role::Prompt)),
            (None, Some(path)) => Ok(Self::file(path, Role::Prompt)),
            (None, None) if io::stdin().is_terminal() => Err(Failure::usage(
                "there is no prompt",
                "give the text as an argument, `--prompt FILE`, or `--prompt -` for standard input",
            )
            .into()),
            (None, None) => Ok(stdin),
        }
    }

    /// The text, by the rules of this module.
    pub fn text(&self) -> anyhow::Result<String> {
        let text = self.raw_text()?;
        let text = match &self.place {
            Place::Argument(_) => text,
            Place::Stdin | Place::File(_) => {
                let text = text.replace("\r\n", "\n");
                text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
            }
        };
        if text.trim().is_empty() {
            return Err(self.empty());
        }
        Ok(text)
    }

    /// The text as it is, without a byte order mark.
    pub fn raw_text(&self) -> anyhow::Result<String> {
        let text = match &self.place {
            Place::Argument(text) => text.clone(),
            Place::Stdin | Place::File(_) => decode(&self.bytes()?, &self.to_string())?,
        };
        if text.is_empty() {
            return Err(self.empty());
        }
        Ok(text)
    }

    /// Token ids, separated by commas or white space; the brackets of a JSON list may stand around them.
    pub fn token_ids(&self) -> anyhow::Result<Vec<u32>> {
        let text = self.raw_text()?;
        let list = text.trim();
        let list = list
            .strip_prefix('[')
            .and_then(|list| list.strip_suffix(']'))
            .unwrap_or(list);
        let ids = list
            .split(|character: char| character == ',' || character.is_whitespace())
            .filter(|word| !word.is_empty())
            .enumerate()
            .map(|(index, word)| {
                word.parse().map_err(|_| {
                    let shown: String = word.chars().take(40).collect();
                    Failure::new(
                        format!(
                            "{self}: entry {} is `{}`, not a token id",
                            index + 1,
                            shown.escape_debug()
                        ),
                        "token ids are whole numbers, separated by commas or white space",
                    )
                })
            })
            .collect::<Result<Vec<u32>, Failure>>()?;
        if ids.is_empty() {
            return Err(self.empty());
        }
        Ok(ids)
    }

    fn empty(&self) -> anyhow::Error {
        let hint = match (&self.place, self.role) {
            (Place::Argument(_), Role::Instructions) => "give some text, or leave --system out",
            (Place::Argument(_), _) => "give some text",
            (Place::Stdin, Role::Prompt) => {
                "pipe some text in, or give it as an argument or with `--prompt FILE`"
            }
            (Place::Stdin, Role::Instructions) => "pipe some text in, or give it with --system",
            (Place::Stdin, Role::Tools | Role::TokenIds | Role::Recording) => {
                "pipe it in, or name a file"
            }
            (Place::File(_), Role::Prompt | Role::Instructions) => "put some text into it",
            (Place::File(_), Role::Tools | Role::TokenIds | Role::Recording) => {
                return self.empty_list();
            }
        };
        Failure::new(format!("{self} is empty"), hint).into()
    }

    fn empty_list(&self) -> anyhow::Error {
        let hint = format!("it is to hold {}", self.role.name());
        Failure::new(format!("{self} is empty"), hint).into()
    }

    fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = match &self.place {
            Place::Argument(text) => return Ok(text.clone().into_bytes()),
            Place::Stdin => io::stdin()
                .lock()
                .take(MOST_BYTES + 1)
                .read_to_end(&mut bytes),
            Place::File(path) => {
                File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
            }
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("cannot read {self}: {error}");
                return Err(Failure::new(message, self.role.without_a_file()).into());
            }
            read => read.with_context(|| format!("cannot read {self}"))?,
        };
        if bytes.len() as u64 > MOST_BYTES {
            return Err(Failure::new(
                format!("{self} has more than {} MiB", MOST_BYTES >> 20),
                "that is more text than any context holds",
            )
            .into());
        }
        Ok(bytes)
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Place::Argument(_) => f.write_str(self.role.name()),
            Place::Stdin => f.write_str("standard input"),
            Place::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}

/// UTF-8 without its byte order mark; `name` is for messages.
fn decode(bytes: &[u8], name: &str) -> anyhow::Result<String> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mark = bytes.len() - text.len();
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let hint = if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
                "it begins like UTF-16: save it as UTF-8"
            } else {
                "save it as UTF-8"
            };
            let offset = mark + error.valid_up_to();
            let byte = bytes.get(offset).copied().unwrap_or_default();
            Err(Failure::new(
                format!("{name} is not UTF-8: byte {byte:#04x} at offset {offset}"),
                hint,
            )
            .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> (tempfile::NamedTempFile, Source) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let source = Source::file(file.path(), Role::Prompt);
        (file, source)
    }

    fn text(bytes: &[u8]) -> Result<String, String> {
        let (file, source) = file(bytes);
        let name = file.path().display().to_string();
        source
            .text()
            .map_err(|error| format!("{error:#}").replace(&name, "FILE"))
    }

    #[test]
    fn a_file_loses_its_mark_its_carriage_returns_and_one_line_break() {
        assert_eq!(text(b"a\n"), Ok("a".into()));
        assert_eq!(text(b"a"), Ok("a".into()));
        assert_eq!(text(b"a\n\n"), Ok("a\n".into()));
        assert_eq!(text(b"\xef\xbb\xbfa\r\nb\r\n"), Ok("a\nb".into()));
        // A lone carriage return is not a line break of any system in use; it stays.
        assert_eq!(text(b"a\rb"), Ok("a\rb".into()));
        assert_eq!(text("  日本語 \n".as_bytes()), Ok("  日本語 ".into()));
    }

    #[test]
    fn refuses_what_is_not_text_or_nothing() {
        assert_eq!(
            text(b"abc\xffdef"),
            Err("`FILE` is not UTF-8: byte 0xff at offset 3".into())
        );
        assert_eq!(
            text(b"\xef\xbb\xbfab\xe2\x82"),
            Err("`FILE` is not UTF-8: byte 0xe2 at offset 5".into())
        );
        for empty in [&b""[..], b"\n", b"\r\n", b" \t\n ", b"\xef\xbb\xbf"] {
            assert_eq!(text(empty), Err("`FILE` is empty".into()), "{empty:?}");
        }
    }

    #[test]
    fn raw_text_stays_as_it_is() {
        let (_file, source) = file(b"\xef\xbb\xbfa\r\n\n");
        assert_eq!(source.raw_text().unwrap(), "a\r\n\n");
        let argument = Source::argument("a\r\n", Role::Prompt);
        assert_eq!(argument.text().unwrap(), "a\r\n");
    }

    #[test]
    fn refuses_a_file_without_end_and_one_that_is_not_there() {
        let huge = vec![b'a'; MOST_BYTES as usize + 1];
        assert_eq!(text(&huge), Err("`FILE` has more than 16 MiB".into()));
        let missing = Source::file(Path::new("/nowhere/prompt.txt"), Role::Prompt);
        let error = format!("{:#}", missing.text().unwrap_err());
        assert_eq!(
            error,
            "cannot read `/nowhere/prompt.txt`: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn token_ids_stand_between_commas_or_white_space() {
        let ids = |text: &str| {
            let source = Source::argument(text, Role::TokenIds);
            source.token_ids().map_err(|error| error.to_string())
        };
        assert_eq!(ids("1, 2,3\n4\t5 ,, 6"), Ok(vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(ids("[200006, 17360]\n"), Ok(vec![200_006, 17_360]));
        assert_eq!(
            ids("1 2 -3"),
            Err("the list of token ids: entry 3 is `-3`, not a token id".into())
        );
        assert_eq!(
            ids("4294967296"),
            Err("the list of token ids: entry 1 is `4294967296`, not a token id".into())
        );
        assert_eq!(ids(" , \n"), Err("the list of token ids is empty".into()));
    }
}
