//! The list of saved sessions.

use super::{App, Mode};
use crate::store::Summary;
use crate::tui::editor::{Editor, Motion};
use crate::tui::event::Effect;

/// What the list asks for.
#[derive(Debug)]
pub(crate) enum Question {
    /// Delete it?
    Delete,
    /// Its other name.
    Rename(Editor),
}

#[derive(Debug, Default)]
pub(crate) struct Picker {
    /// `None`: they are on their way.
    all: Option<Vec<Summary>>,
    pub search: Editor,
    pub index: usize,
    pub question: Option<Question>,
}

impl Picker {
    pub fn is_choosing(&self) -> bool {
        self.question.is_none()
    }

    pub fn is_asking(&self) -> bool {
        matches!(self.question, Some(Question::Delete))
    }

    pub fn is_loading(&self) -> bool {
        self.all.is_none()
    }

    /// Those that have every word of the search in their title or id.
    pub fn found(&self) -> Vec<&Summary> {
        let search = self.search.text().to_lowercase();
        let words: Vec<_> = search.split_whitespace().collect();
        let fits = |summary: &&Summary| {
            let title = summary.title.to_lowercase();
            words
                .iter()
                .all(|word| title.contains(word) || summary.id.contains(word))
        };
        self.all.iter().flatten().filter(fits).collect()
    }

    pub fn chosen(&self) -> Option<&Summary> {
        self.found().get(self.index).copied()
    }

    fn field(&mut self) -> Option<&mut Editor> {
        match &mut self.question {
            None => Some(&mut self.search),
            Some(Question::Rename(title)) => Some(title),
            Some(Question::Delete) => None,
        }
    }

    fn searched(&mut self) {
        if self.is_choosing() {
            self.index = 0;
        }
    }

    pub fn typed(&mut self, letter: char) {
        if let Some(field) = self.field() {
            field.insert(letter.encode_utf8(&mut [0; 4]));
            self.searched();
        }
    }

    pub fn delete(&mut self, motion: Motion) {
        if let Some(field) = self.field() {
            field.delete(motion);
            self.searched();
        }
    }

    pub fn go(&mut self, lines: isize) {
        if self.is_choosing() {
            let last = self.found().len().saturating_sub(1);
            self.index = self.index.saturating_add_signed(lines).min(last);
        }
    }

    pub fn begin_rename(&mut self) {
        if let Some(title) = self.chosen().map(|summary| summary.title.clone()) {
            let mut field = Editor::default();
            field.set_text(&title);
            self.question = Some(Question::Rename(field));
        }
    }

    pub fn ask_delete(&mut self) {
        if self.chosen().is_some() {
            self.question = Some(Question::Delete);
        }
    }

    pub fn leave_question(&mut self) {
        self.question = None;
    }

    /// Leaves the question, then the search; false where there is neither.
    pub fn leave(&mut self) -> bool {
        if self.question.take().is_some() {
            return true;
        }
        let searching = !self.search.text().is_empty();
        self.search.set_text("");
        self.index = 0;
        searching
    }
}

impl App {
    pub(super) fn list_sessions(&mut self) {
        if self.may_change() {
            self.mode = Mode::Sessions(Box::default());
            self.effect(Effect::ListSessions);
        }
    }

    pub(super) fn sessions(&mut self, result: Result<Vec<Summary>, String>) {
        let Mode::Sessions(picker) = &mut self.mode else {
            return;
        };
        match result {
            Ok(all) => {
                picker.all = Some(all);
                picker.question = None;
                picker.go(0);
            }
            Err(reason) => {
                self.mode = Mode::Draft;
                self.fail(&reason);
            }
        }
    }

    pub(super) fn in_picker(&mut self, act: impl FnOnce(&mut Picker)) {
        if let Mode::Sessions(picker) = &mut self.mode {
            act(picker);
        }
    }

    pub(super) fn enter_in_picker(&mut self) {
        let Mode::Sessions(picker) = &mut self.mode else {
            return;
        };
        let Some(id) = picker.chosen().map(|summary| summary.id.clone()) else {
            return;
        };
        match &picker.question {
            // Only y deletes.
            Some(Question::Delete) => {}
            Some(Question::Rename(field)) => {
                let title = field.text().trim().to_owned();
                picker.question = None;
                if !title.is_empty() {
                    self.effect(Effect::RenameSession {
                        id: Some(id),
                        title,
                    });
                }
            }
            None => match picker.chosen().and_then(|summary| summary.problem.clone()) {
                Some(problem) => self.warn(&problem),
                None => self.effect(Effect::OpenSession(id)),
            },
        }
    }

    pub(super) fn delete_listed(&mut self) {
        let Mode::Sessions(picker) = &mut self.mode else {
            return;
        };
        picker.question = None;
        if let Some(id) = picker.chosen().map(|summary| summary.id.clone()) {
            self.effect(Effect::DeleteSession(id));
        }
    }
}
