//! Text that is safe to show, its width in cells, and its wrapping.

use std::ops::Range;

use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

pub use crate::text::{Sanitizer, is_unsafe, sanitize};

/// Cells from one tab stop to the next.
pub const TAB: usize = 4;

/// Cells that `text` takes, by grapheme cluster, as ratatui's buffer counts them. A tab counts as nothing: what it takes depends
/// on where it stands.
pub fn width(text: &str) -> usize {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text.len();
    }
    text.graphemes(true).map(grapheme_width).sum()
}

/// Cells that one grapheme cluster takes: nothing for one with a control character, which ratatui does not draw.
pub fn grapheme_width(grapheme: &str) -> usize {
    if grapheme.contains(char::is_control) {
        0
    } else {
        usize::from(grapheme.cell_width())
    }
}

/// Cells that `line` takes.
pub fn line_width(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| width(&span.content)).sum()
}

/// `line` in lines of at most `width` cells, broken between words where possible. Later lines begin with `hanging`, or with as
/// much of it as leaves room for two cells of text. Styles are kept, spaces at a break are not. Only where the width is 1, a
/// grapheme of two cells makes a line wider.
pub fn wrap(line: &Line<'_>, width: usize, hanging: &Line<'_>) -> Vec<Line<'static>> {
    let cells = cells(line);
    let hanging: Vec<_> = {
        let mut room = width.saturating_sub(2);
        let fits = |cell: &Cell<'_>| {
            let fits = cell.width <= room;
            room = room.saturating_sub(cell.width);
            fits
        };
        self::cells(hanging).into_iter().take_while(fits).collect()
    };
    let hanging_width: usize = hanging.iter().map(|cell| cell.width).sum();
    let lines = break_between_words(&cells, width, width.saturating_sub(hanging_width));
    let lines = lines.into_iter().enumerate().map(|(index, range)| {
        let hanging = hanging.iter().filter(|_| index > 0);
        like(line, spans(hanging.chain(&cells[range])))
    });
    lines.collect()
}

/// `line` in lines of at most `width` cells, broken anywhere: every space is kept, as code needs it.
pub fn wrap_anywhere(line: &Line<'_>, width: usize) -> Vec<Line<'static>> {
    let cells = cells(line);
    let mut lines = Vec::new();
    let (mut start, mut taken) = (0, 0);
    for (index, cell) in cells.iter().enumerate() {
        if taken + cell.width > width && index > start {
            lines.push(start..index);
            (start, taken) = (index, 0);
        }
        taken += cell.width;
    }
    lines.push(start..cells.len());
    let lines = lines.into_iter();
    lines
        .map(|range| like(line, spans(&cells[range])))
        .collect()
}

/// A line break may come between these two graphemes although no space does: next to wide characters, but not before closing
/// or after opening punctuation.
pub fn may_break_between(before: &str, after: &str) -> bool {
    const CLOSING: &str = "、。，．・：；？！）］｝」』】〉》〕ー々…‥ぁぃぅぇぉっゃゅょァィゥェォッャュョ,.:;?!)]}%’”";
    const OPENING: &str = "（［｛「『【〈《〔([{‘“";
    let is_wide = |grapheme: &str| !grapheme.is_ascii() && grapheme_width(grapheme) == 2;
    (is_wide(before) || is_wide(after))
        && grapheme_width(after) > 0
        && !after.starts_with(|character| CLOSING.contains(character))
        && !before.starts_with(|character| OPENING.contains(character))
}

/// A grapheme cluster on its way to a line.
#[derive(Clone, Copy)]
struct Cell<'a> {
    text: &'a str,
    width: usize,
    style: Style,
}

impl Cell<'_> {
    fn is_space(&self) -> bool {
        self.text == " "
    }
}

/// The graphemes of `line` with tabs as spaces and without what ratatui would not draw.
fn cells<'a>(line: &'a Line<'_>) -> Vec<Cell<'a>> {
    let mut cells = Vec::new();
    let mut column = 0;
    for span in &line.spans {
        let style = span.style;
        if span
            .content
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte))
        {
            column += span.content.len();
            let cell = |at| Cell {
                text: &span.content[at..=at],
                width: 1,
                style,
            };
            cells.extend((0..span.content.len()).map(cell));
            continue;
        }
        for text in span.content.graphemes(true) {
            if text == "\t" {
                let width = TAB - column % TAB;
                let space = Cell {
                    text: " ",
                    width: 1,
                    style,
                };
                cells.extend(std::iter::repeat_n(space, width));
                column += width;
            } else if !text.contains(char::is_control) {
                let width = grapheme_width(text);
                cells.push(Cell { text, width, style });
                column += width;
            }
        }
    }
    cells
}

/// Cells as spans, one for each run of a style.
fn spans<'a>(cells: impl IntoIterator<Item = &'a Cell<'a>>) -> Vec<Span<'static>> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    for cell in cells {
        match spans.last_mut() {
            Some(last) if last.style == cell.style => last.content.to_mut().push_str(cell.text),
            _ => spans.push(Span::styled(cell.text.to_owned(), cell.style)),
        }
    }
    spans
}

/// A line with other spans.
fn like(line: &Line<'_>, spans: Vec<Span<'static>>) -> Line<'static> {
    Line {
        style: line.style,
        alignment: line.alignment,
        spans,
    }
}

/// The cells of each line: at most `first` cells wide the first, `later` the others.
fn break_between_words(cells: &[Cell<'_>], first: usize, later: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut room = first;
    let (mut start, mut index, mut taken) = (0, 0, 0);
    // Where this line would end and the next begin if the next word did not fit.
    let mut word: Option<(usize, usize)> = None;
    while let Some(cell) = cells.get(index) {
        if cell.is_space() {
            let end = match word {
                Some((end, next)) if next == index => end,
                _ => index,
            };
            word = Some((end, index + 1));
        } else {
            let before = cells[..index]
                .last()
                .filter(|before| index > start && !before.is_space());
            if before.is_some_and(|before| may_break_between(before.text, cell.text)) {
                word = Some((index, index));
            }
            if taken + cell.width > room && index > start {
                let (end, next) = word
                    .filter(|(end, _)| *end > start)
                    .unwrap_or((index, index));
                lines.push(start..end);
                (start, index, taken, word) = (next, next, 0, None);
                room = later;
                continue;
            }
        }
        taken += cell.width;
        index += 1;
    }
    lines.push(start..cells.len());
    for (index, range) in lines.iter_mut().enumerate() {
        // Spaces never start a new line, so they may stand over its end.
        let room = if index == 0 { first } else { later };
        let mut taken: usize = cells[range.clone()].iter().map(|cell| cell.width).sum();
        while taken > room && range.end > range.start && cells[range.end - 1].is_space() {
            range.end -= 1;
            taken -= 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests;
