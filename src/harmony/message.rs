//! Roles, messages, conversations.

use super::{Tool, ToolNamespace};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names of the channels, as the model writes them.
pub(super) const ANALYSIS: &str = "analysis";
pub(super) const COMMENTARY: &str = "commentary";
pub(super) const FINAL: &str = "final";

/// The namespace of the caller's own functions.
pub(super) const FUNCTIONS: &str = "functions";

/// What begins a content type that constrains decoding, as in `<|constrain|>json`. In a
/// [`Message`] it is text; rendering and parsing turn it into the control token and back.
pub(super) const CONSTRAIN: &str = "<|constrain|>";

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Identity, date, reasoning level and channels: the frame the model was trained with.
    System,
    /// The caller's instructions (elsewhere called the system prompt) and function tools.
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool; which one is the message's name.
    Tool,
}

impl Role {
    /// The word in a header. A tool's header carries its name instead.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role a header word names; `None` where the word is the name of a tool.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        [
            Self::System,
            Self::Developer,
            Self::User,
            Self::Assistant,
            Self::Tool,
        ]
        .into_iter()
        .find(|role| role.as_str() == word)
    }
}

/// The `Reasoning:` line of the system message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// Short thinking.
    Low,
    /// What the model does unless told otherwise.
    #[default]
    Medium,
    /// Long thinking.
    High,
}

impl Reasoning {
    /// All levels, the least first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// The level's name, as the prompt has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Reasoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reasoning level that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no reasoning level `{0}`: choose low, medium or high (gpt-oss cannot turn reasoning off)"
)]
pub struct UnknownReasoning(pub String);

impl FromStr for Reasoning {
    type Err = UnknownReasoning;

    fn from_str(level: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|known| known.as_str() == level)
            .ok_or_else(|| UnknownReasoning(level.to_owned()))
    }
}

/// The `# Valid channels:` line of the system message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channels {
    /// The channels' names in order.
    pub names: Vec<String>,
    /// Whether the line says that every message must name one.
    pub required: bool,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            names: [ANALYSIS, COMMENTARY, FINAL].map(str::to_owned).to_vec(),
            required: true,
        }
    }
}

/// What the system message says; the default is what the model was trained with, without a date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemContent {
    /// The first line.
    pub identity: Option<String>,
    /// `YYYY-MM`
    pub knowledge_cutoff: Option<String>,
    /// `YYYY-MM-DD`
    pub date: Option<String>,
    /// How long to think.
    pub reasoning: Option<Reasoning>,
    /// Tools the model was trained with, such as `browser` and `python`.
    pub tools: Vec<ToolNamespace>,
    /// The channels the model may write to.
    pub channels: Option<Channels>,
}

impl Default for SystemContent {
    fn default() -> Self {
        Self {
            identity: Some("You are ChatGPT, a large language model trained by OpenAI.".to_owned()),
            knowledge_cutoff: Some("2024-06".to_owned()),
            date: None,
            reasoning: Some(Reasoning::default()),
            tools: Vec::new(),
            channels: Some(Channels::default()),
        }
    }
}

/// What the developer message says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeveloperContent {
    /// The text under `# Instructions`.
    pub instructions: Option<String>,
    /// The caller's functions. `None`: no tools section; an empty list prints its headings.
    pub tools: Option<Vec<Tool>>,
    /// Tools outside the namespace `functions`.
    pub namespaces: Vec<ToolNamespace>,
}

impl DeveloperContent {
    /// Every namespace in the order of its name.
    pub(super) fn tool_namespaces(&self) -> Vec<Cow<'_, ToolNamespace>> {
        let functions = self.tools.as_ref().map(|tools| {
            Cow::Owned(ToolNamespace {
                name: FUNCTIONS.to_owned(),
                description: None,
                tools: tools.clone(),
            })
        });
        let others = self.namespaces.iter().map(Cow::Borrowed);
        let mut all: Vec<_> = functions.into_iter().chain(others).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// The text or the structured content of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Text as it stands.
    Text(String),
    /// The parts of a system message.
    System(SystemContent),
    /// The parts of a developer message.
    Developer(DeveloperContent),
}

