//! Conversations on disk: a tree of what was said, as JSON lines.
//!
//! A session is one file. Its first line says the version, each further line is a [`Record`], written as a
//! whole and flushed before anything else happens, so that a crash loses at most what is being written.
//! Files are only ever appended to; what cannot be read is reported and left as it is.

mod age;
pub mod export;
mod find;
mod log;
mod read;
mod record;
mod search;
mod state;
pub mod tree;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use log::Log;
pub use record::{Partial, Record, VERSION};
pub use search::Hit;
pub use tree::{Entry, NodeId, Tree, TurnRecord};

use crate::session::Reasoning;

const ENDING: &str = "jsonl";

/// A directory of saved sessions. It is made when the first session is.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

/// A saved session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The file's name without its ending.
    pub id: String,
    /// Its name, or how its first message begins; one line.
    pub title: String,
    /// When it was last written.
    pub modified: SystemTime,
    /// How long ago that is: `3 h ago`, or the date.
    pub age: String,
    /// User messages.
    pub messages: usize,
    /// Why it cannot be read, if it cannot.
    pub problem: Option<String>,
}

/// A saved session as it was opened.
#[derive(Debug)]
pub struct Session {
    /// The file's name without its ending.
    pub id: String,
    /// Its name, if it was given one.
    pub title: Option<String>,
    /// The day it was begun (UTC), `YYYY-MM-DD`.
    pub begun: Option<String>,
    /// What was said, with all branches.
    pub tree: Tree,
    /// The system prompt that was last in use.
    pub instructions: Option<String>,
    /// The reasoning level that was last in use.
    pub reasoning: Reasoning,
    /// The model that was last in use, as `--model` names it; `None` where the file does not say.
    pub model: Option<String>,
    /// Where what follows is written.
    pub log: Log,
    /// Damage that was passed over.
    pub warning: Option<String>,
}

