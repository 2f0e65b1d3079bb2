//! Token ids to messages, streaming, never raising.
//!
//! A model now and then writes a header that the format does not allow. Nothing it writes is an
//! error here: the text is kept, and what cannot be told apart counts as thinking.

mod header;

use super::{Content, Message};
use crate::tokenizer::{Special, Tokenizer, Utf8Stream};
use header::Header;
use std::sync::Arc;

/// Tokens a header may have. A longer one is free text and becomes content, so that a model that
/// forgot `<|message|>` does not write unseen for ever.
const MAX_HEADER: usize = 64;

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
///
/// Every message gives one [`Event::Start`], any number of [`Event::Text`] and one [`Event::End`].
/// `<|end|>`, `<|return|>` and `<|call|>` end a message; `<|endoftext|>` does in a header, and is
/// dropped as the last token of a content. Other control tokens within a content are its text, as
/// in openai-harmony. Text without any header is a message without a channel.
pub struct Parser {
    tokenizer: Arc<Tokenizer>,
    special: Special,
    state: State,
}

enum State {
    /// After a message; anything but `<|start|>` opens an assistant message all the same.
    Between,
    Header(Header),
    Content(Body),
}

/// A message whose content is being read.
struct Body {
    message: Message,
    text: String,
    utf8: Utf8Stream,
    /// How many `<|endoftext|>` came last: dropped if nothing follows, text otherwise.
    endoftext: usize,
    /// No `<|message|>` led here, so a header may still come.
    headless: bool,
}

impl Body {
    fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        let delta = self.utf8.push(bytes);
        self.add(delta, events);
    }

    fn add(&mut self, delta: String, events: &mut Vec<Event>) {
        if !delta.is_empty() {
            self.text.push_str(&delta);
            events.push(Event::Text(delta));
        }
    }

    fn end(mut self, events: &mut Vec<Event>) {
        let rest = self.utf8.finish();
        self.add(rest, events);
        events.push(Event::End(Message {
            content: vec![Content::Text(self.text)],
            ..self.message
        }));
    }
}

impl Parser {
    /// A parser whose next token follows `<|start|>assistant`.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self {
            special: tokenizer.special(),
            tokenizer,
            state: State::Header(Header::of_assistant()),
        }
    }

    /// The message that is being read, its content still empty; `None` in a header and between
    /// messages.
    pub fn current(&self) -> Option<&Message> {
        match &self.state {
            State::Content(body) => Some(&body.message),
            State::Header(_) | State::Between => None,
        }
    }

    /// Takes one token. Ids that the vocabulary does not know are skipped.
    pub fn push(&mut self, token: u32) -> Vec<Event> {
        let mut events = Vec::new();
        self.state = match std::mem::replace(&mut self.state, State::Between) {
            State::Between => self.between(token, &mut events),
            State::Header(header) => self.header(header, token, &mut events),
            State::Content(body) => self.content(body, token, &mut events),
        };
        events
    }

    /// The tokens ended: closes what is open.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        match std::mem::replace(&mut self.state, State::Between) {
            State::Between => {}
            State::Header(header) => {
                if !header.is_empty() {
                    start_without_header(&header, &mut events).end(&mut events);
                }
            }
            State::Content(body) => body.end(&mut events),
        }
        events
    }

    fn is_stop(&self, token: u32) -> bool {
        let special = &self.special;
        [special.end, special.return_, special.call].contains(&token)
    }

    /// White space, or nothing at all.
    fn is_blank(&self, token: u32) -> bool {
        let bytes = self.tokenizer.token_bytes(token).unwrap_or_default();
        bytes.trim_ascii().is_empty()
    }

    fn between(&self, token: u32, events: &mut Vec<Event>) -> State {
        if token == self.special.start {
            State::Header(Header::after_start())
        } else if self.is_stop(token)
            || Some(token) == self.special.endoftext
            || self.is_blank(token)
        {
            State::Between
        } else {
            self.header(Header::of_assistant(), token, events)
        }
    }

    fn header(&self, mut header: Header, token: u32, events: &mut Vec<Event>) -> State {
        let special = &self.special;
        if token == special.message {
            return State::Content(start(header.parse(), false, events));
        }
        if self.is_stop(token) || Some(token) == special.endoftext {
            start_without_header(&header, events).end(events);
            return State::Between;
        }
        if token == special.start {
            if !header.is_empty() {
                start_without_header(&header, events).end(events);
            }
            return State::Header(Header::after_start());
        }
        if token == special.channel {
            header.channel();
        } else if token == special.constrain {
            header.constrain();
        } else if let Some(bytes) = self.tokenizer.token_bytes(token) {
            header.text(bytes);
        }
        if !header.is_free_text() && header.tokens() < MAX_HEADER {
            return State::Header(header);
        }
        State::Content(start_without_header(&header, events))
    }

    fn content(&self, mut body: Body, token: u32, events: &mut Vec<Event>) -> State {
        let special = &self.special;
        if self.is_stop(token) {
            body.end(events);
            return State::Between;
        }
        if Some(token) == special.endoftext {
            body.endoftext += 1;
            return State::Content(body);
        }
        if body.headless && (token == special.start || token == special.channel) {
            body.end(events);
            return self.between(token, events);
        }
        if body.headless && token == special.message {
            let message = body.message.clone();
            body.end(events);
            return State::Content(start(message, false, events));
        }
        let Some(bytes) = self.tokenizer.token_bytes(token) else {
            return State::Content(body);
        };
        let endoftext = special
            .endoftext
            .and_then(|id| self.tokenizer.token_bytes(id));
        let held_back = endoftext.unwrap_or_default().repeat(body.endoftext);
        body.endoftext = 0;
        body.push(&[&held_back, bytes].concat(), events);
        State::Content(body)
    }
}

/// Begins the content of a message.
fn start(message: Message, headless: bool, events: &mut Vec<Event>) -> Body {
    events.push(Event::Start(message.clone()));
    Body {
        message,
        text: String::new(),
        utf8: Utf8Stream::default(),
        endoftext: 0,
        headless,
    }
}

/// Begins a message whose `<|message|>` is missing: words that are no header are its content.
fn start_without_header(header: &Header, events: &mut Vec<Event>) -> Body {
    let parsed = header.parse_closed();
    let mut body = start(parsed.message, true, events);
    body.push(&parsed.free_text, events);
    body
}

/// The messages in what a model made after `<|start|>assistant`.
pub fn parse(tokenizer: &Arc<Tokenizer>, tokens: &[u32]) -> Vec<Message> {
    let mut parser = Parser::new(Arc::clone(tokenizer));
    let mut events: Vec<Event> = tokens.iter().flat_map(|&id| parser.push(id)).collect();
    events.extend(parser.finish());
    events
        .into_iter()
        .filter_map(|event| match event {
            Event::End(message) => Some(message),
            Event::Start(_) | Event::Text(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
