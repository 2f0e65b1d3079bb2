//! One conversation: generator, tokenizer and parser together. A turn is a stream of events.
//!
//! A turn renders the whole conversation and lets the generator keep what its cache already holds of
//! it, so the history can be edited, cut or extended freely between turns: only what changed is read
//! again.

pub mod memory;
mod model;
mod repetition;
mod replay;
mod turn;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine;
use crate::harmony::{self, Conversation, DeveloperContent, Parser, SystemContent};
use crate::tokenizer;

pub use crate::engine::devices::{self, Choice as DeviceChoice};
pub use crate::engine::{
    Cancel, Compute, Dense, EngineOptions as LoadOptions, KvType, LoadProgress, LoadStep, Sampling,
    Stats,
};
pub use crate::harmony::message::InvalidArguments;
pub use crate::harmony::tools::{ToolError, parse_tools};
pub use crate::harmony::{Kind, Message, Reasoning, Tool};
pub use model::{Completion, Model};
pub use repetition::Repetition;
pub use turn::{ToolCall, Turn};

/// Why a model cannot be loaded or a turn cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The weights came without a vocabulary.
    #[error("`{checkpoint}` has no tokenizer.json, expected one beside the weights")]
    NoTokenizer {
        /// Where the weights came from.
        checkpoint: String,
    },
    /// The vocabulary cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] tokenizer::Error),
    /// The vocabulary belongs to another model than the weights.
    #[error(
        "`{}` gives `{token}` the id {id} and the weights know ids below {vocab_size}; get both from the same \
         checkpoint",
        file.display()
    )]
    OtherTokenizer {
        /// tokenizer.json
        file: PathBuf,
        /// A control token.
        token: String,
        /// Its id.
        id: u32,
        /// Rows of the embedding.
        vocab_size: usize,
    },
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A recording cannot be played.
    #[error("line {line} of the recording: {reason}")]
    Recording {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// What helps, where a device failed.
    pub const fn way_out(&self) -> Option<&'static str> {
        match self {
            Self::Engine(engine::Error::Gpu(error)) => Some(error.way_out()),
            _ => None,
        }
    }

    /// Tokens of the prompt and of the context, where that is what did not fit.
    pub fn too_long(&self) -> Option<(usize, usize)> {
        match self {
            Self::Engine(engine::Error::PromptTooLong { prompt, context }) => {
                Some((*prompt, *context))
            }
            _ => None,
        }
    }
}

/// What happens during a turn or a completion.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// `done` of `total` prompt tokens are in the cache, `reused` of them from before.
    Prefill {
        /// Tokens in the cache.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
        /// Of `done`, those that were there before.
        reused: usize,
    },
    /// One more token was made; its text, if it completes any, follows.
    Token(u32),
    /// A message begins; its content is still empty.
    Start(Message),
    /// More text of the current message, or of the completion.
    Text(String),
    /// The message is complete.
    End(Message),
    /// The output has begun to loop; said once, nothing is stopped.
    Repeating(Repetition),
}

impl From<harmony::Event> for Event {
    fn from(event: harmony::Event) -> Self {
        match event {
            harmony::Event::Start(message) => Self::Start(message),
            harmony::Event::Text(text) => Self::Text(text),
            harmony::Event::End(message) => Self::End(message),
        }
    }
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model said that it is done.
    Stop,
    /// The model calls a tool and waits for its result.
    ToolCall,
    /// The token limit was reached.
    Length,
    /// The context is full.
    Context,
    /// It was asked to stop.
    Cancelled,
}

impl Finish {
    /// As it is written in JSON: `stop`, `tool_call`, `length`, `context`, `cancelled`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCall => "tool_call",
            Self::Length => "length",
            Self::Context => "context",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<engine::Finish> for Finish {
    fn from(finish: engine::Finish) -> Self {
        match finish {
            engine::Finish::Stop(_) => Self::Stop,
            engine::Finish::Length => Self::Length,
            engine::Finish::Context => Self::Context,
            engine::Finish::Cancelled => Self::Cancelled,
        }
    }
}

/// How tokens are chosen and how many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnOptions {
    /// How a token is chosen.
    pub sampling: Sampling,
    /// `None`: until the model stops or the context is full.
    pub max_tokens: Option<usize>,
}

