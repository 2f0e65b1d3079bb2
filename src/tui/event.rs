//! What happens in a chat, and what is to be done about it, as values.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossterm::event::KeyEvent;

use crate::session::{self, Cancel, Finish, Message, Setup, Stats, TurnOptions};
use crate::store::{Hit, Record, Summary};

/// One turn of one run of the program; events of an older turn are ignored.
pub type TurnId = u64;

/// What happened.
#[derive(Debug)]
pub enum Msg {
    /// A key was pressed (never a release).
    Key(KeyEvent),
    /// Text came at once: a bracketed paste, or a burst of characters faster than anybody types.
    Paste(String),
    /// The mouse wheel: lines, up is negative.
    Scroll(i16),
    /// A button of the mouse was pressed, which does nothing here.
    Click,
    /// The terminal has a new size.
    Resize {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
    },
    /// The worker says something.
    Worker(WorkerEvent),
    /// The program was stopped for so long, which is nobody's time.
    Stopped(Duration),
    /// Time passes; sent about ten times a second while something moves.
    Tick(Instant),
    /// The external editor came back with this text, or failed.
    Edited(Result<String, String>),
    /// The file of `/read`, or why it cannot be read.
    FileRead {
        /// As given.
        path: PathBuf,
        /// Its text.
        result: Result<String, String>,
    },
    /// The saved sessions, newest first.
    Sessions(Result<Vec<Summary>, String>),
    /// What [`Effect::Search`] found.
    Hits {
        /// What was searched for.
        search: String,
        /// The sessions in which it is.
        result: Result<Vec<Hit>, String>,
    },
    /// A listed session could not be opened, renamed or deleted.
    Refused(String),
    /// The session in use got another title in the list.
    Renamed(String),
    /// The session's file is not there any more, for this reason: all of it is to be saved again.
    Lost(String),
    /// A saved session was opened.
    Opened(Box<Result<Opened, String>>),
    /// Something was done (copied, exported, renamed, deleted): a line for the status.
    Done(String),
    /// Something to read, which stays.
    Told(String),
    /// Something could not be done.
    Problem(String),
    /// Whether something waits that could not be saved.
    Unsaved(bool),
}

/// A session as it was opened.
#[derive(Debug)]
pub struct Opened {
    /// Its name, if it has one.
    pub title: Option<String>,
    /// The day it was begun, `YYYY-MM-DD`.
    pub begun: Option<String>,
    /// What was said, with all branches.
    pub tree: crate::store::Tree,
    /// What stood before it.
    pub setup: Setup,
    /// Damage that was passed over.
    pub warning: Option<String>,
}

/// What the worker says.
#[derive(Clone, Debug)]
pub enum WorkerEvent {
    /// A model is on its way: a download or an upload to a device (`total` in bytes), or the load itself (`total` 0).
    Loading {
        /// `fetching model-00001-of-00002.safetensors`, `loading openai/gpt-oss-20b`, `compiling kernels`
        what: String,
        /// Bytes done.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// A model is there.
    Ready(ModelInfo),
    /// It could not be loaded; the one before, if any, is still there.
    LoadFailed {
        /// What went wrong.
        message: String,
        /// The way out, if there is one.
        hint: Option<String>,
    },
    /// Something happened in a turn.
    Turn {
        /// Which.
        turn: TurnId,
        /// What.
        event: session::Event,
    },
    /// A turn ended, or failed (a panic in the worker too).
    Finished {
        /// Which.
        turn: TurnId,
        /// What it made.
        outcome: Result<Outcome, TurnError>,
    },
    /// How many tokens the texts of [`Command::Count`] have.
    Counted {
        /// Of the question.
        id: u64,
        /// In their order.
        tokens: Vec<usize>,
    },
}

/// The model in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// As `--model` names it.
    pub name: String,
    /// What it runs on.
    pub device: String,
    /// Positions of its context.
    pub context: usize,
    /// Positions that it could have (`max_position_embeddings`).
    pub most: usize,
    /// How long loading took.
    pub load_time: Duration,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnError {
    /// For the screen.
    pub reason: String,
    /// Where the conversation does not fit into the context.
    pub too_long: Option<TooLong>,
}

impl From<String> for TurnError {
    fn from(reason: String) -> Self {
        Self {
            reason,
            too_long: None,
        }
    }
}

/// How much too long a conversation is, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The last message alone.
    pub message: usize,
    /// What would be read if nothing else were said.
    pub afresh: usize,
    /// What was to be read.
    pub prompt: usize,
    /// What there is room for.
    pub context: usize,
}

/// What a turn made.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The messages, the last one perhaps cut off.
    pub messages: Vec<Message>,
    /// Why it ended.
    pub finish: Finish,
    /// The figures.
    pub stats: Stats,
}

/// What the worker is to do. It ends when the channel is closed.
#[derive(Debug)]
pub enum Command {
    /// Load another model, by its `--model` name.
    Load {
        /// The name.
        model: String,
        /// Set by `Effect::Cancel`: a download ends.
        cancel: Cancel,
    },
    /// Count the tokens of texts; answered by [`WorkerEvent::Counted`] where there is a model.
    Count {
        /// Goes back with the answer.
        id: u64,
        /// The texts.
        texts: Vec<String>,
    },
    /// Let the model answer.
    Turn {
        /// Which turn its events belong to.
        turn: TurnId,
        /// System and developer message.
        setup: Setup,
        /// What was said, the user's last message included.
        history: Vec<Message>,
        /// Sampling and limits.
        options: TurnOptions,
        /// Set by `Effect::Cancel` without waiting for the worker.
        cancel: Cancel,
    },
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Give the worker something to do.
    Send(Command),
    /// Stop the turn, or the download, now.
    Cancel(Cancel),
    /// To the clipboard: OSC 52 and the system's own.
    Copy(String),
    /// Append to the session's file (which the first record creates).
    Save(Record),
    /// Start a new session file with the next record.
    NewSession,
    /// Start a new session file with all of these; answered by [`Msg::Told`] or [`Msg::Problem`], which say where.
    SaveAll(Vec<Record>),
    /// Open this text in `$VISUAL` or `$EDITOR`; answered by [`Msg::Edited`].
    Edit(String),
    /// Read a text file; answered by [`Msg::FileRead`].
    ReadFile(PathBuf),
    /// Write a file, never over one that is there; answered by [`Msg::Done`] or [`Msg::Problem`].
    Export {
        /// Where.
        path: PathBuf,
        /// What.
        content: String,
    },
    /// List the saved sessions; answered by [`Msg::Sessions`].
    ListSessions,
    /// Search the messages of the saved sessions; answered by [`Msg::Hits`], unless another search follows.
    Search(String),
    /// Open a saved session; answered by [`Msg::Opened`].
    OpenSession(String),
    /// Give the current (`None`) or a listed session another title; answered by [`Msg::Done`], and `Msg::Sessions` for a listed one.
    RenameSession {
        /// Its id.
        id: Option<String>,
        /// The new title.
        title: String,
    },
    /// Delete a saved session; answered by [`Msg::Sessions`].
    DeleteSession(String),
    /// Ctrl-Z: give the terminal back and stop until `fg`.
    Suspend,
    /// Take the mouse, or leave it to the terminal.
    Mouse(bool),
    /// Draw everything anew.
    Repaint,
    /// Leave with this exit code.
    Quit(u8),
}
