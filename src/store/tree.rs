//! What was said, with every branch: editing or regenerating starts a new one and keeps the old.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::session::{Finish, Message};

/// How many characters of a first message make a title.
const TITLE_LENGTH: usize = 60;

/// A place in a [`Tree`]. Ids are given in order, from 0 on.
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

/// All branches of a conversation and which one is current. Ids come from the same tree: another's are a
/// mistake of the program and panic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
    /// Those that nothing follows.
    ends: BTreeSet<NodeId>,
    head: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    entry: Entry,
    parent: Option<NodeId>,
}

impl Tree {
    /// Says something after the head, and makes it the head.
    ///
    /// # Panics
    /// After 2³² entries.
    pub fn push(&mut self, entry: Entry) -> NodeId {
        let id = self.next_id();
        self.nodes.push(Node {
            entry,
            parent: self.head,
        });
        if let Some(parent) = self.head {
            self.ends.remove(&parent);
        }
        self.ends.insert(id);
        self.head = Some(id);
        id
    }

    /// The id of what is said next.
    ///
    /// # Panics
    /// After 2³² entries.
    pub fn next_id(&self) -> NodeId {
        NodeId(u32::try_from(self.nodes.len()).expect("nobody says so much"))
    }

    /// The last thing said on the current branch.
    pub fn head(&self) -> Option<NodeId> {
        self.head
    }

    /// Goes on from `head`; `None` starts again from nothing, beside what was said first.
    pub fn set_head(&mut self, head: Option<NodeId>) {
        self.head = head;
    }

    /// Nothing was ever said.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How much was said on all branches; ids are below it.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether `id` is a place in this tree.
    pub fn contains(&self, id: NodeId) -> bool {
        (id.0 as usize) < self.nodes.len()
    }

    /// What was said there.
    pub fn entry(&self, id: NodeId) -> &Entry {
        &self.node(id).entry
    }

    /// What it follows.
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).parent
    }

    /// The current branch from the first message to the head.
    pub fn path(&self) -> Vec<NodeId> {
        let mut path: Vec<NodeId> =
            std::iter::successors(self.head, |id| self.node(*id).parent).collect();
        path.reverse();
        path
    }

    /// The ends of all branches, oldest first.
    pub fn ends(&self) -> impl Iterator<Item = NodeId> {
        self.ends.iter().copied()
    }

    /// How the first message begins, on one line; what has no title is called that.
    pub fn beginning(&self) -> Option<String> {
        self.nodes.iter().find_map(|node| match &node.entry {
            Entry::User(text) => Some(beginning(text)),
            Entry::Turn(_) => None,
        })
    }

    /// The current branch as the model reads it, thinking included.
    pub fn history(&self) -> Vec<Message> {
        let mut history = Vec::new();
        for id in self.path() {
            match self.entry(id) {
                Entry::User(text) => history.push(Message::user(text)),
                Entry::Turn(turn) => history.extend_from_slice(&turn.messages),
            }
        }
        history
    }

    /// Everything that was said, with its parent, in the order of the ids.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, Option<NodeId>, &Entry)> {
        (0..)
            .zip(&self.nodes)
            .map(|(id, node)| (NodeId(id), node.parent, &node.entry))
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }
}

/// How a message begins, on one line.
pub(super) fn beginning(text: &str) -> String {
    let mut title = String::new();
    for word in text.split_whitespace() {
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

#[cfg(test)]
mod tests;
