//! Harmony, the conversation format of gpt-oss, on token ids: messages, rendering, parsing.
//!
//! The format is described at <https://github.com/openai/harmony/blob/main/docs/format.md>. A
//! message is `<|start|>`, a header (who speaks, to whom, on which channel, in what type),
//! `<|message|>`, the content, and `<|end|>`, `<|call|>` or `<|return|>`. Everything here works on
//! token ids, so that what people, files and tools write can never become a control token.

pub mod message;
pub mod parser;
pub mod render;
pub mod tools;

pub use message::{
    Content, Conversation, DeveloperContent, Kind, Message, Reasoning, Role, SystemContent,
};
pub use parser::{Event, Parser, parse};
pub use render::{RenderOptions, render, render_with};
pub use tools::{Tool, ToolNamespace, parse_tools};
