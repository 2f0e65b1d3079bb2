//! What was said, with every branch: editing or regenerating starts a new one and keeps the old.

use std::time::Duration;

use crate::session::{Finish, Message};

/// A place in a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// One side of an exchange.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// What the user said.
    User(String),
    /// What the model made in one turn.
    Turn(TurnRecord),
}

/// A turn with its figures.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TurnRecord {
    pub messages: Vec<Message>,
    pub finish: Finish,
    pub prompt_tokens: usize,
    pub cached_tokens: usize,
    pub generated_tokens: usize,
    pub prefill: Duration,
    pub time_to_first_token: Option<Duration>,
    pub decode: Duration,
    pub seed: u64,
}

/// All branches of a conversation and which one is current.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {/* private */}

impl Tree {
    /// Says something after the head, and makes it the head.
    pub fn push(&mut self, entry: Entry) -> NodeId {
        let _ = entry;
        todo!()
    }
    /// The last thing said on the current branch.
    pub fn head(&self) -> Option<NodeId> {
        todo!()
    }
    /// Goes on from `head`.
    pub fn set_head(&mut self, head: Option<NodeId>) {
        let _ = head;
    }
    /// What was said there.
    pub fn entry(&self, id: NodeId) -> &Entry {
        let _ = id;
        todo!()
    }
    /// What it follows.
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        let _ = id;
        todo!()
    }
    /// The current branch from the first message to the head.
    pub fn path(&self) -> Vec<NodeId> {
        todo!()
    }
    /// The branches at this place, itself included, oldest first.
    pub fn siblings(&self, id: NodeId) -> Vec<NodeId> {
        let _ = id;
        todo!()
    }
    /// The head that was current when the branch through `id` was last in use.
    pub fn tip(&self, id: NodeId) -> NodeId {
        let _ = id;
        todo!()
    }
    /// The current branch as the model reads it.
    pub fn history(&self) -> Vec<Message> {
        todo!()
    }
}