/// Why a session cannot be found, read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// `read`, `write`, ...
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something that cannot be the name of a session's file.
    #[error("`{0}` cannot be a session: expected letters, digits, `-` and `_`")]
    Id(String),
    /// No session is called that.
    #[error("there is no session `{0}`")]
    NotFound(String),
    /// No session is called that, nor begins so.
    #[error(
        "there is no session `{name}`: expected an id, a title, or how one begins{}",
        find::list(if nearest.len() == 1 { "\nthe nearest is" } else { "\nthe nearest are" }, nearest)
    )]
    Unknown {
        /// As it was given.
        name: String,
        /// Those whose titles are like it.
        nearest: Vec<Summary>,
    },
    /// More than one is.
    #[error("`{name}` may be any of {} sessions{}", candidates.len(), find::list("", candidates))]
    Ambiguous {
        /// As it was given.
        name: String,
        /// All of them, the last one written first.
        candidates: Vec<Summary>,
    },
    /// The file of an open session is not there any more, or is another's.
    #[error("the session's file was {how} while it was in use (`{}`)", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// `deleted`, `replaced`, `changed`
        how: &'static str,
    },
    /// A link in place of the file.
    #[error("`{}` is a link to `{}`, which is not there", path.display(), target.display())]
    Dangling {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Another program writes to it.
    #[error("the session `{0}` is open elsewhere: close it there, or begin a new one")]
    Busy(String),
    /// The file is no session.
    #[error("`{}` is not a session of gptoss: its first line is no header", path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer program.
    #[error(
        "`{}` was written by a newer gptoss (version {version} of the format, this one reads up to {VERSION}): it is left as it is",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A line of the file is not what it should be.
    #[error("`{}` is damaged in line {line} ({problem}): it is left as it is", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Where nothing is at `path` but a link: that.
    fn dangling(path: &Path) -> Option<Self> {
        let target = fs::read_link(path).ok()?;
        (!path.exists()).then(|| Self::Dangling {
            path: path.to_owned(),
            target,
        })
    }

    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

impl Store {
    /// The sessions in `directory`, which need not be there yet.
    pub fn open(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// All sessions in which something was said, the last one written first. One that cannot be read is listed with
    /// its problem.
    ///
    /// # Errors
    /// [`Error::Io`] when the directory is there and cannot be read.
    pub fn list(&self, now: SystemTime) -> Result<Vec<Summary>, Error> {
        Ok(self.summaries(now)?.collect())
    }

    /// The session that was last written and can be read.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn latest(&self, now: SystemTime) -> Result<Option<Summary>, Error> {
        let mut summaries = self.summaries(now)?;
        Ok(summaries.find(|summary| summary.problem.is_none()))
    }

    /// Begins a session, named after the time, with what is first in it.
    ///
    /// # Errors
    /// [`Error::Io`]
    pub fn create(&self, created: SystemTime, first: &[Record]) -> Result<Log, Error> {
        self.make_directory()?;
        let stamp = stamp(created);
        for attempt in 1_u32.. {
            let id = match attempt {
                1 => stamp.clone(),
                more => format!("{stamp}-{more}"),
            };
            let path = self.path(&id)?;
            match options().create_new(true).open(&path) {
                Ok(file) => {
                    let log = Log::begin(id, path.clone(), file, created, first);
                    return log.inspect_err(|_| {
                        // On a full disk every try would leave an empty file.
                        let _ = fs::remove_file(&path);
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create", &path)(error)),
            }
        }
        unreachable!("a directory does not hold 2³² files of one second")
    }

    /// Opens a session to go on with it; nobody else can until its log is dropped.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NotASession`], [`Error::Newer`], [`Error::Damaged`], [`Error::Io`],
    /// [`Error::Id`]; [`Error::NotFound`] where there is no such file.
    pub fn load(&self, id: &str) -> Result<Session, Error> {
        let (path, file) = self.claim(id)?;
        let loaded = read::load(&path, &file)?;
        let state = loaded.state;
        Ok(Session {
            id: id.to_owned(),
            title: state.title,
            begun: loaded.created.get(..10).map(str::to_owned),
            tree: state.tree,
            instructions: state.instructions,
            reasoning: state.reasoning,
            model: state.model,
            log: Log::resume(id.to_owned(), path, file, &loaded.end),
            warning: loaded.warning,
        })
    }

    /// Gives a session that is not open another title; an open one takes a [`Record::Title`].
    ///
    /// # Errors
    /// As [`load`](Self::load): what cannot be read is not written to.
    pub fn rename(&self, id: &str, title: &str) -> Result<(), Error> {
        let mut log = self.load(id)?.log;
        log.append(&[Record::Title(title.to_owned())])
    }

    /// Deletes a session that is not open, damaged or not.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NotFound`], [`Error::Id`], [`Error::Io`]
    pub fn delete(&self, id: &str) -> Result<(), Error> {
        let (path, _claimed) = self.claim(id)?;
        fs::remove_file(&path).map_err(Error::io("delete", &path))
    }

    fn path(&self, id: &str) -> Result<PathBuf, Error> {
        if is_id(id) {
            Ok(self.directory.join(format!("{id}.{ENDING}")))
        } else {
            Err(Error::Id(id.to_owned()))
        }
    }

    /// The file of a session, locked.
    fn claim(&self, id: &str) -> Result<(PathBuf, File), Error> {
        let path = self.path(id)?;
        let file = options().open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Error::dangling(&path).unwrap_or_else(|| Error::NotFound(id.to_owned()))
            }
            _ => Error::io("open", &path)(error),
        })?;
        log::lock(&file, id, &path)?;
        Ok((path, file))
    }

    /// The ids of all sessions with the times they were last written, the latest first.
    fn files(&self) -> Result<Vec<(String, SystemTime)>, Error> {
        let failed = |error| Error::io("read", &self.directory)(error);
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let id = name
                .to_str()
                .and_then(|name| name.strip_suffix(ENDING)?.strip_suffix('.'));
            let Some(id) = id.filter(|id| is_id(id)) else {
                continue;
            };
            // A file that is deleted meanwhile is not listed; a link to one that is gone is, as that.
            let data = fs::metadata(entry.path());
            let is_link = |data: &fs::Metadata| data.is_symlink();
            if let Ok(data) = data.or_else(|_| entry.metadata())
                && (data.is_file() || is_link(&data))
            {
                files.push((
                    id.to_owned(),
                    data.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                ));
            }
        }
        files.sort_by(|(a, a_time), (b, b_time)| b_time.cmp(a_time).then_with(|| b.cmp(a)));
        Ok(files)
    }

    fn summaries(&self, now: SystemTime) -> Result<impl Iterator<Item = Summary>, Error> {
        let zone = jiff::tz::TimeZone::system();
        let summary = move |(id, modified): (String, SystemTime)| {
            let path = self.directory.join(format!("{id}.{ENDING}"));
            let glance = read::glance(&path);
            Summary {
                id,
                title: glance.title,
                modified,
                age: age::age(modified, now, &zone),
                messages: glance.messages,
                problem: glance.problem.map(|problem| problem.to_string()),
            }
        };
        // A program that was ended at the wrong moment leaves a file in which nothing was said.
        let has_content = |summary: &Summary| {
            summary.messages > 0 || !summary.title.is_empty() || summary.problem.is_some()
        };
        Ok(self.files()?.into_iter().map(summary).filter(has_content))
    }

    /// What people say to a model is theirs alone.
    fn make_directory(&self) -> Result<(), Error> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&self.directory)
            .map_err(Error::io("create", &self.directory))
    }
}

/// To read and append, for the user alone.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// An id is the name of a file in the directory and cannot lead out of it.
fn is_id(id: &str) -> bool {
    (1..=100).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// `20251129-190307`: sorts by time.
fn stamp(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(
        |_| "session".to_owned(),
        |time| time.strftime("%Y%m%d-%H%M%S").to_string(),
    )
}

#[cfg(test)]
mod tests;
