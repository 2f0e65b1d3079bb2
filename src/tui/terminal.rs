//! The screen: taken, given back whatever happens, taken again.

mod steady;

use std::io::{self, IsTerminal, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU8, Ordering};

use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyboardEnhancementFlags,
    PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};

use super::Error;
use steady::{Disputes, Steady};

/// A state of the terminal that is to be undone; its bit in [`ON`].
type Mode = u8;
const RAW: Mode = 1;
const ALTERNATE: Mode = 2;
const PASTE: Mode = 4;
const MOUSE: Mode = 8;
const KEYBOARD: Mode = 16;

/// What is on now. Of the process, as the terminal is: the panic hook and a signal have no other way to it.
static ON: AtomicU8 = AtomicU8::new(0);

/// Buttons and wheel, in the form that counts beyond column 223. Movements, which crossterm's own
/// command asks for too, would be nothing but noise.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// The terminal while the chat has it.
#[derive(Debug)]
pub struct Screen {
    /// Never dropped: it would write to a terminal that may be gone, and complain about that on standard
    /// error, which may be gone with it. [`leave`] shows the cursor.
    terminal: ManuallyDrop<Terminal<Steady<CrosstermBackend<Stdout>>>>,
    /// Where on it are clusters of disputed width.
    disputes: Disputes,
    mouse: bool,
    /// Shift-Enter can be told from Enter, if the terminal said so.
    keyboard: bool,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// [`Error::NoTerminal`] as [`check`], [`Error::Terminal`] when it refuses; it is then as it was.
    pub fn enter(mouse: bool) -> Result<Self, Error> {
        check()?;
        let mut screen = Self {
            terminal: ManuallyDrop::new(Terminal::new(Steady::new(CrosstermBackend::new(
                io::stdout(),
            )))?),
            disputes: Disputes::default(),
            mouse,
            keyboard: false,
        };
        screen.resume()?;
        Ok(screen)
    }

    /// Asks the terminal whether it tells Shift-Enter from Enter. The answer, if there is one, comes among the keys; the
    /// second question is one that every terminal answers.
    pub fn ask_for_keyboard() {
        // Without it Ctrl-J still breaks a line.
        if cfg!(unix) {
            let _ = execute!(io::stdout(), Print("\x1b[?u\x1b[c"));
        }
    }

    /// The terminal can tell Shift-Enter from Enter: it is to do it.
    pub fn take_keyboard(&mut self) {
        if !std::mem::replace(&mut self.keyboard, true) {
            let _ = enter_keyboard();
        }
    }

    /// Takes the terminal again after [`leave`].
    pub fn resume(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        ON.fetch_or(RAW, Ordering::SeqCst);
        let mut out = io::stdout();
        execute!(out, EnterAlternateScreen)?;
        ON.fetch_or(ALTERNATE, Ordering::SeqCst);
        execute!(out, EnableBracketedPaste)?;
        ON.fetch_or(PASTE, Ordering::SeqCst);
        if self.mouse {
            self.set_mouse(true)?;
        }
        if self.keyboard {
            enter_keyboard()?;
        }
        self.repaint()
    }

    /// Takes the mouse, or leaves it to the terminal.
    pub fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        if on {
            execute!(io::stdout(), Print(MOUSE_ON))?;
            ON.fetch_or(MOUSE, Ordering::SeqCst);
        } else if ON.fetch_and(!MOUSE, Ordering::SeqCst) & MOUSE != 0 {
            execute!(io::stdout(), Print(MOUSE_OFF))?;
        }
        Ok(())
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        self.terminal.size().map(|size| (size.width, size.height))
    }

    /// The next drawing writes every cell. `Terminal::clear` would ask for the cursor's position and wait
    /// for an answer that the input thread takes away.
    pub fn repaint(&mut self) -> io::Result<()> {
        self.disputes = Disputes::default();
        let (width, height) = self.size()?;
        self.terminal.resize(Rect::new(0, 0, width, height))
    }

    /// Draws what has changed, at once for terminals that can.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        let disputes = &mut self.disputes;
        let drawn = self.terminal.draw(|frame| {
            render(frame);
            disputes.settle(frame.buffer_mut());
        });
        let drawn = drawn.map(|_| ());
        execute!(io::stdout(), EndSynchronizedUpdate)?;
        drawn
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nothing left to try.
        let _ = leave();
    }
}

fn enter_keyboard() -> io::Result<()> {
    let flags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
    execute!(io::stdout(), PushKeyboardEnhancementFlags(flags))?;
    ON.fetch_or(KEYBOARD, Ordering::SeqCst);
    Ok(())
}

/// How the system treats lines of the terminal.
#[derive(Debug)]
pub struct Modes {
    #[cfg(unix)]
    termios: Option<nix::sys::termios::Termios>,
}

impl Modes {
    /// As they are now.
    pub fn now() -> Self {
        Self {
            #[cfg(unix)]
            termios: nix::sys::termios::tcgetattr(io::stdin()).ok(),
        }
    }

    /// Makes them so again. A terminal that is gone has none.
    pub fn restore(&self) {
        #[cfg(unix)]
        if let Some(termios) = &self.termios {
            use nix::sys::termios::{SetArg, tcsetattr};
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, termios);
        }
    }
}

/// Whether a person can type and see here.
///
/// # Errors
/// [`Error::NoTerminal`] and [`Error::PoorTerminal`]
pub fn check() -> Result<(), Error> {
    if !io::stdin().is_terminal() {
        return Err(Error::NoTerminal("standard input is none"));
    }
    if !io::stdout().is_terminal() {
        return Err(Error::NoTerminal("standard output is none"));
    }
    match std::env::var_os("TERM") {
        Some(name) if name == "dumb" => Err(Error::PoorTerminal("`dumb`")),
        // Windows has none.
        Some(name) if name.is_empty() => Err(Error::PoorTerminal("empty")),
        None if cfg!(unix) => Err(Error::PoorTerminal("not set")),
        _ => Ok(()),
    }
}

/// Gives the terminal back as it was. May be called at any time, from any thread, and again.
///
/// # Errors
/// The first that came; the rest is undone all the same.
pub fn leave() -> io::Result<()> {
    let on = ON.swap(0, Ordering::SeqCst);
    let mut out = io::stdout();
    let mut first = Ok(());
    let mut undo = |mode: Mode, undone: &mut dyn FnMut() -> io::Result<()>| {
        if on & mode != 0
            && let Err(error) = undone()
            && first.is_ok()
        {
            first = Err(error);
        }
    };
    undo(KEYBOARD, &mut || execute!(out, PopKeyboardEnhancementFlags));
    undo(MOUSE, &mut || execute!(out, Print(MOUSE_OFF)));
    undo(PASTE, &mut || execute!(out, DisableBracketedPaste));
    undo(ALTERNATE, &mut || {
        execute!(out, EndSynchronizedUpdate, Show, LeaveAlternateScreen)
    });
    undo(RAW, &mut disable_raw_mode);
    let flushed = out.flush();
    first.and(flushed)
}
