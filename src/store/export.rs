//! A conversation for people and for programs.

use serde::Serialize;
use std::borrow::Cow;

use super::record::{Line, VERSION};
use super::tree::{Entry, Tree, TurnRecord};
use crate::session::{Finish, Kind};
use crate::text::{is_unsafe, one_line};

/// The current branch as Markdown: the title, what is known `about` it, and what was said under the names of those who
/// said it. Text is left as it is, but for code blocks that were cut off, which are closed, and characters that command a
/// terminal, which are made visible.
pub fn markdown(title: &str, about: &[(&str, Option<String>)], tree: &Tree) -> String {
    let mut text = format!("# {}\n", one_line(title));
    let known = about.iter().filter_map(|(name, value)| {
        let value = value.as_deref()?;
        Some(format!("- {name}: {}\n", one_line(value)))
    });
    let known: String = known.collect();
    if !known.is_empty() {
        text = text + "\n" + &known;
    }
    for id in tree.path() {
        match tree.entry(id) {
            Entry::User(said) => {
                section(&mut text, "## You");
                section(&mut text, &closed(said));
            }
            Entry::Turn(turn) => add_turn(&mut text, turn),
        }
    }
    visible(text)
}

/// Characters that command a terminal as pictures, or as their numbers where there is none.
fn visible(text: String) -> String {
    if !text.contains(is_unsafe) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            character if !is_unsafe(character) => out.push(character),
            '\0'..='\x1f' => out.extend(char::from_u32(0x2400 + u32::from(character))),
            '\x7f' => out.push('\u{2421}'),
            character => out.extend(character.escape_unicode()),
        }
    }
    out
}

fn add_turn(text: &mut String, turn: &TurnRecord) {
    section(text, "## gpt-oss");
    for message in &turn.messages {
        let content = message.text();
        let content = content.trim_matches('\n').trim_end();
        match message.kind() {
            Kind::Thinking if content.is_empty() => {}
            Kind::Thinking => {
                section(text, "<details>\n<summary>Thinking</summary>");
                section(text, &closed(content));
                section(text, "</details>");
            }
            Kind::Preamble | Kind::Final => section(text, &closed(content)),
            Kind::ToolCall => {
                let name = one_line(message.tool_name().unwrap_or_default());
                section(text, &format!("Calls `{name}`:"));
                section(text, &fenced(content));
            }
        }
    }
    let end = match turn.finish {
        Finish::Stop | Finish::ToolCall => return,
        Finish::Length => "*(cut off: the token limit was reached)*",
        Finish::Context => "*(cut off: the context is full)*",
        Finish::Cancelled => "*(stopped)*",
    };
    section(text, end);
}

/// A paragraph or more after a blank line; nothing for what is empty.
fn section(text: &mut String, content: &str) {
    if !content.is_empty() {
        text.push('\n');
        text.push_str(content);
        text.push('\n');
    }
}

/// `text`, and the end of a code block that it leaves open: what follows is no code.
fn closed(text: &str) -> Cow<'_, str> {
    let mut open: Option<&str> = None;
    for line in text.lines() {
        let Some((fence, rest)) = fence(line) else {
            continue;
        };
        match open {
            // A fence of backticks has none behind it: that would be code in a line.
            None if fence.starts_with('~') || !rest.contains('`') => open = Some(fence),
            Some(begun) if fence.starts_with(begun) && rest.trim().is_empty() => open = None,
            _ => {}
        }
    }
    match open {
        Some(fence) => Cow::Owned(format!("{}\n{fence}", text.trim_end())),
        None => Cow::Borrowed(text),
    }
}

/// The three or more backticks or tildes that a line begins with, and what follows them.
fn fence(line: &str) -> Option<(&str, &str)> {
    let content = line.trim_start_matches(' ');
    let mark = content
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let rest = content.trim_start_matches(mark);
    let fence = &content[..content.len() - rest.len()];
    (line.len() - content.len() <= 3 && fence.len() >= 3).then_some((fence, rest))
}

/// A fence that nothing in the text can close.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
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
/// session file, and its version counts: fields may be added to it, and none changes its meaning or goes away.
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
