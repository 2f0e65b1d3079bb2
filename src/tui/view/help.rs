//! The help, made from the tables of keys and commands.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

use super::{bold, put, row};
use crate::tui::commands::COMMANDS;
use crate::tui::keys::{BINDINGS, Binding, Place};
use crate::tui::text::{width, wrap};
use crate::tui::theme::Theme;

/// How many lines there are and how many of them a screen of this size shows.
pub(crate) fn extent(theme: &Theme, size: (u16, u16)) -> (usize, usize) {
    let inner = inner(Rect::new(0, 0, size.0, size.1));
    let lines = lines(theme, usize::from(inner.width));
    (lines.len(), usize::from(inner.height))
}

fn inner(area: Rect) -> Rect {
    let rows = area.height.saturating_sub(2);
    Rect {
        x: area.x + 2.min(area.width),
        y: area.y + 1.min(area.height),
        width: area.width.saturating_sub(4),
        height: rows,
    }
}

pub(super) fn draw(theme: &Theme, scroll: usize, area: Rect, buffer: &mut Buffer) {
    Clear.render(area, buffer);
    Block::bordered()
        .border_style(theme.rule)
        .title(" Help ")
        .title_bottom(" Esc closes, Up and Down scroll ")
        .render(area, buffer);
    let inner = inner(area);
    let lines = lines(theme, usize::from(inner.width));
    let shown = lines.iter().skip(scroll).take(usize::from(inner.height));
    for (n, line) in shown.enumerate() {
        put(buffer, row(inner, n), line);
    }
}

fn lines(theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("Commands", theme.heading)];
    for command in COMMANDS {
        let name = format!("/{} {}", command.name, command.arguments);
        entry(theme, name.trim_end(), command.help, columns, &mut lines);
    }
    lines.push(Line::default());
    lines.push(Line::styled("Keys", theme.heading));
    let is_common = |binding: &&Binding| place(binding.place).is_empty();
    let common = BINDINGS.iter().filter(is_common);
    let others = BINDINGS.iter().filter(|binding| !is_common(binding));
    for binding in common.chain(others) {
        let help = format!("{}{}", binding.help, place(binding.place));
        entry(theme, binding.label, &help, columns, &mut lines);
    }
    lines
}

/// Where a key is bound, if that is not while a message is written.
fn place(place: Place) -> &'static str {
    match place {
        Place::Sessions | Place::Confirm => " [in the list of sessions]",
        Place::Failed => " [where the model could not be loaded]",
        Place::Draft | Place::EmptyDraft | Place::Everywhere => "",
    }
}

/// Name and help in two columns, or under each other where there is no room.
fn entry(theme: &Theme, name: &str, help: &str, columns: usize, lines: &mut Vec<Line<'static>>) {
    let first = (columns / 2).min(28);
    let mut spans = vec![Span::styled(name.to_owned(), bold(theme.text))];
    let mut indent = first;
    if columns < 40 {
        indent = 2;
        lines.extend(wrap(&Line::from(spans), columns, &Line::raw("  ")));
        spans = vec![Span::raw("  ")];
    } else if width(name) + 2 > first {
        lines.push(Line::from(spans));
        spans = vec![Span::raw(" ".repeat(first))];
    } else {
        spans.push(Span::raw(" ".repeat(first - width(name))));
    }
    spans.push(Span::styled(help.to_owned(), theme.text));
    let hanging = Line::raw(" ".repeat(indent));
    lines.extend(wrap(&Line::from(spans), columns.max(1), &hanging));
}
