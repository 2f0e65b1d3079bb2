//! The lines of a session file.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::tree::{Entry, NodeId, TurnRecord};
use crate::session::{Finish, Message, Reasoning};

/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 1;

/// One line of a session file.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Something was said.
    Node {
        /// Its id.
        id: NodeId,
        /// What it follows.
        parent: Option<NodeId>,
        /// What.
        entry: Entry,
    },
    /// The conversation goes on from here.
    Head(Option<NodeId>),
    /// Its name; an empty one takes it away.
    Title(String),
    /// System prompt and reasoning level from here on.
    Setup {
        /// The system prompt.
        instructions: Option<String>,
        /// `low`, `medium`, `high`
        reasoning: Reasoning,
        /// As `--model` names it.
        model: String,
    },
    /// What has come of a turn that is being made. The turn itself replaces it; where none follows, the program
    /// was ended before.
    Partial(Partial),
}

/// A piece of a turn under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// The id that the turn will have.
    pub id: NodeId,
    /// What the turn follows.
    pub parent: Option<NodeId>,
    /// The message that begins, without its text; `None` where the last one goes on.
    pub begins: Option<Message>,
    /// More of its text.
    pub text: String,
    /// Tokens of the turn's prompt.
    pub prompt_tokens: usize,
    /// Tokens that were made so far.
    pub generated_tokens: usize,
}

/// The first line. Fields that a newer version adds are not looked at before the version is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    #[serde(rename = "gptoss_session")]
    pub version: u64,
    #[serde(default)]
    pub created: String,
}

/// A record as JSON has it. `type` is written first: lists tell by it what they need not read.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line<'a> {
    User {
        id: u32,
        parent: Option<u32>,
        text: Cow<'a, str>,
    },
    Turn {
        id: u32,
        parent: Option<u32>,
        messages: Cow<'a, [Message]>,
        finish: Finish,
        prompt_tokens: usize,
        cached_tokens: usize,
        generated_tokens: usize,
        #[serde(with = "seconds")]
        prefill_seconds: Duration,
        #[serde(with = "seconds::optional")]
        ttft_seconds: Option<Duration>,
        #[serde(with = "seconds")]
        decode_seconds: Duration,
        seed: u64,
    },
    Head {
        id: Option<u32>,
    },
    Title {
        title: Cow<'a, str>,
    },
    Setup {
        instructions: Option<Cow<'a, str>>,
        reasoning: Reasoning,
        model: Cow<'a, str>,
    },
    Partial {
        id: u32,
        parent: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        begins: Option<Cow<'a, Message>>,
        text: Cow<'a, str>,
        prompt_tokens: usize,
        generated_tokens: usize,
    },
}

impl Header {
    pub(super) fn new(created: SystemTime) -> Self {
        Self {
            version: VERSION,
            created: jiff::Timestamp::try_from(created)
                .map(|time| format!("{time:.0}"))
                .unwrap_or_default(),
        }
    }
}

impl<'a> Line<'a> {
    pub(super) fn of_node(id: NodeId, parent: Option<NodeId>, entry: &'a Entry) -> Self {
        let (id, parent) = (id.0, parent.map(|parent| parent.0));
        match entry {
            Entry::User(text) => Self::User {
                id,
                parent,
                text: text.into(),
            },
            Entry::Turn(turn) => Self::Turn {
                id,
                parent,
                messages: Cow::Borrowed(&turn.messages),
                finish: turn.finish,
                prompt_tokens: turn.prompt_tokens,
                cached_tokens: turn.cached_tokens,
                generated_tokens: turn.generated_tokens,
                prefill_seconds: turn.prefill,
                ttft_seconds: turn.time_to_first_token,
                decode_seconds: turn.decode,
                seed: turn.seed,
            },
        }
    }
}

impl<'a> From<&'a Record> for Line<'a> {
    fn from(record: &'a Record) -> Self {
        match record {
            Record::Node { id, parent, entry } => Self::of_node(*id, *parent, entry),
            Record::Head(id) => Self::Head {
                id: id.map(|id| id.0),
            },
            Record::Title(title) => Self::Title {
                title: title.into(),
            },
            Record::Setup {
                instructions,
                reasoning,
                model,
            } => Self::Setup {
                instructions: instructions.as_deref().map(Cow::Borrowed),
                reasoning: *reasoning,
                model: model.into(),
            },
            Record::Partial(partial) => Self::Partial {
                id: partial.id.0,
                parent: partial.parent.map(|parent| parent.0),
                begins: partial.begins.as_ref().map(Cow::Borrowed),
                text: (&partial.text).into(),
                prompt_tokens: partial.prompt_tokens,
                generated_tokens: partial.generated_tokens,
            },
        }
    }
}

impl From<Line<'_>> for Record {
    fn from(line: Line<'_>) -> Self {
        let node = |id, parent: Option<u32>, entry| Self::Node {
            id: NodeId(id),
            parent: parent.map(NodeId),
            entry,
        };
        match line {
            Line::User { id, parent, text } => node(id, parent, Entry::User(text.into_owned())),
            Line::Turn {
                id,
                parent,
                messages,
                finish,
                prompt_tokens,
                cached_tokens,
                generated_tokens,
                prefill_seconds,
                ttft_seconds,
                decode_seconds,
                seed,
            } => {
                let turn = TurnRecord {
                    messages: messages.into_owned(),
                    finish,
                    prompt_tokens,
                    cached_tokens,
                    generated_tokens,
                    prefill: prefill_seconds,
                    time_to_first_token: ttft_seconds,
                    decode: decode_seconds,
                    seed,
                };
                node(id, parent, Entry::Turn(turn))
            }
            Line::Head { id } => Self::Head(id.map(NodeId)),
            Line::Title { title } => Self::Title(title.into_owned()),
            Line::Setup {
                instructions,
                reasoning,
                model,
            } => Self::Setup {
                instructions: instructions.map(Cow::into_owned),
                reasoning,
                model: model.into_owned(),
            },
            Line::Partial {
                id,
                parent,
                begins,
                text,
                prompt_tokens,
                generated_tokens,
            } => Self::Partial(Partial {
                id: NodeId(id),
                parent: parent.map(NodeId),
                begins: begins.map(Cow::into_owned),
                text: text.into_owned(),
                prompt_tokens,
                generated_tokens,
            }),
        }
    }
}

/// Durations as seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(de::Error::custom)
    }

    pub mod optional {
        use super::{Deserialize, Deserializer, Duration, Serializer, de};

        #[expect(clippy::ref_option, reason = "the signature is serde's")]
        pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
            match time {
                Some(time) => to.serialize_some(&time.as_secs_f64()),
                None => to.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Duration>, D::Error> {
            Option::<f64>::deserialize(from)?
                .map(Duration::try_from_secs_f64)
                .transpose()
                .map_err(de::Error::custom)
        }
    }
}
