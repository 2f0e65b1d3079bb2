//! A conversation for people and for programs.

use serde::Serialize;
use std::borrow::Cow;

use super::record::{Line, VERSION};
use super::tree::{Entry, Tree, TurnRecord};
use crate::session::{Finish, Kind};

/// The current branch as Markdown; thinking is quoted.
pub fn markdown(title: &str, tree: &Tree) -> String {
    let title = one_line(title);
    let mut text = format!("# {title}\n");
    for id in tree.path() {
        match tree.entry(id) {
            Entry::User(said) => section(&mut text, "## You", said),
            Entry::Turn(turn) => add_turn(&mut text, turn),
        }
    }
    text
}

fn add_turn(text: &mut String, turn: &TurnRecord) {
    section(text, "## gpt-oss", "");
    for message in &turn.messages {
        let content = message.text();
        let content = content.trim();
        match message.kind() {
            Kind::Thinking => section(text, "> **Thinking**\n>", &quoted(content)),
            Kind::Preamble | Kind::Final => section(text, "", content),
            Kind::ToolCall => {
                let name = one_line(message.tool_name().unwrap_or_default());
                section(text, &format!("Calls `{name}`:"), &fenced(content));
            }
        }
    }
    let end = match turn.finish {
        Finish::Stop | Finish::ToolCall => return,
        Finish::Length => "*(cut off: the token limit was reached)*",
        Finish::Context => "*(cut off: the context is full)*",
        Finish::Cancelled => "*(stopped)*",
    };
    section(text, "", end);
}

/// A heading and a text, blank lines before both; nothing for what is empty.
fn section(text: &mut String, heading: &str, content: &str) {
    let is_quote = heading.starts_with('>');
    if is_quote && content.is_empty() {
        return;
    }
    if !heading.is_empty() {
        text.push('\n');
        text.push_str(heading);
        text.push('\n');
    }
    if !content.is_empty() {
        if !is_quote {
            text.push('\n');
        }
        text.push_str(content);
        text.push('\n');
    }
}

fn quoted(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| format!("> {line}").trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// A fence that nothing in the text can close.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        Cow::Owned(text.replace(char::is_control, " "))
    } else {
        Cow::Borrowed(text)
    }
}

#[derive(Serialize)]
struct Export<'a> {
    #[serde(rename = "gptoss_export")]
    version: u64,
    title: &'a str,
    /// The last entry of the current branch.
    head: Option<u32>,
    entries: Vec<Line<'a>>,
}

/// Everything that was said on all branches, with figures, as one JSON object. The entries are those of a
/// session file.
pub fn json(title: &str, tree: &Tree) -> String {
    let export = Export {
        version: VERSION,
        title,
        head: tree.head().map(|id| id.0),
        entries: tree
            .nodes()
            .map(|(id, parent, entry)| Line::of_node(id, parent, entry))
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&export)
        .expect("strings, numbers and maps with text keys are always JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
