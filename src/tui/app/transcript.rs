//! What was said, as cells with cached lines, and the part of it that is on the screen.
//!
//! A token changes the last cell alone, and only cells that come into view are laid out, so neither an update nor a draw depends on
//! how long the transcript is.

use ratatui::text::Line;

use super::cell::{Cell, CellKind};
use crate::session::Kind;
use crate::store::{Entry, NodeId, Tree};
use crate::tui::theme::Theme;

/// How cells are laid out; another value of it makes their lines stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub width: usize,
    pub theme: Theme,
    /// Thinking is unfolded, and so are files.
    pub unfolded: bool,
    /// Thinking is shown while it is made.
    pub live: bool,
}

/// A row of the transcript: the cell and the row in it, the blank one before it counted.
pub(crate) type Row = (usize, usize);

#[derive(Debug)]
pub(crate) struct Transcript {
    cells: Vec<Cell>,
    look: Look,
    /// Counts the looks there were, so that a cell knows whether its lines are stale.
    generation: u64,
    height: usize,
    /// The first row on the screen where the user scrolled up; `None` follows the end.
    anchor: Option<Row>,
    /// The user just went to the anchor: where that is the end, it is followed again.
    going: bool,
    /// The end of the transcript is on the screen.
    at_end: bool,
    /// The first row on the screen.
    first: Row,
    /// Lines that came since the user scrolled up.
    unseen: usize,
}

impl Transcript {
    pub fn new(look: Look, height: usize) -> Self {
        Self {
            cells: Vec::new(),
            look,
            generation: 0,
            height,
            anchor: None,
            going: false,
            at_end: true,
            first: (0, 0),
            unseen: 0,
        }
    }

    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    pub fn last_mut(&mut self) -> Option<&mut Cell> {
        self.cells.last_mut()
    }

    /// Lines that came below the screen, where the user scrolled up.
    pub fn unseen(&self) -> Option<usize> {
        (!self.at_end).then_some(self.unseen)
    }

    pub fn look(&self) -> &Look {
        &self.look
    }

    pub fn set_look(&mut self, look: Look) {
        if look != self.look {
            self.look = look;
            self.generation += 1;
        }
    }

    pub fn set_height(&mut self, height: usize) {
        self.height = height;
    }

    pub fn push(&mut self, cell: Cell) {
        self.grows();
        self.cells.push(cell);
        let last = self.cells.len() - 1;
        self.unseen += self.rows(last);
    }

    /// More text for the last cell.
    pub fn append(&mut self, text: &str) {
        let Some(last) = self.cells.len().checked_sub(1) else {
            return;
        };
        self.grows();
        let before = self.rows(last);
        self.cells[last].append(text, &self.look);
        self.unseen += self.rows(last).saturating_sub(before);
    }

    /// Who sees the end goes on seeing it, also where a resize brought it there.
    fn grows(&mut self) {
        if self.at_end {
            self.follow();
        }
    }

    /// Changes the last cell in another way than by more text.
    pub fn change_last(&mut self, change: impl FnOnce(&mut Cell)) {
        if let Some(cell) = self.cells.last_mut() {
            change(cell);
            cell.forget_lines();
        }
    }

    /// Takes away what went wrong before and is overtaken; also what stays, where `all` of it is.
    pub fn drop_errors(&mut self, all: bool) {
        let before = self.cells.len();
        self.cells
            .retain(|cell| cell.kind != CellKind::Error || (cell.stays && !all));
        if self.cells.len() < before {
            self.grows();
        }
    }

    /// Takes away the notice at the end.
    pub fn drop_last_notice(&mut self) {
        self.cells
            .pop_if(|cell| cell.kind == CellKind::Notice && !cell.live);
    }

    pub fn truncate(&mut self, cells: usize) {
        self.cells.truncate(cells);
    }

    pub fn clear(&mut self) {
        self.cells.clear();
        self.follow();
    }

    /// Says that the cells from `first` on belong to `node`.
    pub fn assign(&mut self, first: usize, node: NodeId) {
        for cell in self.cells.iter_mut().skip(first) {
            cell.node = Some(node);
        }
    }

