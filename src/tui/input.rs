//! The input thread: keys, pastes, the wheel, the size.

mod burst;
#[cfg(unix)]
mod decode;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Incoming;
use super::event::Msg;
use burst::Burst;

/// How long the thread waits for input before it looks whether it should stop.
const STEP: Duration = Duration::from_millis(50);
/// crossterm looks for nothing where it is to wait for no time at all.
const LEAST: Duration = Duration::from_millis(1);
/// How long an answer of the terminal is expected, and how long it is waited for when the chat is left.
#[cfg(unix)]
const ANSWER: Duration = Duration::from_secs(1);
#[cfg(unix)]
const LAST_ANSWER: Duration = Duration::from_millis(200);
/// Lines per notch of the wheel.
const WHEEL: i16 = 3;

/// The thread that reads the terminal.
#[derive(Debug)]
pub struct Input {
    gate: Arc<Gate>,
    #[cfg(unix)]
    started: Instant,
    thread: Option<JoinHandle<()>>,
}

/// Whether the thread may read.
#[derive(Debug, Default)]
struct Gate {
    end: AtomicBool,
    /// The terminal has answered what everybody answers.
    answered: AtomicBool,
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
            #[cfg(unix)]
            started: Instant::now(),
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

    /// Waits a moment for an answer of the terminal that is on its way: whoever reads next would take it for keys.
    #[cfg(unix)]
    pub fn settle(&self) {
        let asked = self.started.elapsed() < ANSWER;
        let until = Instant::now() + LAST_ANSWER;
        while asked
            && !self.gate.answered.load(Ordering::Relaxed)
            && !self.is_finished()
            && Instant::now() < until
        {
            std::thread::sleep(LEAST);
        }
    }

    /// Elsewhere nothing is asked.
    #[cfg(not(unix))]
    pub fn settle(&self) {}

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

#[cfg(unix)]
fn forward(gate: &Gate, sender: &Sender<Incoming>) -> io::Result<()> {
    use decode::{Decoder, Heard};
    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;

    let stdin = io::stdin();
    let mut decoder = Decoder::default();
    let mut burst = Burst::default();
    let mut bytes = [0; 1 << 14];
    while !gate.end.load(Ordering::Relaxed) {
        gate.pass();
        let now = Instant::now();
        let waits = [burst.wait(), decoder.wait(now)];
        let wait = waits.into_iter().flatten().min().unwrap_or(STEP);
        // A part of a millisecond is one, or the loop would spin.
        let milliseconds = wait.clamp(LEAST, STEP).as_micros().div_ceil(1000) as u16;
        let mut sources = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let ready = match poll(&mut sources, PollTimeout::from(milliseconds)) {
            Err(Errno::EINTR) => continue,
            ready => ready? > 0,
        };
        let heard = if ready {
            match nix::unistd::read(stdin.as_fd(), &mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => decoder.push(&bytes[..length], Instant::now()),
                Err(Errno::EINTR | Errno::EAGAIN) => continue,
                Err(error) => return Err(error.into()),
            }
        } else {
            decoder.expire(Instant::now())
        };
        let now = Instant::now();
        let mut messages = Vec::new();
        for heard in heard {
            let message = match heard {
                Heard::Key(key) => {
                    messages.extend(burst.key(key, now).into_iter().map(Incoming::Msg));
                    continue;
                }
                Heard::Paste(text) => Incoming::Msg(Msg::Paste(pasted(&text))),
                Heard::Wheel(notches) => Incoming::Msg(Msg::Scroll(notches * WHEEL)),
                Heard::Click => Incoming::Msg(Msg::Click),
                Heard::Keyboard => Incoming::Keyboard,
                Heard::Attributes => {
                    gate.answered.store(true, Ordering::Relaxed);
                    continue;
                }
            };
            messages.extend(burst.flush(now).into_iter().map(Incoming::Msg));
            messages.push(message);
        }
        if !ready {
            messages.extend(burst.flush(now).into_iter().map(Incoming::Msg));
        }
        for message in messages {
            if sender.send(message).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn pasted(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(not(unix))]
fn forward(gate: &Gate, sender: &Sender<Incoming>) -> io::Result<()> {
    use crossterm::event::{poll, read};

    let mut burst = Burst::default();
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

#[cfg(not(unix))]
fn take(burst: &mut Burst, event: crossterm::event::Event) -> Vec<Msg> {
    use crossterm::event::{Event, KeyEventKind, MouseEventKind};

    let now = Instant::now();
    let message = match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => return Vec::new(),
        Event::Key(key) => return burst.key(key, now),
        Event::Paste(text) => Msg::Paste(pasted(&text)),
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
