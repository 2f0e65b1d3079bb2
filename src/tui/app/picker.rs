//! The list of saved sessions.

use std::collections::HashMap;

use super::{App, Mode};
use crate::store::{Hit, Summary};
use crate::text::{one_line, without_code};
use crate::tui::editor::{Editor, Motion};
use crate::tui::event::Effect;

/// What the list asks for.
#[derive(Debug)]
pub(crate) enum Question {
    /// Delete it?
    Delete,
    /// Its other name.
    Rename {
        title: Editor,
        /// Nothing was typed yet: the old title is selected, and the first letter takes its place.
        selected: bool,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Picker {
    /// `None`: they are on their way.
    all: Option<Vec<Summary>>,
    pub search: Editor,
    /// What was last searched for in the messages, and where it is: what is said there, by the session's id. `None`
    /// while it is being looked for.
    asked: String,
    hits: Option<HashMap<String, Hit>>,
    pub index: usize,
    pub question: Option<Question>,
    /// Why what was asked for last was not done.
    pub problem: Option<String>,
}

/// A session in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub summary: &'a Summary,
    /// Where the words of the search are, if not in the title.
    pub excerpt: Option<&'a str>,
}

impl Picker {
    pub fn is_choosing(&self) -> bool {
        self.question.is_none()
    }

    pub fn is_asking(&self) -> bool {
        matches!(self.question, Some(Question::Delete))
    }

    /// What a list without sessions says.
    pub fn emptiness(&self) -> String {
        let search = self.search.text().trim();
        match &self.all {
            None => "looking for sessions".to_owned(),
            Some(all) if all.is_empty() => "there are no saved sessions".to_owned(),
            Some(_) if self.hits.is_none() => "searching the messages".to_owned(),
            Some(all) => format!(
                "no title and no message has `{search}` ({} searched, thinking left out)",
                match all.len() {
                    1 => "1 session".to_owned(),
                    count => format!("{count} sessions"),
                }
            ),
        }
    }

    /// Those that have every word of the search in their title or id, and those that have them in their messages.
    pub fn found(&self) -> Vec<Found<'_>> {
        let search = one_line(self.search.text()).to_lowercase();
        let words: Vec<_> = search.split_whitespace().collect();
        let listed = self.all.iter().flatten();
        let mut found: Vec<_> = listed
            .filter_map(|summary| {
                let title = summary.title.to_lowercase();
                let hit = self.hits.as_ref().and_then(|hits| hits.get(&summary.id));
                let is_named = words
                    .iter()
                    .all(|word| title.contains(word) || summary.id.starts_with(word));
                let has_phrase = title.contains(&search) || hit.is_some_and(|hit| hit.has_phrase);
                (is_named || hit.is_some()).then_some((
                    has_phrase,
                    Found {
                        summary,
                        excerpt: hit
                            .and_then(|hit| hit.excerpt.as_deref())
                            .filter(|_| !is_named),
                    },
                ))
            })
            .collect();
        // What was searched for as it stands comes first.
        found.sort_by_key(|(has_phrase, _)| !has_phrase);
        found.into_iter().map(|(_, found)| found).collect()
    }

    pub fn chosen(&self) -> Option<&Summary> {
        self.found().get(self.index).map(|found| found.summary)
    }

    /// What is to be looked for in the messages, where it is not what was looked for last.
    fn next_search(&mut self) -> Option<String> {
        let search = self.search.text().trim();
        if search == self.asked {
            return None;
        }
        self.asked = search.to_owned();
        self.hits = None;
        (!search.is_empty()).then(|| self.asked.clone())
    }

    fn field(&mut self) -> Option<&mut Editor> {
        match &mut self.question {
            None => Some(&mut self.search),
            Some(Question::Rename { title, .. }) => Some(title),
            Some(Question::Delete) => None,
        }
    }

    /// Whether all of the field was selected, which it is no more.
    fn deselect(&mut self) -> bool {
        match &mut self.question {
            Some(Question::Rename { selected, .. }) => std::mem::take(selected),
            _ => false,
        }
    }

    fn searched(&mut self) {
        self.problem = None;
        if self.is_choosing() {
            self.index = 0;
        }
    }

    pub fn typed(&mut self, letter: char) {
        let replaces = self.deselect();
        if let Some(field) = self.field() {
            if replaces {
                field.set_text("");
            }
            field.insert(letter.encode_utf8(&mut [0; 4]));
            self.searched();
        }
    }

