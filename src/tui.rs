//! The chat: a session in the terminal.
//!
//! Three threads and one channel: the input thread reads the terminal, the worker owns the model, and the main thread
//! owns the [`App`] and the screen. Whatever happens becomes a [`Msg`]; `App::update` turns it into a new state and
//! [effects](event::Effect) and does nothing else; drawing is a function of the state.

pub mod app;
pub mod commands;
pub mod editor;
mod effects;
pub mod event;
mod input;
pub mod keys;
pub mod markdown;
mod pace;
mod panics;
mod signals;
mod stopped;
mod terminal;
pub mod text;
pub mod theme;
pub mod view;
mod worker;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::settings::Settings;
use app::App;
use effects::Effects;
use event::{Msg, Opened, WorkerEvent};
use input::Input;
use pace::Pace;
use signals::{Signal, Signals};
use terminal::Screen;

pub use effects::journal::Journal;
pub use terminal::check as check_terminal;
pub use worker::{LoadError, Loaded, Loader, OnProgress};

/// How long a turn that was asked to stop is waited for when the chat is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the signal of a lost terminal may take.
const MOMENT: Duration = Duration::from_millis(100);

/// Why there can be no chat.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A person must be able to type and to see.
    #[error("a chat needs a terminal, and {0}")]
    NoTerminal(&'static str),
    /// What the terminal says of itself.
    #[error("a chat needs a terminal that can move its cursor, and TERM is {0}")]
    PoorTerminal(&'static str),
    /// The terminal, or the system, refused something.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
}

/// A part that is to panic, for the tests of what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The worker, in its first turn.
    Worker,
    /// The drawing, after the first key.
    Draw,
}

/// What a chat begins with.
pub struct Start {
    /// What was decided.
    pub settings: Settings,
    /// A saved session to go on with.
    pub opened: Option<Opened>,
    /// Loads models.
    pub loader: Loader,
    /// Where conversations are kept.
    pub journal: Journal,
    /// `YYYY-MM-DD`, what models are told.
    pub date: Option<String>,
    /// For the tests.
    pub fault: Option<Fault>,
}

/// What reaches the main thread.
#[derive(Debug)]
enum Incoming {
    Msg(Msg),
    Signal(Signal),
    /// The terminal can tell Shift-Enter from Enter.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only there is it asked"))]
    Keyboard,
    /// The terminal cannot be read any more.
    InputLost(io::Error),
}

/// How a chat ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code.
    pub code: u8,
    /// What was not saved, and why.
    pub unsaved: Option<String>,
}

/// Runs a chat to its end. Nothing else may read or write the terminal meanwhile.
///
/// # Errors
/// [`Error`]; the terminal is as it was before.
pub fn run(start: Start) -> Result<Ended, Error> {
    let mut screen = Screen::enter(start.settings.mouse)?;
    let _panics = panics::install();
    let (events, incoming) = channel();
    let _signals = Signals::listen(events.clone())?;
    let fault = start.fault;
    let commands = worker::start(start.loader, events.clone(), fault == Some(Fault::Worker))?;
    let (mut app, first) = App::new(start.settings, start.opened, screen.size()?, Instant::now());
    app.today.clone_from(&start.date);
    let mut chat = Chat {
        app,
        effects: Effects::new(commands, events.clone(), start.journal, start.date),
        pace: Pace::default(),
        watch: stopped::Watch::default(),
        fault: fault.filter(|fault| *fault == Fault::Draw),
        keys: 0,
    };
    for effect in first {
        chat.effects.perform(effect, &mut screen, None)?;
    }
    // The first picture comes before the question that a terminal may take its time to answer.
    chat.draw(&mut screen)?;
    Screen::ask_for_keyboard();
    let input = Input::start(events)?;
    let code = chat.run(&incoming, &mut screen, &input);
    chat.finish(&incoming);
    let unsaved = chat.effects.journal.finish();
    input.settle();
    let left = terminal::leave();
    let code = match code {
        Ok(0) => left.map(|()| 0)?,
        Ok(code) => code,
        // A terminal that is gone may be noticed before the signal that says so.
        Err(error) => chat.hung_up(&incoming).ok_or(error)?,
    };
    Ok(Ended { code, unsaved })
}

/// The state and what moves it.
struct Chat {
    app: App,
    effects: Effects,
    pace: Pace,
    watch: stopped::Watch,
    fault: Option<Fault>,
    keys: usize,
}

