//! The state, drawn.

pub(crate) mod figures;
pub(crate) mod help;
mod popup;
pub(crate) mod stats;
pub(crate) mod status;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::app::areas::LEAST;
use super::app::{App, Mode};
use super::text::width;

/// Draws everything; changes nothing.
pub fn draw(app: &App, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.is_empty() {
        return;
    }
    if area.width < LEAST.0 || area.height < LEAST.1 {
        put(frame.buffer_mut(), area, &Line::raw("too small"));
        return;
    }
    let areas = app.areas(area);
    let buffer = frame.buffer_mut();
    transcript(app, areas.transcript, buffer);
    for (n, line) in status::activity(app, area.width, area.height)
        .iter()
        .enumerate()
    {
        put(buffer, row(areas.activity, n), line);
    }
    status::rule(app, areas.rule, buffer);
    let caret = input(app, areas.input, buffer);
    put(
        buffer,
        areas.footer,
        &status::footer(app, areas.footer.width),
    );
    put(buffer, areas.status, &status::line(app, areas.status.width));
    let above = Rect {
        height: areas.input.y - area.y,
        ..area
    };
    let caret = match &app.mode {
        Mode::Draft => {
            popup::completion(app, above, buffer);
            caret
        }
        Mode::Select { .. } => None,
        Mode::Help { scroll } => {
            help::draw(&app.theme, *scroll, area, buffer);
            None
        }
        Mode::Sessions(picker) => popup::sessions(app, picker, popup::room(area, areas), buffer),
    };
    if let Some(caret) = caret {
        frame.set_cursor_position(caret);
    }
}

/// Writes a line into the first row of an area, cut at its end.
fn put(buffer: &mut Buffer, area: Rect, line: &Line<'_>) {
    if !area.is_empty() {
        buffer.set_line(area.x, area.y, line, area.width);
    }
}

/// The n-th row of an area; empty below its end.
fn row(area: Rect, n: usize) -> Rect {
    let n = u16::try_from(n).unwrap_or(u16::MAX);
    if n >= area.height {
        return Rect::ZERO;
    }
    Rect {
        y: area.y + n,
        height: 1,
        ..area
    }
}

fn transcript(app: &App, area: Rect, buffer: &mut Buffer) {
    if app.transcript.cells().is_empty() {
        let hint = Line::styled("Type a message, or / for the commands.", app.theme.dim);
        put(buffer, area, &hint);
    }
    let selected = app.selected();
    for (n, (cell, line)) in app
        .transcript
        .visible()
        .take(usize::from(area.height))
        .enumerate()
    {
        let Some(line) = line else { continue };
        let row = row(area, n);
        put(buffer, row, line);
        let is_selected = selected.is_some() && app.transcript.cells()[cell].node == selected;
        if is_selected {
            buffer.set_style(row, app.theme.selected);
        }
    }
}

/// Draws the draft; where its caret is.
fn input(app: &App, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let layout = app.draft.layout();
    let (column, line) = layout.caret;
    let room = usize::from(area.height);
    let first = (line + 1).saturating_sub(room);
    for (n, text) in layout.lines.iter().skip(first).take(room).enumerate() {
        let row = row(area, n);
        let prompt = if first + n == 0 { "› " } else { "  " };
        put(buffer, row, &Line::styled(prompt, app.theme.accent));
        let rest = Rect {
            x: row.x + 2.min(row.width),
            width: row.width.saturating_sub(2),
            ..row
        };
        put(buffer, rest, &Line::styled(text.as_str(), app.theme.text));
    }
    let column = u16::try_from(column + 2).unwrap_or(u16::MAX);
    let x = area
        .x
        .saturating_add(column)
        .min(area.right().saturating_sub(1));
    let y = area.y + u16::try_from(line - first).unwrap_or_default();
    area.contains(Position::new(x, y))
        .then(|| Position::new(x, y))
}

/// `text` in at most `room` cells, with a mark where it is cut.
fn cut(text: &str, room: usize) -> String {
    use unicode_segmentation::UnicodeSegmentation;
    if width(text) <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for grapheme in text.graphemes(true) {
        used += width(grapheme);
        if used > room {
            break;
        }
        out.push_str(grapheme);
    }
    if room > 0 {
        out.push('…');
    }
    out
}

/// `text` in at most `room` cells, its middle left out: both ends of a path say something.
fn shorten(text: &str, room: usize) -> String {
    use unicode_segmentation::UnicodeSegmentation;
    if width(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(1);
    let taken = |graphemes: &mut dyn Iterator<Item = &str>, room: usize| {
        let mut used = 0;
        graphemes
            .take_while(|grapheme| {
                used += width(grapheme);
                used <= room
            })
            .map(str::len)
            .sum::<usize>()
    };
    let start = taken(&mut text.graphemes(true), room / 3);
    let end = taken(&mut text.graphemes(true).rev(), room - room / 3);
    format!("{}…{}", &text[..start], &text[text.len() - end..])
}

/// The bold of whatever the style is.
fn bold(style: Style) -> Style {
    style.add_modifier(Modifier::BOLD)
}

#[cfg(test)]
mod tests;
