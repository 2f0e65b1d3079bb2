//! The editor's text in lines of a width. Unlike in what is only read, every space has its place: the caret must be able to go there.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::super::text::{TAB, grapheme_width, may_break_between};
use super::units::Units;

/// A wrapped line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its bytes, without the line break.
    pub range: Range<usize>,
    /// It goes on in the next row.
    pub is_wrapped: bool,
}

/// Cells of a grapheme that starts in `column`.
fn cells(grapheme: &str, column: usize, width: usize, units: &Units) -> usize {
    if let Some(cells) = units.cells(grapheme, width) {
        cells
    } else if grapheme == "\t" {
        (TAB - column % TAB).min(width)
    } else {
        grapheme_width(grapheme)
    }
}

/// Cells of a text at the start of a row.
pub fn width(text: &str, width: usize, units: &Units) -> usize {
    text.graphemes(true).fold(0, |column, grapheme| {
        column + cells(grapheme, column, width, units)
    })
}

/// The last byte between graphemes of a row that is not beyond `column`.
pub fn byte_at(row: &str, column: usize, width: usize, units: &Units) -> usize {
    let mut taken = 0;
    for (at, grapheme) in row.grapheme_indices(true) {
        taken += cells(grapheme, taken, width, units);
        if taken > column {
            return at;
        }
    }
    row.len()
}

/// A row as it is shown: tabs as spaces, units as their labels.
pub fn expanded(row: &str, width: usize, units: &Units) -> String {
    if !row.contains(|character| character == '\t' || super::units::number(character).is_some()) {
        return row.to_owned();
    }
    let mut shown = String::with_capacity(row.len() + TAB);
    let mut column = 0;
    for grapheme in row.graphemes(true) {
        let cells = cells(grapheme, column, width, units);
        if let Some(label) = units.label(grapheme) {
            shown.push_str(&Units::fitted(label, width));
        } else if grapheme == "\t" {
            shown.extend(std::iter::repeat_n(' ', cells));
        } else {
            shown.push_str(grapheme);
        }
        column += cells;
    }
    shown
}

/// Every row of a text; at least one.
pub fn rows(text: &str, width: usize, units: &Units) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut start = 0;
    for line in text.split('\n') {
        wrap(line, start, width, units, &mut rows);
        start += line.len() + 1;
    }
    rows
}

/// The rows of a line that starts at byte `offset`.
fn wrap(line: &str, offset: usize, width: usize, units: &Units, rows: &mut Vec<Row>) {
    let mut start = 0;
    loop {
        let end = row_end(&line[start..], width, units).map(|end| start + end);
        rows.push(Row {
            range: offset + start..offset + end.unwrap_or(line.len()),
            is_wrapped: end.is_some(),
        });
        match end {
            Some(end) => start = end,
            None => return,
        }
    }
}

/// Where the first row of a text ends: after a word and its spaces, or within a word that is too long; none if all of it fits.
fn row_end(text: &str, width: usize, units: &Units) -> Option<usize> {
    if text.len() <= width && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return None;
    }
    let mut word = None;
    let mut column = 0;
    let mut before = "";
    for (at, grapheme) in text.grapheme_indices(true) {
        let is_word_start = matches!(before, " " | "\t") && !matches!(grapheme, " " | "\t");
        let is_at_unit = units.label(before).is_some() || units.label(grapheme).is_some();
        if at > 0 && (is_word_start || is_at_unit || may_break_between(before, grapheme)) {
            word = Some(at);
        }
        column += cells(grapheme, column, width, units);
        if column > width && at > 0 {
            return Some(word.unwrap_or(at));
        }
        before = grapheme;
    }
    None
}
