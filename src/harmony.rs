//! Harmony, the conversation format of gpt-oss, on token ids: messages, rendering, parsing.

pub mod message;
pub mod parser;
pub mod render;
pub mod tools;

pub use message::{Conversation, DeveloperContent, Message, Reasoning, Role, SystemContent};
pub use parser::{Event, Parser};
pub use render::render;
pub use tools::Tool;
