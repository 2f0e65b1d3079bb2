//! Keys and pastes.

use crossterm::event::KeyEvent;

use super::cell::Cell;
use super::note::Level;
use super::{App, Completion, Mode, Phase};
use crate::tui::commands;
use crate::tui::editor::Motion;
use crate::tui::event::Effect;
use crate::tui::keys::{self, Action, Footer, Place};
use crate::tui::view;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) {
        let action = keys::action(&key, |place| self.is_at(place));
        // Ctrl-C twice means twice in a row.
        if action != Some(Action::Interrupt) {
            self.armed = false;
        }
        match (action, keys::typed(&key)) {
            (Some(action), _) => {
                self.under_way = None;
                self.dismiss_note();
                self.act(action);
            }
            (None, Some(letter)) => {
                self.dismiss_note();
                self.typed(letter);
            }
            (None, None) => {}
        }
    }

    fn is_at(&self, place: Place) -> bool {
        let drafting = matches!(self.mode, Mode::Draft);
        match place {
            Place::Everywhere => true,
            Place::Draft => drafting,
            Place::EmptyDraft => drafting && self.draft.is_empty(),
            Place::Failed => {
                drafting && self.draft.is_empty() && matches!(self.phase, Phase::Failed { .. })
            }
            Place::Sessions => {
                matches!(&self.mode, Mode::Sessions(picker) if picker.is_choosing())
            }
            Place::Confirm => {
                matches!(&self.mode, Mode::Sessions(picker) if picker.is_asking())
            }
        }
    }

    /// What the footer is about.
    pub(crate) fn footer(&self) -> Footer {
        match &self.mode {
            Mode::Help { .. } => Footer::Help,
            Mode::Select { .. } => Footer::Select,
            Mode::Sessions(picker) if picker.is_asking() => Footer::Confirm,
            Mode::Sessions(picker) if picker.is_choosing() => Footer::Sessions,
            Mode::Sessions(_) => Footer::Rename,
            Mode::Draft if self.completion.is_some() => Footer::Completion,
            Mode::Draft if self.is_busy() => Footer::Busy,
            Mode::Draft if self.is_at(Place::Failed) => Footer::Failed,
            Mode::Draft if self.download.is_some() && self.loading.is_some() => Footer::Loading,
            Mode::Draft => Footer::Idle,
        }
    }

    fn typed(&mut self, letter: char) {
        if letter.is_control() {
            return;
        }
        match &mut self.mode {
            Mode::Sessions(picker) => picker.typed(letter),
            Mode::Draft => {
                self.draft.insert(letter.encode_utf8(&mut [0; 4]));
                self.offer_completion();
            }
            Mode::Help { .. } => self.mode = Mode::Draft,
            Mode::Select { .. } => {}
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        self.dismiss_note();
        match &mut self.mode {
            Mode::Sessions(picker) => text
                .chars()
                .filter(|letter| !letter.is_control())
                .for_each(|letter| picker.typed(letter)),
            Mode::Select { .. } => {}
            Mode::Draft | Mode::Help { .. } => {
                self.mode = Mode::Draft;
                self.draft.paste(text);
                self.completion = None;
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send => self.enter(),
            Action::Escape => self.escape(),
            Action::Interrupt => self.interrupt(),
            Action::EndOfInput if self.draft.is_empty() => self.quit(0),
            Action::EndOfInput => self.delete(Motion::Right),
            Action::NewLine => {
                self.draft.change().insert("\n");
                self.offer_completion();
            }
            Action::Complete => self.complete(true),
            Action::CompleteBack => self.complete(false),
            Action::Go(motion) => self.go(motion),
            Action::Delete(motion) => self.delete(motion),
            Action::Undo => {
                self.draft.change().undo();
                self.offer_completion();
            }
            Action::Redo => {
                self.draft.change().redo();
                self.offer_completion();
            }
            Action::Editor => {
                let text = self.draft.expanded();
                self.effect(Effect::Edit(text));
            }
            Action::Thinking => self.toggle_thinking(),
            Action::Regenerate => self.regenerate(),
            Action::Edit => self.edit(None),
            Action::NextBranch => self.go_to_branch("next"),
            Action::PreviousBranch => self.go_to_branch("prev"),
            Action::Copy => self.copy(""),
            Action::Open => self.list_sessions(),
            Action::Help => {
                self.mode = match self.mode {
                    Mode::Help { .. } => Mode::Draft,
                    _ => Mode::Help { scroll: 0 },
                };
            }
            Action::Retry => {
                self.chosen = true;
                self.load(self.wanted.clone());
            }
            Action::PageUp => self.scroll(-self.page()),
            Action::PageDown => self.scroll(self.page()),
            Action::LineUp => self.scroll(-1),
            Action::LineDown => self.scroll(1),
            Action::Top => self.scroll(isize::MIN / 2),
            Action::Bottom => self.scroll(isize::MAX / 2),
            Action::Repaint => self.effect(Effect::Repaint),
            Action::Suspend => self.effect(Effect::Suspend),
            Action::RenameListed => self.in_picker(super::picker::Picker::begin_rename),
            Action::DeleteListed => self.in_picker(super::picker::Picker::ask_delete),
            Action::Yes => self.delete_listed(),
            Action::No => self.in_picker(super::picker::Picker::leave_question),
        }
    }

    /// Lines of a page of what is on top.
    fn page(&self) -> isize {
        match self.mode {
            Mode::Help { .. } => view::help::extent(&self.theme, self.size).1.max(1) as isize,
            _ => self.transcript.page(),
        }
    }

    /// Scrolls what is on top.
    pub(super) fn scroll(&mut self, lines: isize) {
        match &mut self.mode {
            Mode::Help { scroll } => *scroll = scroll.saturating_add_signed(lines),
            Mode::Sessions(picker) => picker.go(lines),
            _ if lines >= isize::MAX / 2 => self.transcript.follow(),
            _ => self.transcript.scroll(lines),
        }
    }

    fn go(&mut self, motion: Motion) {
        let step = if motion == Motion::Up { -1 } else { 1 };
        let vertical = matches!(motion, Motion::Up | Motion::Down);
        match &mut self.mode {
            Mode::Sessions(picker) if !vertical => picker.go_in_field(motion),
            Mode::Select { .. } | Mode::Help { .. } if !vertical => {}
            Mode::Select { .. } => self.select(motion == Motion::Up),
            Mode::Sessions(_) | Mode::Help { .. } => self.scroll(step),
            Mode::Draft => match &mut self.completion {
                Some(completion) if vertical => completion.go(step),
                _ => {
                    let moved = self.draft.change().go(motion);
                    if !moved && vertical && self.draft.recall(motion == Motion::Up) {
                        self.completion = None;
                    }
                }
            },
        }
    }

    fn delete(&mut self, motion: Motion) {
        match &mut self.mode {
            Mode::Sessions(picker) => picker.delete(motion),
            Mode::Draft => {
                self.draft.change().delete(motion);
                self.offer_completion();
            }
            Mode::Help { .. } | Mode::Select { .. } => {}
        }
    }

    fn enter(&mut self) {
        match &self.mode {
            Mode::Help { .. } => self.mode = Mode::Draft,
            Mode::Sessions(_) => self.enter_in_picker(),
            Mode::Select { .. } => {
                if let Some(node) = self.selected() {
                    self.edit_node(node);
                }
            }
            Mode::Draft => {
                if self.completion.as_ref().is_some_and(|popup| popup.touched) {
                    self.complete(true);
                    return;
                }
                self.completion = None;
                match commands::parse(&self.draft.expanded()) {
                    Some((name, arguments)) => {
                        let (name, arguments) = (name.to_owned(), arguments.to_owned());
                        self.execute(&name, &arguments);
                    }
                    None => self.send(),
                }
            }
        }
    }

    fn escape(&mut self) {
        match &mut self.mode {
            Mode::Help { .. } => self.mode = Mode::Draft,
            Mode::Select { .. } => {
                self.mode = Mode::Draft;
                self.transcript.follow();
            }
            Mode::Sessions(picker) => {
                if !picker.leave() {
                    self.mode = Mode::Draft;
                }
            }
            Mode::Draft => self.escape_in_draft(),
        }
    }

    fn escape_in_draft(&mut self) {
        if self.completion.take().is_some() {
            return;
        }
        if self.is_busy() {
            self.stop();
        } else if self.waiting {
            self.take_back_waiting();
        } else if self.editing.is_some() {
            self.cancel_edit();
        } else if self.loading.is_some() {
            self.stop_loading();
        } else {
            self.transcript.follow();
        }
    }

    fn interrupt(&mut self) {
        if self.phase == Phase::Stopping {
            self.quit(130);
        } else if self.is_busy() {
            self.mode = Mode::Draft;
            self.stop();
            self.arm();
        } else if !matches!(self.mode, Mode::Draft) {
            self.mode = Mode::Draft;
            self.transcript.follow();
        } else if self.editing.is_some() {
            self.cancel_edit();
        } else if !self.draft.is_empty() {
            self.draft.clear();
            self.completion = None;
            self.say("cleared; Ctrl-_ brings it back");
        } else if self.armed {
            self.quit(0);
        } else {
            self.stop_loading();
            self.arm();
        }
    }

    /// The next Ctrl-C quits, if it comes soon.
    fn arm(&mut self) {
        let lasts = std::time::Duration::from_secs(2);
        self.note("Ctrl-C again quits", Level::Warning, Some(lasts));
        self.armed = true;
    }

    pub(super) fn quit(&mut self, code: u8) {
        if let Some(turn) = &self.turn {
            let cancel = turn.cancel.clone();
            self.effect(Effect::Cancel(cancel));
        }
        self.effect(Effect::Quit(code));
    }

    /// Of thinking that is being made, what is shown of it changes; else what is shown of all thinking.
    pub(super) fn toggle_thinking(&mut self) {
        let look = self.transcript.look();
        let is_thinking = self
            .transcript
            .cells()
            .last()
            .is_some_and(Cell::is_thinking);
        self.fold_thinking(!if is_thinking {
            look.live
        } else {
            look.unfolded
        });
    }

    pub(super) fn fold_thinking(&mut self, unfolded: bool) {
        let look = super::Look {
            unfolded,
            live: unfolded,
            ..self.transcript.look().clone()
        };
        self.transcript.set_look(look);
        self.say(if unfolded {
            "thinking is shown"
        } else {
            "thinking is folded"
        });
    }

    /// The popup for what is typed now.
    pub(super) fn offer_completion(&mut self) {
        let candidates = commands::complete(self.draft.text());
        self.completion = (!candidates.is_empty()).then_some(Completion {
            candidates,
            index: 0,
            touched: false,
        });
    }

    /// Takes the candidate; where it is taken already, the next one.
    fn complete(&mut self, forward: bool) {
        if self.completion.is_none() {
            self.offer_completion();
        }
        let Some(completion) = &mut self.completion else {
            return;
        };
        if !forward {
            completion.go(-1);
        }
        let text = completion.candidates[completion.index].text.clone();
        if text == self.draft.text() {
            self.completion = None;
            return;
        }
        self.draft.change().set_text(&text);
        self.offer_completion();
        // A whole command needs no popup but for what may follow it.
        if self
            .completion
            .as_ref()
            .is_some_and(|popup| popup.candidates.len() == 1 && popup.candidates[0].text == text)
        {
            self.completion = None;
        }
    }
}

impl Completion {
    fn go(&mut self, lines: isize) {
        let count = self.candidates.len() as isize;
        self.index = (self.index as isize + lines).rem_euclid(count) as usize;
        self.touched = true;
    }
}