    pub fn delete(&mut self, motion: Motion) {
        let all = self.deselect();
        if let Some(field) = self.field() {
            if all {
                field.set_text("");
            } else {
                field.delete(motion);
            }
            self.searched();
        }
    }

    pub fn go(&mut self, lines: isize) {
        if self.is_choosing() {
            self.problem = None;
            let last = self.found().len().saturating_sub(1);
            self.index = self.index.saturating_add_signed(lines).min(last);
        }
    }

    /// Moves the caret; a selection is left at the end that the motion goes to.
    pub fn go_in_field(&mut self, motion: Motion) {
        let all = self.deselect();
        if let Some(field) = self.field() {
            match motion {
                Motion::Left | Motion::WordLeft if all => field.go(Motion::First),
                Motion::Right | Motion::WordRight if all => field.go(Motion::Last),
                motion => field.go(motion),
            };
        }
    }

    pub fn begin_rename(&mut self) {
        self.problem = None;
        if let Some(old) = self.chosen().map(|summary| summary.title.clone()) {
            let mut title = Editor::default();
            title.set_text(&old);
            self.question = Some(Question::Rename {
                title,
                selected: !old.is_empty(),
            });
        }
    }

    pub fn ask_delete(&mut self) {
        self.problem = None;
        if self.chosen().is_some() {
            self.question = Some(Question::Delete);
        }
    }

    pub fn leave_question(&mut self) {
        self.question = None;
    }

    /// Leaves the question, then the search; false where there is neither.
    pub fn leave(&mut self) -> bool {
        self.problem = None;
        if self.question.take().is_some() {
            return true;
        }
        let searching = !self.search.text().is_empty();
        self.search.set_text("");
        self.index = 0;
        searching
    }

    /// Changes what is listed; the same session stays chosen.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let chosen = self.chosen().map(|summary| summary.id.clone());
        change(self);
        let found = self.found();
        let same = found
            .iter()
            .position(|found| Some(&found.summary.id) == chosen.as_ref());
        let last = found.len().saturating_sub(1);
        self.index = same.unwrap_or(self.index).min(last);
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
                picker.question = None;
                picker.change(|picker| picker.all = Some(all));
            }
            Err(reason) => {
                picker.all.get_or_insert_default();
                picker.problem = Some(problem_line(&reason));
            }
        }
    }

    /// Asks for the messages that have what is typed in the list.
    pub(super) fn search_sessions(&mut self) {
        if let Mode::Sessions(picker) = &mut self.mode
            && let Some(search) = picker.next_search()
        {
            self.effect(Effect::Search(search));
        }
    }

    /// What was found in the messages; where something else is typed by now it is not wanted.
    pub(super) fn hits(&mut self, search: &str, result: Result<Vec<Hit>, String>) {
        let Mode::Sessions(picker) = &mut self.mode else {
            return;
        };
        if picker.asked != search {
            return;
        }
        let hits = result.unwrap_or_else(|problem| {
            picker.problem = Some(problem_line(&problem));
            Vec::new()
        });
        let hits = hits.into_iter().map(|hit| (hit.id.clone(), hit));
        picker.change(|picker| picker.hits = Some(hits.collect()));
    }

    /// What was asked for in the list was not done, and that is told there.
    pub(super) fn refused(&mut self, reason: &str) {
        match &mut self.mode {
            Mode::Sessions(picker) => picker.problem = Some(problem_line(reason)),
            _ => self.fail(reason),
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
        let Some(chosen) = picker.chosen().cloned() else {
            return;
        };
        picker.problem = None;
        match &picker.question {
            // Only y deletes.
            Some(Question::Delete) => {}
            Some(Question::Rename { title, .. }) => {
                let title = title.text().trim().to_owned();
                picker.question = None;
                if !title.is_empty() && title != chosen.title {
                    self.effect(Effect::RenameSession {
                        id: Some(chosen.id),
                        title,
                    });
                }
            }
            None => match chosen.problem {
                Some(problem) => picker.problem = Some(problem_line(&problem)),
                None => self.effect(Effect::OpenSession(chosen.id)),
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

/// A reason on one line.
fn problem_line(reason: &str) -> String {
    without_code(&one_line(reason))
}