/// What stands before the conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// `YYYY-MM-DD`; `None` leaves the line out of the system message.
    pub date: Option<String>,
    /// The `Reasoning:` line of the system message.
    pub reasoning: Reasoning,
    /// What users call the system prompt; it goes to the developer message.
    pub instructions: Option<String>,
    /// Functions the model may call.
    pub tools: Vec<Tool>,
}

impl Setup {
    /// The system message and, where there is something to say, the developer message.
    pub fn messages(&self) -> Vec<Message> {
        let system = SystemContent {
            date: self.date.clone(),
            reasoning: Some(self.reasoning),
            ..SystemContent::default()
        };
        let developer = DeveloperContent {
            instructions: self.instructions.clone(),
            tools: (!self.tools.is_empty()).then(|| self.tools.clone()),
            ..DeveloperContent::default()
        };
        let mut messages = vec![Message::system(system)];
        if developer != DeveloperContent::default() {
            messages.push(Message::developer(developer));
        }
        messages
    }
}

/// A conversation with a loaded model.
pub struct ChatSession {
    model: Model,
    /// What stands before the conversation; may change between turns.
    pub setup: Setup,
    /// Everything said so far, analysis included; may be edited, cut and extended between turns.
    pub history: Vec<Message>,
}

impl ChatSession {
    /// An empty conversation.
    pub fn new(model: Model, setup: Setup) -> Self {
        Self {
            model,
            setup,
            history: Vec::new(),
        }
    }

    /// The model, for its figures.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model, for completions without harmony; they replace what the cache holds.
    pub fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Setup and history, as the next turn will read them.
    pub fn conversation(&self) -> Conversation {
        let mut messages = self.setup.messages();
        messages.extend_from_slice(&self.history);
        Conversation { messages }
    }

    /// The tokens that the next turn will read.
    pub fn prompt(&self) -> Vec<u32> {
        harmony::render(&self.conversation(), self.model.tokenizer())
    }

    /// Tokens of a text.
    pub fn count(&self, text: &str) -> usize {
        self.model.tokenizer().encode(text).len()
    }

    /// Tokens of the last message alone, and of the prompt if nothing else had been said.
    pub fn count_last(&self) -> (usize, usize) {
        let Some(last) = self.history.last() else {
            return (0, self.prompt().len());
        };
        let mut messages = self.setup.messages();
        messages.push(last.clone());
        let afresh = harmony::render(&Conversation { messages }, self.model.tokenizer());
        (self.count(&last.text()), afresh.len())
    }

    /// Adds a user message.
    pub fn push_user(&mut self, text: impl Into<String>) {
        self.history.push(Message::user(text));
    }

    /// Lets the model go on: its messages are streamed to `on_event` and added to the history, also
    /// when it was cancelled on the way.
    ///
    /// # Errors
    /// [`Error::Engine`]: the conversation is longer than the context, a sampling value is out of range,
    /// or the logits are not finite. The history is then as it was.
    pub fn turn(
        &mut self,
        options: &TurnOptions,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Turn, Error> {
        let prompt = self.prompt();
        let mut parser = Parser::new(self.model.tokenizer().clone());
        let mut messages = Vec::new();
        let mut parsed = |events: Vec<harmony::Event>, on_event: &mut dyn FnMut(Event)| {
            for event in events {
                if let harmony::Event::End(message) = &event {
                    messages.push(message.clone());
                }
                on_event(event.into());
            }
        };
        let output = self
            .model
            .generate(&prompt, options, cancel, &mut |event| {
                let token = match event {
                    Event::Token(id) => Some(id),
                    _ => None,
                };
                on_event(event);
                if let Some(id) = token {
                    parsed(parser.push(id), on_event);
                }
            })?;
        parsed(parser.finish(), on_event);
        self.history.extend_from_slice(&messages);
        let call = self.model.tokenizer().special().call;
        Ok(Turn::new(messages, output, call))
    }
}

#[cfg(test)]
mod tests;
