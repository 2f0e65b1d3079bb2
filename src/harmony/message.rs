//! Roles, messages, conversations.

use super::Tool;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
}

/// The `Reasoning:` line of the system message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reasoning {
    Low,
    #[default]
    Medium,
    High,
}

/// What the system message says.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemContent {
    pub identity: Option<String>,
    pub knowledge_cutoff: Option<String>,
    /// `YYYY-MM-DD`
    pub date: Option<String>,
    pub reasoning: Option<Reasoning>,
    // channels etc.: as the goldens need
}

/// What the developer message says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeveloperContent {
    pub instructions: Option<String>,
    /// `None`: no tools section; an empty list prints its headings.
    pub tools: Option<Vec<Tool>>,
}

/// The text or the structured content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Text(String),
    System(SystemContent),
    Developer(DeveloperContent),
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub role: Role,
    /// A tool's or a user's name.
    pub name: Option<String>,
    pub channel: Option<String>,
    pub recipient: Option<String>,
    /// `<|constrain|>json`, `code`, ...
    pub content_type: Option<String>,
    pub content: Vec<Content>,
}

/// Messages in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    pub messages: Vec<Message>,
}
