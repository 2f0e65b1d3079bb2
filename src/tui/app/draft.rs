//! The message being typed: editor, folded pastes, history.

use unicode_segmentation::UnicodeSegmentation;

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
    /// What the folds in the text stand for.
    pastes: Vec<(String, String)>,
    /// What was sent, oldest first.
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
            pastes: Vec::new(),
            history: Vec::new(),
            recalled: None,
        }
    }
}

impl Draft {
    pub fn text(&self) -> &str {
        self.editor.text()
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

    /// Replaces the text, folding it where it is long.
    pub fn set(&mut self, text: &str) {
        let text = sanitize(text);
        let folded = self.fold(&text);
        self.change().set_text(&folded);
        self.recalled = None;
    }

    /// Deletes from the caret; a fold goes as a whole.
    pub fn delete(&mut self, motion: Motion) {
        let before = self.text().get(..self.editor.caret()).unwrap_or_default();
        let fold = self
            .pastes
            .iter()
            .find(|(label, _)| before.ends_with(label.as_str()));
        let times = match (motion, fold) {
            (Motion::Left, Some((label, _))) => label.graphemes(true).count(),
            _ => 1,
        };
        for _ in 0..times {
            self.change().delete(motion);
        }
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
        let name = sanitize(name).replace(['\n', '[', ']'], " ");
        let label = format!("[file {name}, {} characters]", count(text.chars().count()));
        let fence = longest_fence(&text);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let text = format!("`{name}`:\n{fence}\n{text}{end}{fence}\n");
        let label = self.keep(label, text);
        let before = if self.is_empty() || self.text().ends_with('\n') {
            ""
        } else {
            "\n"
        };
        self.change().go(Motion::Last);
        self.change().insert(&format!("{before}{label}\n"));
    }

    fn fold(&mut self, text: &str) -> String {
        let characters = text.chars().count();
        if characters <= LONGEST_SHOWN && text.lines().count() <= MOST_LINES_SHOWN {
            return text.to_owned();
        }
        let label = format!("[pasted {} characters]", count(characters));
        self.keep(label, text.to_owned())
    }

    /// A label that stands for `text` alone.
    fn keep(&mut self, label: String, text: String) -> String {
        let body = label.trim_end_matches(']').to_owned();
        let labels = std::iter::once(label).chain((2..).map(|number| format!("{body}, {number}]")));
        for label in labels {
            match self.pastes.iter().find(|(known, _)| *known == label) {
                Some((_, known)) if *known != text => {}
                Some(_) => return label,
                None => {
                    self.pastes.push((label.clone(), text));
                    return label;
                }
            }
        }
        body
    }

    /// The text with its folds opened.
    pub fn expanded(&self) -> String {
        let mut out = String::new();
        let mut rest = self.text();
        while let Some(at) = rest.find('[') {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let fold = self
                .pastes
                .iter()
                .find(|(label, _)| from.starts_with(label.as_str()));
            let length = fold.map_or(1, |(label, _)| label.len());
            out.push_str(fold.map_or("[", |(_, text)| text.as_str()));
            rest = &from[length..];
        }
        out.push_str(rest);
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

    pub fn forget_history(&mut self) {
        self.history.clear();
        self.recalled = None;
    }

    /// Folds a message of an opened session into the history.
    pub fn remember_message(&mut self, text: &str) {
        let folded = self.fold(text);
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

/// Backquotes enough to fence the text.
fn longest_fence(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    "`".repeat(3.max(longest + 1))
}
