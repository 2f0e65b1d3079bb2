//! The input thread: keys, pastes, the wheel, the size.

mod burst;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyEventKind, MouseEventKind, poll, read};

use super::Incoming;
use super::event::Msg;
use burst::Burst;

/// How long the thread waits for input before it looks whether it should stop.
const STEP: Duration = Duration::from_millis(50);
/// crossterm looks for nothing where it is to wait for no time at all.
const LEAST: Duration = Duration::from_millis(1);
/// Lines per notch of the wheel.
const WHEEL: i16 = 3;

/// The thread that reads the terminal.
#[derive(Debug)]
pub struct Input {
    gate: Arc<Gate>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the thread may read.
#[derive(Debug, Default)]
struct Gate {
    end: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// It should not read.
    closed: bool,
    /// It does not.
    waiting: bool,
}

impl Input {
    /// Starts the thread. It ends with the channel, or when this is dropped.
    pub fn start(sender: Sender<Incoming>) -> io::Result<Self> {
        let gate = Arc::new(Gate::default());
        let seen = Arc::clone(&gate);
        let thread = std::thread::Builder::new()
            .name("input".to_owned())
            .spawn(move || {
                if let Err(error) = forward(&seen, &sender) {
                    let _ = sender.send(Incoming::InputLost(error));
                }
            })?;
        Ok(Self {
            gate,
            thread: Some(thread),
        })
    }

    /// Runs `work` while the thread leaves the terminal alone.
    pub fn paused<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.gate.state();
        state.closed = true;
        let running = |state: &mut State| !state.waiting && !self.is_finished();
        while running(&mut state) {
            state = self
                .gate
                .changed
                .wait_timeout(state, STEP)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        drop(state);
        let result = work();
        self.gate.state().closed = false;
        self.gate.changed.notify_all();
        result
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // Not joined: it may wait for the rest of a sequence that never comes.
        self.gate.end.store(true, Ordering::Relaxed);
    }
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the gate is closed.
    fn pass(&self) {
        let mut state = self.state();
        while state.closed {
            state.waiting = true;
            self.changed.notify_all();
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting = false;
    }
}

fn forward(gate: &Gate, sender: &Sender<Incoming>) -> io::Result<()> {
    let mut burst = Burst::default();
    // With the first look for input crossterm begins to listen for new sizes: one that came before would be missed.
    poll(LEAST)?;
    let (width, height) = crossterm::terminal::size()?;
    let size = Msg::Resize { width, height };
    if sender.send(Incoming::Msg(size)).is_err() {
        return Ok(());
    }
    while !gate.end.load(Ordering::Relaxed) {
        gate.pass();
        let messages = if poll(burst.wait().unwrap_or(STEP).max(LEAST))? {
            take(&mut burst, read()?)
        } else {
            burst.flush(Instant::now())
        };
        for message in messages {
            if sender.send(Incoming::Msg(message)).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn take(burst: &mut Burst, event: Event) -> Vec<Msg> {
    let now = Instant::now();
    let message = match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => return Vec::new(),
        Event::Key(key) => return burst.key(key, now),
        Event::Paste(text) => Msg::Paste(text.replace("\r\n", "\n").replace('\r', "\n")),
        Event::Resize(width, height) => Msg::Resize { width, height },
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::ScrollUp => Msg::Scroll(-WHEEL),
            MouseEventKind::ScrollDown => Msg::Scroll(WHEEL),
            MouseEventKind::Down(_) => Msg::Click,
            _ => return Vec::new(),
        },
        Event::FocusGained | Event::FocusLost => return Vec::new(),
    };
    let mut messages = burst.flush(now);
    messages.push(message);
    messages
}