impl Chat {
    /// Goes on until something asks to leave; the exit code.
    fn run(
        &mut self,
        incoming: &Receiver<Incoming>,
        screen: &mut Screen,
        input: &Input,
    ) -> Result<u8, Error> {
        loop {
            let wait = self.pace.wait(Instant::now(), self.app.is_animated());
            let begun = Instant::now();
            let first = match wait {
                None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => incoming.recv_timeout(wait),
            };
            if let Some(wait) = wait {
                let now = Instant::now();
                let stopped = self.watch.waited(wait, now.duration_since(begun), now);
                self.was_stopped(stopped, screen, input)?;
            }
            let mut next = match first {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                // Impossible while the effects hold a sender.
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            };
            while let Some(message) = next {
                self.take(message, screen, input)?;
                if let Some(code) = self.effects.quit {
                    return Ok(code);
                }
                // A flood must not keep the picture waiting.
                let due = self.pace.is_due(Instant::now());
                next = if due { None } else { incoming.try_recv().ok() };
            }
            let now = Instant::now();
            if self.app.is_animated() && self.pace.ticks(now) {
                self.update(Msg::Tick(now), screen, input)?;
            }
            if self.pace.is_due(now) {
                self.draw(screen)?;
            }
        }
    }

    fn take(
        &mut self,
        incoming: Incoming,
        screen: &mut Screen,
        input: &Input,
    ) -> Result<(), Error> {
        match incoming {
            Incoming::Msg(message) => self.update(message, screen, input),
            Incoming::Signal(Signal::End(code)) => {
                self.effects.quit = Some(code);
                Ok(())
            }
            Incoming::Signal(Signal::Interrupt) => {
                let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
                self.update(Msg::Key(key), screen, input)
            }
            Incoming::Signal(Signal::Continue) => {
                let stopped = if let Some(time) = self.effects.came_back() {
                    Some(time)
                } else {
                    // Whoever had the terminal meanwhile has set it as they like.
                    terminal::leave()?;
                    screen.resume()?;
                    self.watch.continued(Instant::now())
                };
                self.was_stopped(stopped, screen, input)?;
                self.pace.changed();
                Ok(())
            }
            Incoming::Signal(Signal::Resize) => {
                let (width, height) = screen.size()?;
                self.update(Msg::Resize { width, height }, screen, input)
            }
            Incoming::Keyboard => {
                screen.take_keyboard();
                Ok(())
            }
            Incoming::InputLost(error) => Err(error.into()),
        }
    }

    fn update(&mut self, message: Msg, screen: &mut Screen, input: &Input) -> Result<(), Error> {
        if matches!(message, Msg::Key(_)) {
            self.keys += 1;
        }
        self.note(&message);
        for effect in self.app.update(message) {
            self.effects.perform(effect, screen, Some(input))?;
        }
        self.pace.changed();
        Ok(())
    }

    /// Takes the time in which the program was stopped out of what is timed.
    fn was_stopped(
        &mut self,
        time: Option<Duration>,
        screen: &mut Screen,
        input: &Input,
    ) -> Result<(), Error> {
        let Some(time) = time else { return Ok(()) };
        stopped::note(time);
        self.update(Msg::Stopped(time), screen, input)
    }

    fn note(&mut self, message: &Msg) {
        if matches!(message, Msg::Worker(WorkerEvent::Finished { .. })) {
            self.effects.finished();
        }
    }

    fn draw(&mut self, screen: &mut Screen) -> io::Result<()> {
        let (app, breaks) = (&self.app, self.fault.is_some() && self.keys > 0);
        screen.draw(|frame| {
            assert!(!breaks, "asked for with --debug-panic");
            view::draw(app, frame);
        })?;
        self.pace.drawn(Instant::now());
        Ok(())
    }

    /// Saves what is still to be saved: what the turn under way makes until it stops, if that takes no longer than
    /// [`PATIENCE`].
    fn finish(&mut self, incoming: &Receiver<Incoming>) {
        let patience = if self.effects.stop() {
            PATIENCE
        } else {
            Duration::ZERO
        };
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(next) = incoming.recv_timeout(left) else {
                return;
            };
            let message = match next {
                Incoming::Msg(message @ (Msg::Worker(_) | Msg::Lost(_))) => message,
                Incoming::Signal(Signal::End(code)) => {
                    self.effects.quit = Some(code);
                    continue;
                }
                _ => continue,
            };
            let finished = matches!(&message, Msg::Worker(WorkerEvent::Finished { .. }));
            self.save(message);
            if finished {
                return;
            }
        }
    }

    /// Saves what follows from `message`.
    fn save(&mut self, message: Msg) {
        for effect in self.app.update(message) {
            for answer in self.effects.save(effect) {
                if matches!(answer, Msg::Lost(_)) {
                    self.save(answer);
                }
            }
        }
    }

    /// The exit code of a signal that came, or comes in a moment.
    fn hung_up(&self, incoming: &Receiver<Incoming>) -> Option<u8> {
        let deadline = Instant::now() + MOMENT;
        let mut code = self.effects.quit;
        while code.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            match incoming.recv_timeout(left) {
                Ok(Incoming::Signal(Signal::End(signal))) => code = Some(signal),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        code
    }
}
