//! The help, made from the tables of keys and commands.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

use super::{bold, put, row};
use crate::tui::commands::COMMANDS;
use crate::tui::keys::{BINDINGS, Group, MOUSE, Place};
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
    let inner = inner(area);
    let lines = lines(theme, usize::from(inner.width));
    let room = usize::from(inner.height).max(1);
    let (page, pages) = (scroll.div_ceil(room) + 1, lines.len().div_ceil(room));
    let keys = match area.width {
        60.. => "Up, Down, PageUp, PageDown, wheel: scroll  Esc: close",
        _ => "↑↓ scroll  Esc close",
    };
    Clear.render(area, buffer);
    Block::bordered()
        .border_style(theme.rule)
        .title(" Help ")
        .title_bottom(format!(" {page}/{pages}  {keys} "))
        .render(area, buffer);
    let shown = lines.iter().skip(scroll).take(usize::from(inner.height));
    for (n, line) in shown.enumerate() {
        put(buffer, row(inner, n), line);
    }
}

fn lines(theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for group in [
        Group::Sending,
        Group::Scrolling,
        Group::Rewinding,
        Group::More,
    ] {
        keys(theme, group, columns, &mut lines);
    }
    heading(theme, "Commands", &mut lines);
    for command in COMMANDS {
        let name = format!("/{} {}", command.name, command.arguments);
        entry(theme, name.trim_end(), command.help, columns, &mut lines);
    }
    for group in [Group::Editing, Group::Sessions] {
        keys(theme, group, columns, &mut lines);
    }
    lines
}

fn heading(theme: &Theme, title: &'static str, lines: &mut Vec<Line<'static>>) {
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines.push(Line::styled(title, theme.heading));
}

/// The keys of a group, and what the mouse has to do with it.
fn keys(theme: &Theme, group: Group, columns: usize, lines: &mut Vec<Line<'static>>) {
    heading(theme, group.title(), lines);
    for (_, name, help) in MOUSE.iter().filter(|(of, ..)| *of == group) {
        entry(theme, name, help, columns, lines);
    }
    for binding in BINDINGS.iter().filter(|binding| binding.group() == group) {
        let place = match binding.place {
            Place::Failed => " [where the model could not be loaded]",
            _ => "",
        };
        let help = format!("{}{place}", binding.help);
        entry(theme, binding.label, &help, columns, lines);
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
