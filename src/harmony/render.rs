//! Conversation to token ids.

use super::message::{ANALYSIS, CONSTRAIN, FUNCTIONS};
use super::tools::tools_section;
use super::{Content, Conversation, DeveloperContent, Kind, Message, Role, SystemContent};
use crate::tokenizer::{Special, Tokenizer};

/// How a conversation is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// Keep the analysis of finished turns too.
    pub keep_analysis: bool,
    /// End with `<|start|>assistant`, so that the model's next message follows.
    pub open_assistant: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            keep_analysis: false,
            open_assistant: true,
        }
    }
}

/// The prompt for the next assistant message: the conversation, then `<|start|>assistant`.
///
/// The analysis of finished turns is left out, as the format guide asks. A turn is finished by its
/// final message, or by the next user message where it never got one; while a tool call is pending
/// or just answered, the analysis that led to it stays.
pub fn render(conversation: &Conversation, tokenizer: &Tokenizer) -> Vec<u32> {
    render_with(conversation, tokenizer, RenderOptions::default())
}

/// [`render`] with a choice.
pub fn render_with(
    conversation: &Conversation,
    tokenizer: &Tokenizer,
    options: RenderOptions,
) -> Vec<u32> {
    let messages = &conversation.messages;
    let unfinished = if options.keep_analysis {
        0
    } else {
        unfinished_turn(messages)
    };
    let mut renderer = Renderer {
        tokenizer,
        special: tokenizer.special(),
        has_functions: messages.iter().any(has_functions),
        ids: Vec::new(),
    };
    for (index, message) in messages.iter().enumerate() {
        if index >= unfinished || !is_analysis(message) {
            renderer.message(message);
        }
    }
    if options.open_assistant {
        renderer.ids.push(renderer.special.start);
        renderer.text(Role::Assistant.as_str());
    }
    renderer.ids
}

/// Where the turn begins that is still going on.
fn unfinished_turn(messages: &[Message]) -> usize {
    let ends_a_turn = |m: &Message| m.role == Role::User || m.kind() == Kind::Final;
    messages
        .iter()
        .rposition(ends_a_turn)
        .map_or(0, |last| last + 1)
}

/// Reasoning, and what went on in the same channel with built-in tools.
fn is_analysis(message: &Message) -> bool {
    message.channel.as_deref() == Some(ANALYSIS)
        || message.role == Role::Assistant && message.kind() == Kind::Thinking
}

/// Whether the message offers functions, which the system message then mentions.
fn has_functions(message: &Message) -> bool {
    message.content.iter().any(|content| match content {
        Content::Developer(developer) => developer
            .tool_namespaces()
            .iter()
            .any(|namespace| namespace.name == FUNCTIONS && !namespace.tools.is_empty()),
        _ => false,
    })
}

struct Renderer<'a> {
    tokenizer: &'a Tokenizer,
    special: Special,
    has_functions: bool,
    ids: Vec<u32>,
}

impl Renderer<'_> {
    fn text(&mut self, text: &str) {
        self.ids.extend(self.tokenizer.encode(text));
    }

    // Each piece of a header is encoded by itself, as in training: ids depend on it.
    fn message(&mut self, message: &Message) {
        self.ids.push(self.special.start);
        match (message.role, &message.name) {
            (Role::Tool, Some(name)) => self.text(name),
            (role, Some(name)) => {
                self.text(role.as_str());
                self.text(&format!(":{name}"));
            }
            (role, None) => self.text(role.as_str()),
        }
        if let Some(recipient) = &message.recipient
            && recipient != "all"
        {
            self.text(&format!(" to={recipient}"));
        }
        if let Some(channel) = &message.channel {
            self.ids.push(self.special.channel);
            self.text(channel);
        }
        if let Some(content_type) = &message.content_type {
            if let Some(format) = content_type.strip_prefix(CONSTRAIN) {
                self.text(" ");
                self.ids.push(self.special.constrain);
                self.text(format);
            } else {
                self.text(&format!(" {content_type}"));
            }
        }
        self.ids.push(self.special.message);
        for content in &message.content {
            match content {
                Content::Text(text) => self.text(text),
                Content::System(system) => self.text(&system_text(system, self.has_functions)),
                Content::Developer(developer) => self.text(&developer_text(developer)),
            }
        }
        // History never holds `<|return|>`: it ends a generation, not a message.
        let calls = message.role == Role::Assistant && message.recipient.is_some();
        self.ids.push(if calls {
            self.special.call
        } else {
            self.special.end
        });
    }
}

fn system_text(system: &SystemContent, has_functions: bool) -> String {
    let mut sections = Vec::new();
    let cutoff = system.knowledge_cutoff.as_ref();
    let date = system.date.as_ref();
    let top: Vec<String> = [
        system.identity.clone(),
        cutoff.map(|cutoff| format!("Knowledge cutoff: {cutoff}")),
        date.map(|date| format!("Current date: {date}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !top.is_empty() {
        sections.push(top.join("\n"));
    }
    if let Some(reasoning) = system.reasoning {
        sections.push(format!("Reasoning: {reasoning}"));
    }
    if !system.tools.is_empty() {
        let mut namespaces: Vec<_> = system.tools.iter().collect();
        namespaces.sort_by(|a, b| a.name.cmp(&b.name));
        sections.push(tools_section(namespaces));
    }
    if let Some(channels) = &system.channels
        && !channels.names.is_empty()
    {
        let mut line = format!("# Valid channels: {}.", channels.names.join(", "));
        if channels.required {
            line += " Channel must be included for every message.";
        }
        if has_functions {
            line += "\nCalls to these tools must go to the commentary channel: 'functions'.";
        }
        sections.push(line);
    }
    sections.join("\n\n")
}

fn developer_text(developer: &DeveloperContent) -> String {
    let mut sections = Vec::new();
    if let Some(instructions) = &developer.instructions {
        sections.push(format!("# Instructions\n\n{instructions}"));
    }
    let namespaces = developer.tool_namespaces();
    if !namespaces.is_empty() {
        sections.push(tools_section(namespaces.iter().map(AsRef::as_ref)));
    }
    sections.join("\n\n")
}
