//! The multi-line input: grapheme by grapheme, with undo.

mod history;
mod rows;
pub(super) mod units;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use self::history::{Edit, History, Kind};
use self::rows::Row;
use self::units::Units;
use super::text::sanitize;

/// Where a motion or a deletion goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    #[allow(missing_docs)]
    Left,
    #[allow(missing_docs)]
    Right,
    /// In lines as wrapped at the last [`Editor::layout`].
    Up,
    #[allow(missing_docs)]
    Down,
    #[allow(missing_docs)]
    WordLeft,
    #[allow(missing_docs)]
    WordRight,
    /// Start of the line.
    Home,
    /// End of the line.
    End,
    /// Start of the text.
    First,
    /// End of the text.
    Last,
}

/// The text being typed.
#[derive(Clone, Debug, Default)]
pub struct Editor {
    text: String,
    /// A byte of the text, between two graphemes.
    caret: usize,
    /// The column that vertical motions keep.
    column: Option<usize>,
    /// Cells of a line; 0 before the first layout: nothing is wrapped.
    width: usize,
    /// The wrapped lines, where they are known for the text and width as they are.
    rows: Option<Vec<Row>>,
    history: History,
    units: Units,
}

/// The editor's text at a width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Wrapped lines, none wider than the width.
    pub lines: Vec<String>,
    /// Column and line of the caret; the column is less than the width.
    pub caret: (usize, usize),
}

impl Editor {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Another unit of the text: a character that is shown as `label`. None where there are too many.
    pub fn add_unit(&mut self, label: String) -> Option<char> {
        self.units.add(label)
    }

    /// The units of the text.
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// Nothing is typed.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The byte of the text that the caret is before.
    pub fn caret(&self) -> usize {
        self.caret
    }

    /// Replaces everything, as one edit that can be undone; the caret at the end.
    pub fn set_text(&mut self, text: &str) {
        let text = sanitize(text);
        if text != self.text {
            self.replace(0, self.text.len(), &text, Kind::Other);
        }
        self.moved_to(self.text.len());
    }

    /// Inserts at the caret; typed characters join into one undo step per word, a paste is one step. Control characters are left
    /// out.
    pub fn insert(&mut self, text: &str) {
        let text = sanitize(text);
        if text.is_empty() {
            return;
        }
        let is_typed = text.graphemes(true).nth(1).is_none() && self.units.label(&text).is_none();
        let kind = if is_typed { Kind::Typing } else { Kind::Other };
        self.replace(self.caret, self.caret, &text, kind);
    }

    /// Moves; false where it cannot go further (the first line's Up is the history's).
    pub fn go(&mut self, motion: Motion) -> bool {
        self.history.interrupt();
        let column = match motion {
            Motion::Up | Motion::Down => Some(self.vertical_column()),
            _ => None,
        };
        let Some(target) = self.target(motion) else {
            return false;
        };
        let moved = target != self.caret;
        self.caret = target;
        self.column = column;
        moved
    }

    /// Deletes from the caret to where the motion goes; at the end (or start) of a line, [`Motion::End`] (or Home) takes the line
    /// break.
    pub fn delete(&mut self, motion: Motion) -> bool {
        let Some(mut target) = self.target(motion) else {
            return false;
        };
        if target == self.caret {
            target = match motion {
                Motion::End => self.after(self.caret),
                Motion::Home => self.before(self.caret),
                _ => target,
            };
        }
        if target == self.caret {
            return false;
        }
        let kind = if motion == Motion::Left {
            Kind::Erasing
        } else {
            Kind::Other
        };
        self.replace(target.min(self.caret), target.max(self.caret), "", kind);
        true
    }

    /// One step back.
    pub fn undo(&mut self) -> bool {
        let Some(edit) = self.history.undo() else {
            return false;
        };
        self.text
            .replace_range(edit.at..edit.at + edit.inserted.len(), &edit.removed);
        self.rows = None;
        self.moved_to(edit.caret);
        true
    }

    /// One step forth again.
    pub fn redo(&mut self) -> bool {
        let Some(edit) = self.history.redo() else {
            return false;
        };
        self.text
            .replace_range(edit.at..edit.at + edit.removed.len(), &edit.inserted);
        self.rows = None;
        self.moved_to(edit.at + edit.inserted.len());
        true
    }