/// What a front end does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reasoning, or text whose place is not clear: shown apart from the answer or not at all.
    Thinking,
    /// Said to the person before tools are called (commentary without a recipient).
    Preamble,
    /// The answer.
    Final,
    /// The recipient is a tool, the text its arguments: see [`Message::tool_name`] and
    /// [`Message::arguments`].
    ToolCall,
}

/// Tool arguments that are not JSON, most often because generation was cut off.
#[derive(Debug, thiserror::Error)]
#[error(
    "the arguments of the call to `{tool}` are not valid JSON ({reason}): {}; a call that was cut off needs more tokens",
    excerpt(arguments)
)]
pub struct InvalidArguments {
    /// The tool's name as [`Message::tool_name`] gives it.
    pub tool: String,
    /// What the model wrote.
    pub arguments: String,
    /// What JSON parsing says.
    pub reason: serde_json::Error,
}

fn excerpt(text: &str) -> String {
    const LONGEST: usize = 120;
    let quoted: String = text.chars().take(LONGEST).collect();
    if quoted.len() < text.len() {
        format!("`{quoted}…`")
    } else {
        format!("`{quoted}`")
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// A tool's or a user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `analysis`, `commentary`, `final`, or whatever the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Whom the message is for: a tool such as `functions.get_weather`, or the assistant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient: Option<String>,
    /// `<|constrain|>json`, `code`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Usually one text.
    pub content: Vec<Content>,
}

impl Message {
    /// A message of one text, without name, channel or recipient.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self {
            content: vec![Content::Text(text.into())],
            ..Self::empty(role)
        }
    }

    pub(super) fn empty(role: Role) -> Self {
        Self {
            role,
            name: None,
            channel: None,
            recipient: None,
            content_type: None,
            content: Vec::new(),
        }
    }

    /// The system message.
    pub fn system(content: SystemContent) -> Self {
        Self {
            content: vec![Content::System(content)],
            ..Self::empty(Role::System)
        }
    }

    /// The developer message.
    pub fn developer(content: DeveloperContent) -> Self {
        Self {
            content: vec![Content::Developer(content)],
            ..Self::empty(Role::Developer)
        }
    }

    /// What the person says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, text)
    }

    /// What the model says on a channel.
    pub fn assistant(channel: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            channel: Some(channel.into()),
            ..Self::new(Role::Assistant, text)
        }
    }

    /// A tool's answer to `call`: from the call's recipient, on the call's channel.
    pub fn tool_result(call: &Self, text: impl Into<String>) -> Self {
        Self {
            name: call.recipient.clone(),
            channel: call.channel.clone(),
            recipient: Some(Role::Assistant.as_str().to_owned()),
            ..Self::new(Role::Tool, text)
        }
    }

    /// The texts of the content, one after the other.
    pub fn text(&self) -> Cow<'_, str> {
        match self.content.as_slice() {
            [Content::Text(text)] => Cow::Borrowed(text),
            several => several
                .iter()
                .filter_map(|content| match content {
                    Content::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect(),
        }
    }

    /// What a front end does with the message.
    ///
    /// A channel that is unknown or garbled counts as thinking, and so does whatever a model makes
    /// up for another speaker; an assistant message without any channel is an answer.
    pub fn kind(&self) -> Kind {
        if self.role != Role::Assistant {
            return Kind::Thinking;
        }
        match (self.tool_name(), self.channel.as_deref()) {
            (Some(_), _) => Kind::ToolCall,
            (None, None | Some(FINAL)) => Kind::Final,
            (None, Some(COMMENTARY)) => Kind::Preamble,
            (None, Some(_)) => Kind::Thinking,
        }
    }

    /// The tool this message calls, without the prefix `functions.`; `None` if it calls none.
    pub fn tool_name(&self) -> Option<&str> {
        let recipient = self.recipient.as_deref()?;
        let to_people = matches!(recipient, "all" | "user" | "assistant");
        if self.role != Role::Assistant || to_people {
            return None;
        }
        let name = recipient
            .strip_prefix(FUNCTIONS)
            .and_then(|rest| rest.strip_prefix('.'));
        Some(name.unwrap_or(recipient))
    }

    /// The arguments of a call to a function as JSON. (Built-in tools such as `python` take plain
    /// text: [`text`](Self::text).)
    ///
    /// # Errors
    /// When the text is not JSON, for instance because it was cut off, also before its beginning.
    pub fn arguments(&self) -> Result<serde_json::Value, InvalidArguments> {
        let text = self.text();
        serde_json::from_str(&text).map_err(|reason| InvalidArguments {
            tool: self.tool_name().unwrap_or_default().to_owned(),
            arguments: text.into_owned(),
            reason,
        })
    }
}

