//! What the records of a session add up to.

use std::time::Duration;

use super::record::{Partial, Record};
use super::tree::{Entry, NodeId, Tree, TurnRecord};
use crate::session::{Finish, Message, Reasoning};

/// What the records of a file add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub title: Option<String>,
    pub tree: Tree,
    pub instructions: Option<String>,
    pub reasoning: Reasoning,
    pub model: Option<String>,
    /// A turn of which there are only pieces so far.
    making: Option<Making>,
}

#[derive(Clone, Debug, PartialEq)]
struct Making {
    id: NodeId,
    parent: Option<NodeId>,
    messages: Vec<(Message, String)>,
    prompt_tokens: usize,
    generated_tokens: usize,
}

impl State {
    /// Takes the next record; a problem says why it cannot follow on those before.
    pub fn apply(&mut self, record: Record) -> Result<(), String> {
        let goes_on = match &record {
            Record::Node { id, .. } if self.is_making(*id) => {
                self.making = None;
                true
            }
            Record::Partial(partial) => self.is_making(partial.id),
            Record::Node { .. } | Record::Head(_) => false,
            Record::Title(_) | Record::Setup { .. } => true,
        };
        if !goes_on {
            self.settle();
        }
        let known = |tree: &Tree, id: Option<NodeId>| match id {
            Some(id) if !tree.contains(id) => Err(format!(
                "it names the entry {}, and there are {} so far",
                id.0,
                tree.len()
            )),
            _ => Ok(()),
        };
        match record {
            Record::Node { id, parent, entry } => {
                known(&self.tree, parent)?;
                self.expect(id)?;
                if self.tree.head() != parent {
                    self.tree.set_head(parent);
                }
                self.tree.push(entry);
            }
            Record::Head(head) => {
                known(&self.tree, head)?;
                self.tree.set_head(head);
            }
            Record::Title(title) => self.title = Some(title).filter(|title| !title.is_empty()),
            Record::Setup {
                instructions,
                reasoning,
                model,
            } => {
                self.instructions = instructions;
                self.reasoning = reasoning;
                self.model = Some(model);
            }
            Record::Partial(partial) => {
                known(&self.tree, partial.parent)?;
                self.expect(partial.id)?;
                self.make(partial)?;
            }
        }
        Ok(())
    }

    /// There is nothing more: a turn that is not whole was cut off. Whether there was one.
    pub fn settle(&mut self) -> bool {
        let Some(making) = self.making.take() else {
            return false;
        };
        let messages = making.messages.into_iter();
        let record = TurnRecord {
            messages: messages
                .map(|(message, text)| Message {
                    content: Message::user(text).content,
                    ..message
                })
                .collect(),
            finish: Finish::Cancelled,
            prompt_tokens: making.prompt_tokens,
            cached_tokens: 0,
            generated_tokens: making.generated_tokens,
            prefill: Duration::ZERO,
            time_to_first_token: None,
            decode: Duration::ZERO,
            seed: 0,
        };
        self.tree.set_head(making.parent);
        self.tree.push(Entry::Turn(record));
        true
    }

    fn is_making(&self, id: NodeId) -> bool {
        self.making.as_ref().is_some_and(|making| making.id == id)
    }

    fn expect(&self, id: NodeId) -> Result<(), String> {
        let next = self.tree.next_id();
        if id == next {
            Ok(())
        } else {
            Err(format!("it is the entry {}, expected {}", id.0, next.0))
        }
    }

    fn make(&mut self, partial: Partial) -> Result<(), String> {
        let making = self.making.get_or_insert_with(|| Making {
            id: partial.id,
            parent: partial.parent,
            messages: Vec::new(),
            prompt_tokens: 0,
            generated_tokens: 0,
        });
        making.prompt_tokens = partial.prompt_tokens;
        making.generated_tokens = partial.generated_tokens;
        match (partial.begins, making.messages.last_mut()) {
            (Some(message), _) => making.messages.push((message, partial.text)),
            (None, Some((_, text))) => text.push_str(&partial.text),
            (None, None) => return Err("it goes on with a message that did not begin".to_owned()),
        }
        Ok(())
    }
}
