//! Text that is safe to show, its width in cells, and its wrapping.

use std::borrow::Cow;

use ratatui::text::Line;

/// Without what could do something to a terminal or hide text: C0 (but `\n` and tab), C1, escape sequences, bidi overrides.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    let _ = text;
    todo!()
}

/// Cells that `text` takes, by grapheme cluster.
pub fn width(text: &str) -> usize {
    let _ = text;
    todo!()
}

/// `line` in lines of at most `width` cells, broken between words where possible, later lines indented by `hanging` spaces
/// (or what `prefix` says). Styles are kept.
pub fn wrap(line: &Line<'_>, width: usize, hanging: &Line<'_>) -> Vec<Line<'static>> {
    let _ = (line, width, hanging);
    todo!()
}
