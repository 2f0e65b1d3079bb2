//! Reading a session: all of it to go on, or just enough for a list.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use super::Error;
use super::log::End;
use super::record::{Header, Line, VERSION};
use super::state::State;
use super::tree::beginning;
use crate::text::one_line;

/// A session as its file has it.
pub(super) struct Loaded {
    pub state: State,
    pub end: End,
    pub warning: Option<String>,
    /// When it was begun, as the header has it.
    pub created: String,
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
    let mut warnings = Vec::new();
    let mut created = String::new();
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let whole = line.ends_with(b"\n");
        if index == 0 {
            created = check_header(line, path)?.created;
        } else {
            let damaged = |problem| Error::Damaged {
                path: path.to_owned(),
                line: number,
                problem,
            };
            match serde_json::from_slice::<Line>(content(line)) {
                Ok(record) => state.apply(record.into()).map_err(damaged)?,
                Err(_) if !whole => {
                    warnings.push(format!(
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
    if state.settle() {
        // That is why a line may be torn.
        warnings.clear();
        warnings.push(
            "the program was ended while it answered: this is what was saved of the answer"
                .to_owned(),
        );
    }
    Ok(Loaded {
        state,
        end,
        warning: (!warnings.is_empty()).then(|| warnings.join("\n")),
        created,
    })
}

fn check_header(line: &[u8], path: &Path) -> Result<Header, Error> {
    // Of a list, the first value would do for a header.
    let object = if line.starts_with(b"{") { line } else { b"" };
    match serde_json::from_slice::<Header>(object) {
        Ok(header) if header.version > VERSION => Err(Error::Newer {
            path: path.to_owned(),
            version: header.version,
        }),
        Ok(header) if header.version > 0 => Ok(header),
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

/// Reads what a list shows. Of answers, which are most of a file, only the form is checked.
pub(super) fn glance(path: &Path) -> Glance {
    let mut glance = Glance::default();
    let mut first = None;
    if let Err(problem) = look(path, &mut glance, &mut first) {
        glance.problem = Some(problem);
    }
    if glance.title.is_empty() {
        glance.title = first.unwrap_or_default();
    }
    glance.title = one_line(&glance.title);
    glance
}

fn look(path: &Path, glance: &mut Glance, first: &mut Option<String>) -> Result<(), Error> {
    let file = File::open(path)
        .map_err(|error| Error::dangling(path).unwrap_or_else(|| Error::io("read", path)(error)))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        reader
            .read_until(b'\n', &mut line)
            .map_err(Error::io("read", path))?;
        // A file that has not even a header yet is one without messages.
        if line.is_empty() {
            break;
        }
        if number == 1 {
            check_header(&line, path)?;
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