    /// Wraps at `width` cells; vertical motions follow the last layout.
    pub fn layout(&mut self, width: usize) -> Layout {
        let width = width.max(1);
        if self.width != width {
            self.width = width;
            self.rows = None;
        }
        let (column, row, is_beyond) = self.place();
        let mut lines: Vec<_> = self
            .rows()
            .iter()
            .map(|row| row.range.clone())
            .collect::<Vec<_>>()
            .into_iter()
            .map(|range| rows::expanded(&self.text[range], width, &self.units))
            .collect();
        if !is_beyond {
            return Layout {
                lines,
                caret: (column, row),
            };
        }
        // The caret is after a full line: on a line of its own.
        lines.insert(row + 1, String::new());
        Layout {
            lines,
            caret: (0, row + 1),
        }
    }

    fn replace(&mut self, start: usize, end: usize, text: &str, kind: Kind) {
        self.history.push(Edit {
            at: start,
            removed: self.text[start..end].to_owned(),
            inserted: text.to_owned(),
            caret: self.caret,
            kind,
        });
        self.text.replace_range(start..end, text);
        self.rows = None;
        self.moved_to(start + text.len());
    }

    /// The caret to `at`, or behind the grapheme that now goes over it.
    fn moved_to(&mut self, at: usize) {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        let is_boundary = cursor.is_boundary(&self.text, 0).unwrap_or(true);
        self.caret = if is_boundary { at } else { self.after(at) };
        self.column = None;
    }

    fn after(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        cursor
            .next_boundary(&self.text, 0)
            .ok()
            .flatten()
            .unwrap_or(self.text.len())
    }

    fn before(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        cursor
            .prev_boundary(&self.text, 0)
            .ok()
            .flatten()
            .unwrap_or(0)
    }

    /// Where a motion leads; none where a vertical one finds no line.
    fn target(&mut self, motion: Motion) -> Option<usize> {
        let (before, after) = self.text.split_at(self.caret);
        let is_word =
            |word: &str| word.contains(char::is_alphanumeric) || self.units.label(word).is_some();
        let target = match motion {
            Motion::Left => self.before(self.caret),
            Motion::Right => self.after(self.caret),
            Motion::WordLeft => before
                .split_word_bound_indices()
                .rfind(|(_, word)| is_word(word))
                .map_or(0, |(at, _)| at),
            Motion::WordRight => after
                .split_word_bound_indices()
                .find(|(_, word)| is_word(word))
                .map_or(self.text.len(), |(at, word)| self.caret + at + word.len()),
            Motion::Home => before.rfind('\n').map_or(0, |at| at + 1),
            Motion::End => after
                .find('\n')
                .map_or(self.text.len(), |at| self.caret + at),
            Motion::First => 0,
            Motion::Last => self.text.len(),
            Motion::Up => return self.vertical(true),
            Motion::Down => return self.vertical(false),
        };
        Some(target)
    }

    fn vertical_column(&mut self) -> usize {
        self.column.unwrap_or_else(|| {
            let (column, _, is_beyond) = self.place();
            if is_beyond { 0 } else { column }
        })
    }

    fn vertical(&mut self, up: bool) -> Option<usize> {
        let column = self.vertical_column();
        let (_, row, is_beyond) = self.place();
        let target = match (up, is_beyond) {
            (true, true) => row,
            (true, false) => row.checked_sub(1)?,
            (false, _) => row + 1,
        };
        let width = self.wrap_width();
        let row = self.rows().get(target)?.clone();
        let at = row.range.start
            + rows::byte_at(&self.text[row.range.clone()], column, width, &self.units);
        // The end of a wrapped line is the start of the next, and a full one's is below it.
        let is_other_line = at == row.range.end && (row.is_wrapped || (up && is_beyond));
        Some(if is_other_line {
            self.before(at).max(row.range.start)
        } else {
            at
        })
    }

    /// Column and wrapped line of the caret, and whether it is beyond the end of a full line.
    fn place(&mut self) -> (usize, usize, bool) {
        let (caret, width) = (self.caret, self.wrap_width());
        let rows = self.rows();
        let row = rows
            .partition_point(|row| row.range.start <= caret)
            .saturating_sub(1);
        let start = rows.get(row).map_or(0, |row| row.range.start);
        let column = rows::width(&self.text[start..caret], width, &self.units);
        (column, row, column >= width)
    }

    fn wrap_width(&self) -> usize {
        if self.width == 0 {
            usize::MAX
        } else {
            self.width
        }
    }

    fn rows(&mut self) -> &[Row] {
        let width = self.wrap_width();
        let (text, units) = (&self.text, &self.units);
        self.rows
            .get_or_insert_with(|| rows::rows(text, width, units))
    }
}

#[cfg(test)]
mod tests;
