//! Notices: what was just done or could not be, and how long that is said.

use std::time::{Duration, Instant};

use super::App;
use super::cell::{Cell, CellKind};
use crate::text::{sanitize, without_code};

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

/// What a note may be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The turn under way.
    Turn,
    /// The load under way, or that there is no model.
    Load,
    /// What is being counted.
    Count(u64),
}

/// A notice. The next key that does something takes it away.
#[derive(Debug)]
pub(crate) struct Note {
    /// May have several lines.
    pub text: String,
    pub level: Level,
    /// With this it has its point, and loses it.
    pub about: Option<About>,
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
        self.note_is_about(About::Turn);
    }

    /// Says that something is not possible until a model is loaded.
    pub(super) fn warn_of_the_load(&mut self, text: &str) {
        self.warn(text);
        self.note_is_about(About::Load);
    }

    pub(super) fn note_is_about(&mut self, about: About) {
        if let Some(note) = &mut self.note {
            note.about = Some(about);
        }
    }

    pub(super) fn note(&mut self, text: &str, level: Level, lasts: Option<Duration>) {
        self.armed = false;
        self.note = Some(Note {
            text: without_code(&sanitize(text)).trim_end().to_owned(),
            level,
            about: None,
            since: None,
            lasts,
            asked: self.asked,
        });
    }

    /// Puts an error where the answer would be. It goes when something is tried again.
    pub(super) fn report(&mut self, text: &str) {
        let text = without_code(text);
        self.transcript.push(Cell::new(CellKind::Error, &text));
    }

    /// The note has been there while a key was pressed.
    pub(super) fn dismiss_note(&mut self) {
        let now = self.now;
        if self.note.take_if(|note| note.may_go(now)).is_none()
            && let Some(note) = &mut self.note
        {
            // It was there too short a time; it need not wait for another key.
            note.lasts = Some(note.lasts.map_or(HELD, |lasts| lasts.min(HELD)));
        }
    }

    /// Who presses a button wants to select something, and the terminal does not do it now.
    pub(super) fn explain_selecting(&mut self) {
        self.say(
            "hold Shift (Option on a Mac) to select text; `/mouse off` leaves the mouse to the terminal",
        );
    }
}
