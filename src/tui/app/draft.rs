//! The message being typed: editor, folded pastes and files, history.

use super::attached::{Piece, label, pieces};
use crate::tui::editor::units::{Units, number};
use crate::tui::editor::{Editor, Layout, Motion};
use crate::tui::text::sanitize;
use crate::tui::view::figures::count;

/// A paste of more characters or lines than this is folded.
const LONGEST_SHOWN: usize = 1000;
const MOST_LINES_SHOWN: usize = 12;

#[derive(Debug)]
pub(crate) struct Draft {
    editor: Editor,
    layout: Layout,
    /// The width of the layout; 0: it is stale.
    laid: usize,
    /// What the editor's units stand for, by their numbers.
    folds: Vec<String>,
    /// What was sent, oldest first, with its units.
    history: Vec<String>,
    /// Where in the history the text comes from, and what was typed before.
    recalled: Option<(usize, String)>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            editor: Editor::default(),
            layout: Layout {
                lines: vec![String::new()],
                caret: (0, 0),
            },
            laid: 0,
            folds: Vec::new(),
            history: Vec::new(),
            recalled: None,
        }
    }
}

impl Draft {
    /// With units in place of what is folded.
    pub fn text(&self) -> &str {
        self.editor.text()
    }

    /// As it is shown.
    #[cfg(test)]
    pub fn shown(&self) -> String {
        self.editor.units().shown(self.text())
    }

    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn lay_out(&mut self, width: usize) {
        let width = width.max(1);
        if self.laid != width {
            self.layout = self.editor.layout(width);
            self.laid = width;
        }
    }

    /// The text, for a change.
    pub fn change(&mut self) -> &mut Editor {
        self.laid = 0;
        &mut self.editor
    }

    pub fn clear(&mut self) {
        self.change().set_text("");
        self.recalled = None;
    }

    /// Types at the caret.
    pub fn insert(&mut self, text: &str) {
        let text = self.literal(text);
        self.change().insert(&text);
    }

    /// Replaces the text by what was typed before, units and all.
    pub fn put_back(&mut self, typed: &str) {
        self.change().set_text(typed);
        self.recalled = None;
    }

    /// Replaces the text: as it was typed where that is known, else with what is long folded.
    pub fn set(&mut self, text: &str) {
        let typed = self.as_typed(text).map(str::to_owned);
        let typed = typed.unwrap_or_else(|| self.folded(text));
        self.put_back(&typed);
    }

    /// What was typed to say `text`: what stands here, or what was sent.
    fn as_typed(&self, text: &str) -> Option<&str> {
        let known =
            std::iter::once(self.text()).chain(self.history.iter().rev().map(String::as_str));
        let said = message(text);
        known
            .filter(|typed| !typed.is_empty())
            .find(|typed| message(&self.opened(typed)) == said)
    }

    /// Inserts what was pasted, folded where it is long.
    pub fn paste(&mut self, text: &str) {
        let text = sanitize(text);
        let folded = self.fold(&text);
        self.change().insert(&folded);
    }

    /// Inserts a file's text, always folded.
    pub fn attach(&mut self, name: &str, text: &str) {
        let text = sanitize(text);
        let name = sanitize(name).replace(['\n', '[', ']', '`'], " ");
        let label = label(&name, text.chars().count());
        let fence = longest_fence(&text);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let text = format!("`{name}`:\n{fence}\n{text}{end}{fence}\n");
        let unit = self.keep(&label, text);
        let before = if self.is_empty() || self.text().ends_with('\n') {
            ""
        } else {
            "\n"
        };
        self.change().go(Motion::Last);
        self.change().insert(&format!("{before}{unit}\n"));
    }

    /// A message with its files, and what is long between them, folded.
    fn folded(&mut self, text: &str) -> String {
        let text = sanitize(text);
        let mut out = String::new();
        for piece in pieces(&text) {
            out += &match piece {
                Piece::Text(text) => self.fold(text),
                Piece::File { label, whole } => self.keep(&label, whole.to_owned()),
            };
        }
        out
    }

