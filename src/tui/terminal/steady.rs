//! Drawing of grapheme clusters of whose width terminals have different opinions: flags, joined emoji, keycaps.
//!
//! A terminal that gives such a cluster more cells than we do overwrites what follows, one that gives it fewer leaves
//! what was there before. So its cells are blanked first, and while one is or was on a row, the rest of that row is
//! written again with every change, each piece at its place.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crossterm::queue;
use crossterm::style::Print;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::{Buffer, Cell, CellDiffOption};
use ratatui::layout::{Position, Size};

use crate::tui::text::grapheme_width;

/// A cluster that is wider than we think must not go on in the next row.
const WRAP_OFF: &str = "\x1b[?7l";
const WRAP_ON: &str = "\x1b[?7h";

/// Terminals may not agree on the width of this cluster.
pub fn is_disputed(cluster: &str) -> bool {
    let is_special = |char| {
        matches!(
            char,
            // Joiner, keycap, presentation selectors, regional indicators and all emoji with planes of their own.
            '\u{200d}' | '\u{20e3}' | '\u{fe0e}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}'
        )
    };
    let is_visible = |char: &char| grapheme_width(char.encode_utf8(&mut [0; 4])) > 0;
    !cluster.is_ascii()
        && (cluster.contains(is_special) || cluster.chars().filter(is_visible).count() > 1)
}

/// Where the last picture had disputed clusters.
#[derive(Debug, Default)]
pub struct Disputes {
    /// The ends of rows from the first such cluster on, and where they begin.
    rows: BTreeMap<u16, (u16, Vec<Cell>)>,
}

impl Disputes {
    /// Has the ends of rows written anew that have, or had, a disputed cluster and are not as they were.
    pub fn settle(&mut self, buffer: &mut Buffer) {
        let area = buffer.area;
        let end = |buffer: &Buffer, y: u16| {
            let is_first = |x: &u16| is_disputed(buffer[(*x, y)].symbol());
            let first = (area.left()..area.right()).find(is_first)?;
            let cells = (first..area.right()).map(|x| buffer[(x, y)].clone());
            Some((first, cells.collect()))
        };
        let rows: BTreeMap<_, _> = (area.top()..area.bottom())
            .filter_map(|y| Some((y, end(buffer, y)?)))
            .collect();
        for y in area.top()..area.bottom() {
            let (before, now) = (self.rows.get(&y), rows.get(&y));
            if before == now {
                continue;
            }
            let firsts = [before, now].into_iter().flatten().map(|(first, _)| *first);
            for x in firsts.min().unwrap_or(area.right())..area.right() {
                buffer[(x, y)].diff_option = CellDiffOption::AlwaysUpdate;
            }
        }
        self.rows = rows;
    }
}

/// A backend that draws disputed clusters so that every terminal shows the same columns.
#[derive(Debug)]
pub struct Steady<B>(B);

impl<B> Steady<B> {
    pub fn new(backend: B) -> Self {
        Self(backend)
    }
}

impl<B: Backend<Error = io::Error> + Write> Backend for Steady<B> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut plain: Vec<(u16, u16, &Cell)> = Vec::new();
        // The cells that the last disputed cluster covers.
        let mut covered = (0, 0..0);
        for (x, y, cell) in content {
            if covered.0 == y && covered.1.contains(&x) {
                continue;
            }
            if !is_disputed(cell.symbol()) {
                plain.push((x, y, cell));
                continue;
            }
            self.0.draw(plain.drain(..))?;
            let width = grapheme_width(cell.symbol()).max(1) as u16;
            let mut blank = cell.clone();
            blank.set_symbol(" ");
            let end = x.saturating_add(width);
            self.0.draw((x..end).map(|x| (x, y, &blank)))?;
            queue!(self.0, Print(WRAP_OFF))?;
            self.0.draw(std::iter::once((x, y, cell)))?;
            queue!(self.0, Print(WRAP_ON))?;
            covered = (y, x..end);
        }
        self.0.draw(plain.into_iter())
    }

    fn append_lines(&mut self, lines: u16) -> io::Result<()> {
        self.0.append_lines(lines)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.0.clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.0.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}

#[cfg(test)]
mod tests;
