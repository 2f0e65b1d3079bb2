//! What a turn made, and what of it is answer, thinking or tool call.

use std::borrow::Cow;

use super::{Finish, Stats};
use crate::engine::{self, Output};
use crate::harmony::message::InvalidArguments;
use crate::harmony::{Kind, Message};

/// One answer of the model.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The messages made, the last one perhaps cut off.
    pub messages: Vec<Message>,
    /// Why it ended.
    pub finish: Finish,
    /// The tokens made, the one that ended it included.
    pub token_ids: Vec<u32>,
    /// The figures.
    pub stats: Stats,
}

/// A call of a function tool.
#[derive(Debug)]
pub struct ToolCall {
    /// The function, without its namespace `functions.`.
    pub name: String,
    /// The arguments, or what stands in their place and is not JSON.
    pub arguments: Result<serde_json::Value, InvalidArguments>,
}

impl Turn {
    pub(super) fn new(messages: Vec<Message>, output: Output, call: u32) -> Self {
        let calls = output.finish == engine::Finish::Stop(call)
            || messages
                .last()
                .is_some_and(|message| message.kind() == Kind::ToolCall);
        let finish = match Finish::from(output.finish) {
            Finish::Stop if calls => Finish::ToolCall,
            finish => finish,
        };
        Self {
            messages,
            finish,
            token_ids: output.tokens,
            stats: output.stats,
        }
    }

    /// The answer: the final messages. Where there is none and no tool is called, what the model said to
    /// the user on the commentary channel.
    pub fn answer(&self) -> String {
        let answer = self.text(Kind::Final);
        if answer.is_empty() && self.tool_calls().is_empty() {
            self.text(Kind::Preamble)
        } else {
            answer
        }
    }

    /// The thinking.
    pub fn thinking(&self) -> String {
        self.text(Kind::Thinking)
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> Vec<ToolCall> {
        self.messages
            .iter()
            .filter(|message| message.kind() == Kind::ToolCall)
            .map(ToolCall::from_message)
            .collect()
    }

    /// It ended before anything but thinking was said.
    pub fn stopped_while_thinking(&self) -> bool {
        self.finish != Finish::Stop && self.is_unanswered() && !self.token_ids.is_empty()
    }

    /// There is neither an answer nor a tool call.
    pub fn is_unanswered(&self) -> bool {
        self.answer().is_empty() && self.tool_calls().is_empty()
    }

    /// The texts of the messages of one kind, a blank line between two.
    fn text(&self, kind: Kind) -> String {
        let texts: Vec<Cow<'_, str>> = self
            .messages
            .iter()
            .filter(|message| message.kind() == kind)
            .map(Message::text)
            .filter(|text| !text.is_empty())
            .collect();
        texts.join("\n\n")
    }
}

impl ToolCall {
    fn from_message(message: &Message) -> Self {
        Self {
            name: message.tool_name().unwrap_or_default().to_owned(),
            arguments: message.arguments(),
        }
    }
}