    fn fold(&mut self, text: &str) -> String {
        let characters = text.chars().count();
        if characters <= LONGEST_SHOWN && text.lines().count() <= MOST_LINES_SHOWN {
            return self.literal(text);
        }
        let label = format!("[pasted {} characters]", count(characters));
        self.keep(&label, text.to_owned())
    }

    /// Text in which a character that could be taken for a unit is one, which stands for itself.
    fn literal(&mut self, text: &str) -> String {
        if !text.contains(|character| number(character).is_some()) {
            return text.to_owned();
        }
        let mut out = String::new();
        for character in text.chars() {
            match number(character) {
                Some(_) => out += &self.keep("\u{fffd}", character.to_string()),
                None => out.push(character),
            }
        }
        out
    }

    /// A unit that stands for `text`, with a label that no other text has.
    fn keep(&mut self, label: &str, text: String) -> String {
        if let Some(known) = self.folds.iter().position(|known| *known == text) {
            return Units::unit(known).to_string();
        }
        let body = label.trim_end_matches(']');
        let labels = (2..).map(|number| format!("{body}, {number}]"));
        let mut labels = std::iter::once(label.to_owned()).chain(labels);
        let is_free = |label: &String| !label.starts_with('[') || !self.editor.units().has(label);
        let label = labels.find(is_free).unwrap_or_default();
        match self.editor.add_unit(label) {
            Some(unit) => {
                self.folds.push(text);
                unit.to_string()
            }
            None => text,
        }
    }

    /// The text with its folds opened.
    pub fn expanded(&self) -> String {
        self.opened(self.text())
    }

    fn opened(&self, typed: &str) -> String {
        let mut out = String::with_capacity(typed.len());
        for character in typed.chars() {
            match number(character).and_then(|number| self.folds.get(number)) {
                Some(fold) => out.push_str(fold),
                None => out.push(character),
            }
        }
        out
    }

    /// Remembers what was sent and begins the next.
    pub fn sent(&mut self) {
        let text = self.text().to_owned();
        self.remember(text);
        self.clear();
    }

    pub fn remember(&mut self, text: String) {
        if !text.is_empty() && self.history.last() != Some(&text) {
            self.history.push(text);
        }
    }

    /// Makes what was said the message that Up recalls first.
    pub fn bring_to_mind(&mut self, said: &str) {
        let known = self.history.iter();
        let at = known
            .rev()
            .position(|typed| message(&self.opened(typed)) == message(said));
        let typed = match at {
            Some(back) => self.history.remove(self.history.len() - 1 - back),
            None => self.folded(said),
        };
        self.remember(typed);
        self.recalled = None;
    }

    pub fn forget_history(&mut self) {
        self.history.clear();
        self.recalled = None;
    }

    /// Folds a message of an opened session into the history.
    pub fn remember_message(&mut self, text: &str) {
        let folded = self.folded(text);
        self.remember(folded);
    }

    /// The message before or after the one recalled; false where there is none.
    pub fn recall(&mut self, earlier: bool) -> bool {
        let at = self
            .recalled
            .as_ref()
            .map_or(self.history.len(), |(at, _)| *at);
        let next = if earlier {
            at.checked_sub(1)
        } else {
            Some(at + 1)
        };
        let (Some(next), true) = (next, earlier || self.recalled.is_some()) else {
            return false;
        };
        let typed = match self.recalled.take() {
            Some((_, typed)) => typed,
            None => self.text().to_owned(),
        };
        if let Some(text) = self.history.get(next).cloned() {
            self.change().set_text(&text);
            self.recalled = Some((next, typed));
        } else {
            self.change().set_text(&typed);
        }
        true
    }
}

/// What is said by a draft: no blank end, and a space that hides the slash of a message that is no command left out.
pub(super) fn message(draft: &str) -> &str {
    let text = draft.trim_end();
    text.strip_prefix(' ')
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(text)
}

/// Backquotes enough to fence the text.
fn longest_fence(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    "`".repeat(3.max(longest + 1))
}