/// Messages in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The system message first, as a rule.
    pub messages: Vec<Message>,
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(recipient: &str, text: &str) -> Message {
        Message {
            recipient: Some(recipient.to_owned()),
            ..Message::assistant("commentary", text)
        }
    }

    #[test]
    fn the_channel_decides_what_a_message_is() {
        for (channel, kind) in [
            ("analysis", Kind::Thinking),
            ("commentary", Kind::Preamble),
            ("final", Kind::Final),
            ("??", Kind::Thinking),
            ("commentary?", Kind::Thinking),
        ] {
            assert_eq!(Message::assistant(channel, "x").kind(), kind, "{channel}");
        }
        assert_eq!(Message::new(Role::Assistant, "x").kind(), Kind::Final);
    }

    #[test]
    fn a_recipient_makes_a_tool_call_on_any_channel() {
        for channel in ["analysis", "commentary", "final", "??"] {
            let message = Message {
                recipient: Some("functions.get_weather".to_owned()),
                ..Message::assistant(channel, "{}")
            };
            assert_eq!(message.kind(), Kind::ToolCall, "{channel}");
            assert_eq!(message.tool_name(), Some("get_weather"));
        }
        assert_eq!(call("python", "1").tool_name(), Some("python"));
        assert_eq!(call("functionsx.a", "1").tool_name(), Some("functionsx.a"));
    }

    #[test]
    fn a_message_to_a_person_calls_no_tool() {
        for recipient in ["user", "all", "assistant"] {
            assert_eq!(call(recipient, "hi").kind(), Kind::Preamble);
        }
    }

    #[test]
    fn another_speaker_never_gives_the_answer() {
        assert_eq!(Message::user("x").kind(), Kind::Thinking);
        let result = Message::tool_result(&call("functions.a", "{}"), "1");
        assert_eq!(result.kind(), Kind::Thinking);
        assert_eq!(result.name.as_deref(), Some("functions.a"));
    }

    #[test]
    fn truncated_arguments_are_reported_with_the_tool_and_the_text() {
        let error = call("functions.get_weather", r#"{"loc"#).arguments();
        assert_eq!(
            error.unwrap_err().to_string(),
            "the arguments of the call to `get_weather` are not valid JSON (EOF while parsing a \
             string at line 1 column 5): `{\"loc`; a call that was cut off needs more tokens"
        );
        assert_eq!(
            call("functions.a", r#"{"b": [1]}"#).arguments().unwrap(),
            json!({"b": [1]})
        );
        assert!(call("functions.a", "").arguments().is_err());
    }

    #[test]
    fn an_unknown_reasoning_level_is_refused_with_the_list() {
        assert_eq!("high".parse(), Ok(Reasoning::High));
        for level in ["none", "off", "", "High"] {
            let error = level.parse::<Reasoning>().unwrap_err().to_string();
            assert!(error.contains("choose low, medium or high"), "{error}");
            assert!(error.contains(&format!("`{level}`")), "{error}");
        }
    }
}
