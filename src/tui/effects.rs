//! Carries out what the state asks for.

pub mod clipboard;
mod editor;
mod files;
pub mod journal;

use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::Incoming;
use super::event::{Command, Effect, Msg};
use super::input::Input;
use super::signals;
use super::terminal::{self, Screen};
use crate::session::Cancel;
use journal::Journal;

/// What effects work on.
pub struct Effects {
    pub commands: Sender<Command>,
    pub events: Sender<Incoming>,
    pub journal: Journal,
    /// What models are told where the state says nothing.
    date: Option<String>,
    /// Of the last turn that was sent.
    cancel: Option<Cancel>,
    /// Of the last search.
    search: Cancel,
    /// Ctrl-Z was pressed and the signal that ended it is still to come.
    suspended: Option<Duration>,
    /// The exit code, once the chat is to be left.
    pub quit: Option<u8>,
}

impl Effects {
    pub fn new(
        commands: Sender<Command>,
        events: Sender<Incoming>,
        journal: Journal,
        date: Option<String>,
    ) -> Self {
        Self {
            commands,
            events,
            journal,
            date,
            cancel: None,
            search: Cancel::new(),
            suspended: None,
            quit: None,
        }
    }

    /// Carries out one effect. `input` is there once the terminal is read.
    ///
    /// # Errors
    /// When the terminal cannot be given back or taken again.
    pub fn perform(
        &mut self,
        effect: Effect,
        screen: &mut Screen,
        input: Option<&Input>,
    ) -> io::Result<()> {
        match effect {
            Effect::Send(command) => self.send(command),
            Effect::Cancel(cancel) => cancel.cancel(),
            Effect::Copy(text) => clipboard::copy(&text, &self.events)?,
            Effect::Edit(text) => {
                let edited = lent(screen, input, || editor::edit(&text))?;
                self.answer(Msg::Edited(edited));
            }
            Effect::ReadFile(path) => {
                let result = files::read(&path);
                self.answer(Msg::FileRead { path, result });
            }
            Effect::Export { path, content } => {
                self.answer(files::export(&path, &content).map_or_else(Msg::Problem, Msg::Done));
            }
            Effect::Search(search) => self.search(search),
            Effect::Suspend => {
                let since = Instant::now();
                lent(screen, input, signals::suspend)??;
                self.suspended = Some(since.elapsed());
            }
            Effect::Mouse(on) => screen.set_mouse(on)?,
            Effect::Repaint => screen.repaint()?,
            Effect::Quit(code) => self.quit = Some(code),
            other => {
                let before = self.journal.unsaved().is_some();
                for message in self.journal.perform(other) {
                    self.answer(message);
                }
                let now = self.journal.unsaved().is_some();
                if now != before {
                    self.answer(Msg::Unsaved(now));
                }
            }
        }
        Ok(())
    }

    /// Carries out only what concerns the saved session: the chat is being left. Whoever would be told has left, but
    /// the state may know more to do.
    pub fn save(&mut self, effect: Effect) -> Vec<Msg> {
        match effect {
            Effect::Save(_) | Effect::SaveAll(_) | Effect::NewSession => {
                self.journal.perform(effect)
            }
            _ => Vec::new(),
        }
    }

    /// Asks the turn under way to stop; whether there was one.
    pub fn stop(&self) -> bool {
        self.cancel
            .as_ref()
            .inspect(|cancel| cancel.cancel())
            .is_some()
    }

    /// How long the process was stopped by its own Ctrl-Z, after which the terminal is taken already; once.
    pub fn came_back(&mut self) -> Option<Duration> {
        self.suspended.take()
    }

    /// The turn under way is over.
    pub fn finished(&mut self) {
        self.cancel = None;
    }

    fn send(&mut self, mut command: Command) {
        if let Command::Turn { cancel, setup, .. } = &mut command {
            self.cancel = Some(cancel.clone());
            if setup.date.is_none() {
                setup.date.clone_from(&self.date);
            }
        }
        if self.commands.send(command).is_err() {
            self.answer(Msg::Problem("the worker has ended: start again".to_owned()));
        }
    }

    /// Searches beside the chat, as there may be much to read. The search before is given up.
    fn search(&mut self, search: String) {
        let cancel = Cancel::new();
        std::mem::replace(&mut self.search, cancel.clone()).cancel();
        let events = self.events.clone();
        let store = self.journal.store().cloned();
        let work = move || {
            let found = store.map(|store| {
                store
                    .search(&search, &cancel)
                    .map_err(|error| error.to_string())
            });
            let result = match found.and_then(|found| found) {
                Ok(None) => return,
                Ok(Some(hits)) => Ok(hits),
                Err(problem) => Err(problem),
            };
            // The chat may have been left.
            let _ = events.send(Incoming::Msg(Msg::Hits { search, result }));
        };
        if let Err(error) = thread::Builder::new().name("search".to_owned()).spawn(work) {
            self.answer(Msg::Refused(format!("cannot search: {error}")));
        }
    }

    fn answer(&self, message: Msg) {
        // The receiver is the loop that called.
        let _ = self.events.send(Incoming::Msg(message));
    }
}

/// Runs `work` while the terminal is as it was before the chat.
fn lent<T>(screen: &mut Screen, input: Option<&Input>, work: impl FnOnce() -> T) -> io::Result<T> {
    let borrow = || {
        terminal::leave()?;
        let modes = terminal::Modes::now();
        signals::set_lent(true);
        let result = work();
        signals::set_lent(false);
        // Who was ended before its time has not put them back.
        modes.restore();
        screen.resume()?;
        Ok(result)
    };
    match input {
        Some(input) => input.paused(borrow),
        None => borrow(),
    }
}
