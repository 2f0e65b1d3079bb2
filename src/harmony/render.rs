//! Conversation to token ids.

use super::Conversation;
use crate::tokenizer::Tokenizer;

/// The prompt for the next assistant message: the conversation, then `<|start|>assistant`.
pub fn render(conversation: &Conversation, tokenizer: &Tokenizer) -> Vec<u32> {
    let _ = (conversation, tokenizer);
    todo!()
}
