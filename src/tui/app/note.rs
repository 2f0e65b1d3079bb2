//! Notices: what was just done or could not be, and how long that is said.

use std::time::{Duration, Instant};

use super::App;
use super::cell::{Cell, CellKind};
use crate::tui::text::sanitize;

/// How long something that went well is said.
const SHORT: Duration = Duration::from_secs(4);
/// What answers no key is not taken away by a key that was on its way.
const HELD: Duration = Duration::from_millis(1500);

/// How a note is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Done,
    Warning,
    Error,
}

/// A notice. The next key that does something takes it away.
#[derive(Debug)]
pub(crate) struct Note {
    /// May have several lines.
    pub text: String,
    pub level: Level,
    /// It has no point once the turn is over.
    pub is_about_the_turn: bool,
    /// When it came: set by the first tick, since no other message knows the time.
    since: Option<Instant>,
    /// How long it stays at most; what went wrong stays until a key.
    lasts: Option<Duration>,
    /// It is the answer to a key.
    asked: bool,
}

impl Note {
    /// Whether it is over by itself.
    pub fn tick(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        self.lasts.is_some_and(|lasts| now >= since + lasts)
    }

    /// Whether a key takes it away.
    pub fn may_go(&self, now: Instant) -> bool {
        let held = |since: Instant| now < since + HELD;
        self.asked || self.since.is_some_and(|since| !held(since))
    }

    /// Whether time changes anything about it.
    pub fn needs_ticks(&self, now: Instant) -> bool {
        self.lasts.is_some() || !self.may_go(now)
    }
}

impl App {
    /// Says something for a few seconds.
    pub(super) fn say(&mut self, text: &str) {
        self.note(text, Level::Done, Some(SHORT));
    }

    /// Says that something is not possible.
    pub(super) fn warn(&mut self, text: &str) {
        self.note(text, Level::Warning, None);
    }

    /// Says that something went wrong.
    pub(super) fn fail(&mut self, text: &str) {
        self.note(text, Level::Error, None);
    }

    /// Says that something is not possible until the turn is over.
    pub(super) fn warn_of_the_turn(&mut self) {
        self.warn("the answer is still coming: Esc stops it");
        if let Some(note) = &mut self.note {
            note.is_about_the_turn = true;
        }
    }

    pub(super) fn note(&mut self, text: &str, level: Level, lasts: Option<Duration>) {
        self.armed = false;
        self.note = Some(Note {
            text: sanitize(text).trim_end().to_owned(),
            level,
            is_about_the_turn: false,
            since: None,
            lasts,
            asked: self.asked,
        });
    }

    /// Puts an error where the answer would be. It goes when something is tried again.
    pub(super) fn report(&mut self, text: &str) {
        self.transcript.push(Cell::new(CellKind::Error, text));
    }

    /// The note has been there while a key was pressed.
    pub(super) fn dismiss_note(&mut self) {
        let now = self.now;
        self.note.take_if(|note| note.may_go(now));
    }

    /// Who presses a button wants to select something, and the terminal does not do it now.
    pub(super) fn explain_selecting(&mut self) {
        self.say(
            "hold Shift (Option on a Mac) to select text; `/mouse off` leaves the mouse to the terminal",
        );
    }
}