    /// Shows the current branch; the cells it shares with what is shown stay as they are.
    pub fn show(&mut self, tree: &Tree) {
        let path = tree.path();
        let on_path = |cell: &Cell| {
            cell.node
                .is_none_or(|node| path.binary_search(&node).is_ok())
        };
        let shown = self.cells.len();
        let kept = self.cells.iter().position(|cell| !on_path(cell));
        self.cells.truncate(kept.unwrap_or(shown));
        let kept = self.cells.len();
        let last = self.cells.iter().rev().find_map(|cell| cell.node);
        for node in path {
            if last.is_none_or(|last| node > last) {
                self.push_entry(node, tree.entry(node));
            }
        }
        if kept < shown || kept < self.cells.len() {
            self.follow();
        }
    }

    fn push_entry(&mut self, node: NodeId, entry: &Entry) {
        let first = self.cells.len();
        match entry {
            Entry::User(text) => self.cells.push(Cell::new(CellKind::User, text)),
            Entry::Turn(record) => {
                for message in &record.messages {
                    let text = message.text();
                    let kind = CellKind::of(message);
                    if message.kind() == Kind::ToolCall || !text.is_empty() {
                        self.cells.push(Cell::new(kind, &text));
                    }
                }
                if let Some(notice) = super::turn::ending(record) {
                    self.cells.push(Cell::new(CellKind::Notice, &notice));
                }
            }
        }
        self.assign(first, node);
    }

    /// The cell that shows the beginning of `node`.
    pub fn cell_of(&self, node: NodeId) -> Option<usize> {
        self.cells.iter().position(|cell| cell.node == Some(node))
    }

    /// Follows the end again.
    pub fn follow(&mut self) {
        self.anchor = None;
        self.unseen = 0;
        self.at_end = true;
    }

    /// Scrolls by lines; up is negative.
    pub fn scroll(&mut self, lines: isize) {
        let (mut cell, mut row) = self.first;
        if self.cells.is_empty() || (self.anchor.is_none() && lines >= 0) {
            return;
        }
        let mut left = lines.unsigned_abs();
        if lines < 0 {
            while left > row && cell > 0 {
                left -= row;
                cell -= 1;
                row = self.rows(cell);
            }
            row = row.saturating_sub(left);
        } else {
            while row + left >= self.rows(cell) && cell + 1 < self.cells.len() {
                left = (row + left) - self.rows(cell);
                cell += 1;
                row = 0;
            }
            row += left;
        }
        if self.anchor.is_none() {
            self.unseen = 0;
        }
        self.anchor = Some((cell, row));
        self.going = true;
    }

    pub fn page(&self) -> isize {
        self.height.saturating_sub(1).max(1) as isize
    }

    /// Brings a cell to the top of the screen.
    pub fn reveal(&mut self, cell: usize) {
        if self.anchor.is_none() {
            self.unseen = 0;
        }
        self.anchor = Some((cell, 0));
        self.going = true;
    }

    /// Lays out what is in view; the last thing an update does.
    pub fn prepare(&mut self) {
        let going = std::mem::take(&mut self.going);
        if let Some((cell, row)) = self.anchor {
            let cell = cell.min(self.cells.len().saturating_sub(1));
            let row = row.min(self.rows(cell).saturating_sub(1));
            let mut below = self.rows(cell).saturating_sub(row);
            let mut next = cell + 1;
            while below <= self.height && next < self.cells.len() {
                below += self.rows(next);
                next += 1;
            }
            if below > self.height {
                self.at_end = false;
                self.first = (cell, row);
                return;
            }
            // A resize keeps the anchor, so that resizing back shows the same place.
            if going {
                self.follow();
            }
        }
        self.at_end = true;
        let (mut cell, mut above) = (self.cells.len(), 0);
        while cell > 0 && above < self.height {
            cell -= 1;
            above += self.rows(cell);
        }
        self.first = (cell, above.saturating_sub(self.height));
    }

    /// The lines on the screen with the cells they belong to; `None` is the blank row between two cells.
    pub fn visible(&self) -> impl Iterator<Item = (usize, Option<&Line<'static>>)> {
        let (first, row) = self.first;
        (first..self.cells.len())
            .flat_map(move |index| {
                let gap = usize::from(index > 0);
                let blank = (0..gap).map(move |_| (index, None));
                let lines = self.cells[index].lines().iter();
                blank.chain(lines.map(move |line| (index, Some(line))))
            })
            .skip(row)
            .take(self.height)
    }

    /// Rows of a cell with the blank one before it.
    fn rows(&mut self, index: usize) -> usize {
        let Some(cell) = self.cells.get_mut(index) else {
            return 0;
        };
        cell.lay_out(&self.look, self.generation);
        cell.lines().len() + usize::from(index > 0)
    }
}
