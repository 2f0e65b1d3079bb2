//! Reading a session: all of it to go on, or just enough for a list.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use super::Error;
use super::log::End;
use super::record::{Header, Line, State, VERSION};

/// How much of a first message makes a title.
const TITLE_LENGTH: usize = 60;

/// A session as its file has it.
pub(super) struct Loaded {
    pub state: State,
    pub end: End,
    pub warning: Option<String>,
}

/// What a list shows.
#[derive(Debug, Default)]
pub(super) struct Glance {
    pub title: String,
    pub messages: usize,
    pub problem: Option<Error>,
}

/// Reads a whole session. What was being written when a program ended is passed over with a warning.
pub(super) fn load(path: &Path, mut file: &File) -> Result<Loaded, Error> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    let mut state = State::default();
    let mut end = End {
        at: 0,
        open: false,
        torn: false,
    };
    let mut warning = None;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let whole = line.ends_with(b"\n");
        if index == 0 {
            check_header(line, path)?;
        } else {
            let damaged = |problem| Error::Damaged {
                path: path.to_owned(),
                line: number,
                problem,
            };
            match serde_json::from_slice::<Line>(content(line)) {
                Ok(record) => state.apply(record.into()).map_err(damaged)?,
                Err(_) if !whole => {
                    warning = Some(format!(
                        "the last line of `{}` was not written to its end and is left out",
                        path.display()
                    ));
                    end.torn = true;
                    break;
                }
                Err(error) => return Err(damaged(reason(&error))),
            }
        }
        end.at += line.len() as u64;
        end.open = !whole;
    }
    if end.at == 0 {
        return Err(Error::NotASession {
            path: path.to_owned(),
        });
    }
    Ok(Loaded {
        state,
        end,
        warning,
    })
}

fn check_header(line: &[u8], path: &Path) -> Result<(), Error> {
    // Of a list, the first value would do for a header.
    let object = if line.starts_with(b"{") { line } else { b"" };
    match serde_json::from_slice::<Header>(object) {
        Ok(header) if header.version > VERSION => Err(Error::Newer {
            path: path.to_owned(),
            version: header.version,
        }),
        Ok(header) if header.version > 0 => Ok(()),
        _ => Err(Error::NotASession {
            path: path.to_owned(),
        }),
    }
}

/// A line without its line break.
fn content(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// A line is one line: where in it is said by the column alone.
fn reason(error: &serde_json::Error) -> String {
    error
        .to_string()
        .replace(" at line 1 column ", " at column ")
}

/// Of a record, what a list wants to know.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Hint<'a> {
    User {
        #[serde(borrow)]
        text: Cow<'a, str>,
    },
    Title {
        #[serde(borrow)]
        title: Cow<'a, str>,
    },
    #[serde(other)]
    Other,
}

/// Reads what a list shows. Answers, which are most of a file, are not parsed.
pub(super) fn glance(path: &Path) -> Glance {
    let mut glance = Glance::default();
    let mut first = None;
    if let Err(problem) = look(path, &mut glance, &mut first) {
        glance.problem = Some(problem);
    }
    if glance.title.is_empty() {
        glance.title = first.unwrap_or_default();
    }
    glance
}

fn look(path: &Path, glance: &mut Glance, first: &mut Option<String>) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        reader
            .read_until(b'\n', &mut line)
            .map_err(Error::io("read", path))?;
        if number == 1 {
            check_header(&line, path)?;
            continue;
        }
        if line.is_empty() {
            break;
        }
        if line.starts_with(br#"{"type":"turn","#) {
            continue;
        }
        match serde_json::from_slice(content(&line)) {
            Ok(Hint::User { text }) => {
                glance.messages += 1;
                first.get_or_insert_with(|| beginning(&text));
            }
            Ok(Hint::Title { title }) => glance.title = title.into_owned(),
            Ok(Hint::Other) => {}
            // Being written, or torn.
            Err(_) if !line.ends_with(b"\n") => {}
            Err(error) => {
                return Err(Error::Damaged {
                    path: path.to_owned(),
                    line: number,
                    problem: reason(&error),
                });
            }
        }
    }
    Ok(())
}

/// How a message begins, on one line.
fn beginning(text: &str) -> String {
    let words = text.split_whitespace();
    let mut title = String::new();
    for word in words {
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
        if title.len() > 4 * TITLE_LENGTH {
            break;
        }
    }
    match title.char_indices().nth(TITLE_LENGTH) {
        Some((at, _)) => {
            title.truncate(at);
            title.push('…');
            title
        }
        None => title,
    }
}
