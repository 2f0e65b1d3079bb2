//! Loading models: the first, another, one again.

use super::cell::{Cell, CellKind};
use super::note::About;
use super::{App, Phase};
use crate::session::Cancel;
use crate::text::{sanitize, without_code};
use crate::tui::event::{Command, Effect, ModelInfo};

impl App {
    /// Loads a model in place of the one in use, which is kept until the other is there.
    pub(super) fn load(&mut self, model: String) {
        self.note.take_if(|note| note.about == Some(About::Load));
        self.phase = Phase::Loading {
            what: format!("loading {model}"),
            done: 0,
            total: 0,
        };
        self.transcript.drop_errors(true);
        self.before = self.model.take().or(self.before.take());
        self.wanted.clone_from(&model);
        let cancel = Cancel::new();
        self.loading = Some(cancel.clone());
        self.effect(Effect::Send(Command::Load { model, cancel }));
    }

    /// Asks the load under way to stop, if there is one.
    pub(super) fn stop_loading(&mut self) {
        if let Some(cancel) = self.loading.take() {
            self.phase = Phase::Stopping;
            self.effect(Effect::Cancel(cancel));
        }
    }

    /// How far the load under way is.
    pub(super) fn loads(&mut self, what: &str, done: u64, total: u64) {
        if !self.is_busy() && self.phase != Phase::Stopping {
            let what = sanitize(what).replace('\n', " ");
            if what.starts_with("loading") || what.starts_with("compiling") {
                self.download = None;
            } else {
                self.download.get_or_insert_default();
            }
            self.phase = Phase::Loading { what, done, total };
        }
    }

    /// A model is there.
    pub(super) fn loaded(&mut self, model: ModelInfo) {
        self.wanted.clone_from(&model.name);
        let chosen = std::mem::take(&mut self.chosen).then(|| model.name.clone());
        self.have(model);
        if let Some(name) = chosen {
            self.say(&format!("`{name}` is loaded"));
        }
    }

    /// There is none; the one before goes on, if there was one.
    pub(super) fn load_failed(&mut self, message: String, hint: Option<String>) {
        self.loading = None;
        self.download = None;
        self.chosen = false;
        let text = self.load_error(&message, hint.as_deref());
        if let Some(model) = self.before.take() {
            self.wanted.clone_from(&model.name);
            let name = model.name.clone();
            self.have(model);
            self.fail(&format!("{text}\n`{name}` goes on"));
        } else {
            self.phase = Phase::Failed { message, hint };
            self.show_load_error();
        }
    }

    fn load_error(&self, message: &str, hint: Option<&str>) -> String {
        let hint = hint.map_or_else(String::new, |hint| format!("\nhint: {hint}"));
        format!("cannot load `{}`: {message}{hint}", self.wanted)
    }

    /// Why there is no model: that stands in the conversation, whatever becomes of it, until it is tried again.
    pub(super) fn show_load_error(&mut self) {
        let Phase::Failed { message, hint } = &self.phase else {
            return;
        };
        let mut text = self.load_error(message, hint.as_deref());
        text += "\n`/model NAME` loads another; `/model`, or r where nothing is typed, tries again";
        let mut cell = Cell::new(CellKind::Error, &without_code(&text));
        cell.stays = true;
        if !self.transcript.cells().iter().any(|cell| cell.stays) {
            self.transcript.push(cell);
        }
    }

    /// There is a model: what waited for it goes out.
    fn have(&mut self, model: ModelInfo) {
        self.note.take_if(|note| note.about == Some(About::Load));
        self.model = Some(model);
        self.before = None;
        self.loading = None;
        self.download = None;
        self.phase = Phase::Idle;
        if std::mem::take(&mut self.waiting) {
            self.start_turn(None);
        }
    }
}
