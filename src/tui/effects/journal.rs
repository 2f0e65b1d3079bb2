//! The saved session: what effects ask of the store.

use crate::tui::event::{Effect, Msg};

/// The store and the session being written.
#[derive(Debug, Default)]
pub struct Journal {}

impl Journal {
    /// Carries out an effect that concerns saved sessions, and gives what is to be answered.
    pub fn perform(&mut self, effect: Effect) -> Vec<Msg> {
        let _ = effect;
        Vec::new()
    }
}
