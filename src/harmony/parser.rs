//! Token ids to messages, streaming, never raising.

use super::Message;
use crate::tokenizer::Tokenizer;
use std::sync::Arc;

/// What the parser saw.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A header is complete; `message.content` is still empty.
    Start(Message),
    /// More text of the current message; the sum of the deltas is its content.
    Text(String),
    /// The message is complete.
    End(Message),
}

/// Parses what a model makes after `<|start|>assistant`.
pub struct Parser {/* private */}

impl Parser {
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        let _ = tokenizer;
        todo!()
    }
    pub fn push(&mut self, token: u32) -> Vec<Event> {
        let _ = token;
        todo!()
    }
    /// The tokens ended: closes what is open.
    pub fn finish(&mut self) -> Vec<Event> {
        todo!()
    }
}
