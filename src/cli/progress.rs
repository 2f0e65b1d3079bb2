//! Where progress bars are drawn, and what they say of a load.

use std::io;

use console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

use crate::hub::decimal_bytes;
use crate::session::LoadStep;

/// Frames per second.
const FRAMES: u8 = 10;

/// Room for `^C` and a little typing.
const ROOM: u16 = 8;

/// Standard error, for a bar of one line. It is for the caller to know that this is a terminal which can
/// redraw lines.
pub fn target() -> ProgressDrawTarget {
    ProgressDrawTarget::term_like_with_hz(Box::new(Narrowed(Term::stderr())), FRAMES)
}

/// How far a load is, to follow the name of the model.
pub fn of_load(step: LoadStep) -> String {
    match step {
        LoadStep::Opening => String::new(),
        LoadStep::Uploading { done, total } => format!(
            ": {} of {} on the device",
            decimal_bytes(done),
            decimal_bytes(total)
        ),
        LoadStep::Compiling => ": compiling kernels".to_owned(),
    }
}

/// A terminal with less width than it has. A bar is filled up to the width; the `^C` that a terminal
/// writes after it would move to the next line, and clearing would miss the bar.
#[derive(Debug)]
struct Narrowed(Term);

impl TermLike for Narrowed {
    fn width(&self) -> u16 {
        TermLike::width(&self.0).saturating_sub(ROOM)
    }
    fn height(&self) -> u16 {
        TermLike::height(&self.0)
    }
    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }
    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }
    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }
    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }
    fn write_line(&self, line: &str) -> io::Result<()> {
        self.0.write_line(line)
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }
    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }
    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
