//! Harmony, the conversation format of gpt-oss, on token ids: messages, rendering, parsing.
//!
//! The format is described at <https://github.com/openai/harmony/blob/main/docs/format.md>. A
//! message is `<|start|>`, a header (who speaks, to whom, on which channel, in what type),
//! `<|message|>`, the content, and `<|end|>`, `<|call|>` or `<|return|>`. Everything here works on
//! token ids, so that what people, files and tools write can never become a control token.
//!
//! ```
//! use gptoss::harmony::{Conversation, Kind, Message, parse, render};
//! use gptoss::tokenizer::Tokenizer;
//! use std::sync::Arc;
//!
//! let json = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny/tokenizer.json"));
//! let tokenizer = Arc::new(Tokenizer::from_json(json, "tiny")?);
//!
//! let conversation = Conversation::from(vec![Message::user("2 + 2?")]);
//! let prompt = render(&conversation, &tokenizer);
//! assert_eq!(
//!     tokenizer.decode(&prompt),
//!     "<|start|>user<|message|>2 + 2?<|end|><|start|>assistant"
//! );
//!
//! // What the model goes on with, here: <|channel|>final<|message|>4<|return|>
//! let special = tokenizer.special();
//! let mut made = vec![special.channel];
//! made.extend(tokenizer.encode("final"));
//! made.push(special.message);
//! made.extend(tokenizer.encode("4"));
//! made.push(special.return_);
//! let messages = parse(&tokenizer, &made);
//! assert_eq!(messages, [Message::assistant("final", "4")]);
//! assert_eq!(messages[0].kind(), Kind::Final);
//! # Ok::<(), gptoss::tokenizer::Error>(())
//! ```

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

#[cfg(test)]
mod testing;
