//! The editor's text in lines of a width. Unlike in what is only read, every space has its place: the caret must be able to go there.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::super::text::{TAB, grapheme_width, may_break_between};

/// A wrapped line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its bytes, without the line break.
    pub range: Range<usize>,
    /// It goes on in the next row.
    pub is_wrapped: bool,
}

/// Cells of a grapheme that starts in `column`.
fn cells(grapheme: &str, column: usize, width: usize) -> usize {
    if grapheme == "\t" {
        (TAB - column % TAB).min(width)
    } else {
        grapheme_width(grapheme)
    }
}

/// Cells of a text at the start of a row.
pub fn width(text: &str, width: usize) -> usize {
    text.graphemes(true).fold(0, |column, grapheme| {
        column + cells(grapheme, column, width)
    })
}

/// The last byte between graphemes of a row that is not beyond `column`.
pub fn byte_at(row: &str, column: usize, width: usize) -> usize {
    let mut taken = 0;
    for (at, grapheme) in row.grapheme_indices(true) {
        taken += cells(grapheme, taken, width);
        if taken > column {
            return at;
        }
    }
    row.len()
}

/// A row as it is shown: tabs as spaces.
pub fn expanded(row: &str, width: usize) -> String {
    if !row.contains('\t') {
        return row.to_owned();
    }
    let mut shown = String::with_capacity(row.len() + TAB);
    let mut column = 0;
    for grapheme in row.graphemes(true) {
        let cells = cells(grapheme, column, width);
        if grapheme == "\t" {
            shown.extend(std::iter::repeat_n(' ', cells));
        } else {
            shown.push_str(grapheme);
        }
        column += cells;
    }
    shown
}

/// Every row of a text; at least one.
pub fn rows(text: &str, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut start = 0;
    for line in text.split('\n') {
        wrap(line, start, width, &mut rows);
        start += line.len() + 1;
    }
    rows
}

/// The rows of a line that starts at byte `offset`.
fn wrap(line: &str, offset: usize, width: usize, rows: &mut Vec<Row>) {
    let mut start = 0;
    loop {
        let end = row_end(&line[start..], width).map(|end| start + end);
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
fn row_end(text: &str, width: usize) -> Option<usize> {
    if text.len() <= width && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return None;
    }
    let mut word = None;
    let mut column = 0;
    let mut before = "";
    for (at, grapheme) in text.grapheme_indices(true) {
        let is_word_start = matches!(before, " " | "\t") && !matches!(grapheme, " " | "\t");
        if at > 0 && (is_word_start || may_break_between(before, grapheme)) {
            word = Some(at);
        }
        column += cells(grapheme, column, width);
        if column > width && at > 0 {
            return Some(word.unwrap_or(at));
        }
        before = grapheme;
    }
    None
}
