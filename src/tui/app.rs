//! The state of the chat and how it changes.

use std::time::Instant;

use super::event::{Effect, Msg, Opened};
use crate::settings::Settings;

/// Everything that is on the screen and behind it.
#[derive(Debug)]
pub struct App {/* private */}

impl App {
    /// At the start: the model is still to be loaded (the first effects say so).
    pub fn new(
        settings: Settings,
        opened: Option<Opened>,
        size: (u16, u16),
        now: Instant,
    ) -> (Self, Vec<Effect>) {
        let _ = (settings, opened, size, now);
        todo!()
    }
    /// What happens next. No I/O, no clock, no randomness.
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        let _ = msg;
        todo!()
    }
    /// Something moves (a spinner, a timed message): ticks are wanted.
    pub fn is_animated(&self) -> bool {
        todo!()
    }
}
