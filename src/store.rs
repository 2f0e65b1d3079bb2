//! Conversations on disk: a tree of what was said, as JSON lines.

pub mod tree;

use std::time::SystemTime;

pub use tree::{Entry, NodeId, Tree, TurnRecord};

/// One line of a session file.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Something was said.
    Node {
        /// Its id.
        id: NodeId,
        /// What it follows.
        parent: Option<NodeId>,
        /// What.
        entry: Entry,
    },
    /// The conversation goes on from here.
    Head(Option<NodeId>),
    /// Its name.
    Title(String),
    /// System prompt and reasoning level from here on.
    Setup {
        /// The system prompt.
        instructions: Option<String>,
        /// `low`, `medium`, `high`
        reasoning: crate::session::Reasoning,
        /// As `--model` names it.
        model: String,
    },
}

/// A saved session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The file's name without its ending.
    pub id: String,
    /// Its name, or how its first message begins.
    pub title: String,
    /// When it was last written.
    pub modified: SystemTime,
    /// User messages.
    pub messages: usize,
    /// Why it cannot be read, if it cannot.
    pub problem: Option<String>,
}
