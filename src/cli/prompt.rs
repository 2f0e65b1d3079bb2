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

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The text itself.
    Argument(String),
    /// `-`
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// A file, or standard input for `-`.
    pub fn from_path(path: &Path) -> Self {
        if path.as_os_str() == "-" {
            Self::Stdin
        } else {
            Self::File(path.to_owned())
        }
    }

    /// The prompt as the command line names it; standard input when it names none and something is
    /// piped in.
    pub fn of_prompt(argument: Option<&str>, path: Option<&Path>) -> anyhow::Result<Self> {
        match (argument, path) {
            (Some("-"), _) => Ok(Self::Stdin),
            (Some(text), _) => Ok(Self::Argument(text.to_owned())),
            (None, Some(path)) => Ok(Self::from_path(path)),
            (None, None) if io::stdin().is_terminal() => Err(Failure::usage(
                "there is no prompt",
                "give the text as an argument, `--prompt FILE`, or `--prompt -` for standard input",
            )
            .into()),
            (None, None) => Ok(Self::Stdin),
        }
    }

    /// The text, by the rules of this module.
    pub fn text(&self) -> anyhow::Result<String> {
        let text = self.raw_text()?;
        let text = match self {
            Self::Argument(_) => text,
            Self::Stdin | Self::File(_) => {
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
        let text = match self {
            Self::Argument(text) => text.clone(),
            Self::Stdin | Self::File(_) => decode(&self.bytes()?, &self.to_string())?,
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
        let hint = match self {
            Self::Argument(_) => "give some text",
            Self::Stdin => "pipe some text in, or give it as an argument or with `--prompt FILE`",
            Self::File(_) => "put some text into it",
        };
        Failure::new(format!("{self} is empty"), hint).into()
    }

    fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = match self {
            Self::Argument(text) => return Ok(text.clone().into_bytes()),
            Self::Stdin => io::stdin()
                .lock()
                .take(MOST_BYTES + 1)
                .read_to_end(&mut bytes),
            Self::File(path) => {
                File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
            }
        };
        read.with_context(|| format!("cannot read {self}"))?;
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
        match self {
            Self::Argument(_) => f.write_str("the prompt"),
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => write!(f, "`{}`", path.display()),
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
        let source = Source::from_path(file.path());
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
        assert_eq!(Source::Argument("a\r\n".into()).text().unwrap(), "a\r\n");
    }

    #[test]
    fn refuses_a_file_without_end_and_one_that_is_not_there() {
        let huge = vec![b'a'; MOST_BYTES as usize + 1];
        assert_eq!(text(&huge), Err("`FILE` has more than 16 MiB".into()));
        let missing = Source::from_path(Path::new("/nowhere/prompt.txt"));
        let error = format!("{:#}", missing.text().unwrap_err());
        assert_eq!(
            error,
            "cannot read `/nowhere/prompt.txt`: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn token_ids_stand_between_commas_or_white_space() {
        let ids = |text: &str| {
            let source = Source::Argument(text.to_owned());
            source.token_ids().map_err(|error| error.to_string())
        };
        assert_eq!(ids("1, 2,3\n4\t5 ,, 6"), Ok(vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(ids("[200006, 17360]\n"), Ok(vec![200_006, 17_360]));
        assert_eq!(
            ids("1 2 -3"),
            Err("the prompt: entry 3 is `-3`, not a token id".into())
        );
        assert_eq!(
            ids("4294967296"),
            Err("the prompt: entry 1 is `4294967296`, not a token id".into())
        );
        assert_eq!(ids(" , \n"), Err("the prompt is empty".into()));
    }
}
