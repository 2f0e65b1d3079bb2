//! Completions above the draft, and the list of sessions.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

use super::{cut, put, row};
use crate::store::Summary;
use crate::text::one_line;
use crate::tui::app::App;
use crate::tui::app::areas::Areas;
use crate::tui::app::picker::{Picker, Question};
use crate::tui::editor::Editor;
use crate::tui::text::{width, wrap};

/// Most candidates that are shown at once.
const MOST: usize = 8;

/// The first of `shown` rows such that `index` is among them.
fn first_shown(index: usize, shown: usize) -> usize {
    (index + 1).saturating_sub(shown)
}

pub(super) fn completion(app: &App, above: Rect, buffer: &mut Buffer) {
    let Some(completion) = &app.completion else {
        return;
    };
    let candidates = &completion.candidates;
    let most = MOST.min(usize::from(above.height));
    // Where not all are shown, a row says which.
    let (rows, is_marked) = match candidates.len() {
        count if count <= most => (count, false),
        _ => (most.min(usize::from(above.height).saturating_sub(1)), true),
    };
    let height = rows as u16 + u16::from(is_marked);
    let area = Rect {
        y: above.bottom() - height,
        height,
        ..above
    };
    Clear.render(area, buffer);
    let columns = usize::from(area.width);
    let labels = candidates.iter().map(|candidate| match columns {
        60.. => candidate.label.as_str(),
        // The help says more than what may follow.
        _ => candidate.label.split(' ').next().unwrap_or_default(),
    });
    let labels: Vec<&str> = labels.collect();
    let widest = labels.iter().map(|label| width(label)).max();
    let column = widest.unwrap_or_default().min(28);
    let first = first_shown(completion.index, rows);
    let shown = candidates.iter().zip(labels).enumerate();
    for (n, (index, (candidate, label))) in shown.skip(first).take(rows).enumerate() {
        let is_chosen = index == completion.index;
        let mark = if is_chosen { "▶ " } else { "  " };
        let label = cut(label, column);
        let gap = " ".repeat(column.saturating_sub(width(&label)) + 2);
        let help = cut(candidate.help, columns.saturating_sub(column + 4));
        let mut line = Line::from(vec![
            Span::raw(mark),
            Span::styled(label, app.theme.accent),
            Span::styled(format!("{gap}{help}"), app.theme.dim),
        ]);
        if is_chosen {
            line = line.style(app.theme.selected);
        }
        put(buffer, row(area, n), &line);
    }
    if is_marked {
        let text = format!("  {}/{} ↑↓", completion.index + 1, candidates.len());
        put(buffer, row(area, rows), &Line::styled(text, app.theme.dim));
    }
}

/// Where the list is drawn: in the transcript's place, or on a low screen above the status.
pub(super) fn room(area: Rect, areas: Areas) -> Rect {
    if areas.transcript.height >= 5 {
        return areas.transcript;
    }
    Rect {
        height: areas.status.y - area.y,
        ..area
    }
}

/// Draws the list; where the caret of its field is.
pub(super) fn sessions(
    app: &App,
    picker: &Picker,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    Clear.render(area, buffer);
    let mut inner = area;
    if area.height >= 5 {
        let block = Block::bordered()
            .border_style(app.theme.rule)
            .title(" Sessions ");
        inner = block.inner(area);
        block.render(area, buffer);
    }
    let caret = field(app, picker, row(inner, 0), buffer);
    inner.y += 1;
    inner.height = inner.height.saturating_sub(1);
    if let Some(problem) = &picker.problem {
        inner.height -= put_problem(app, problem, inner, buffer);
    }
    let columns = usize::from(inner.width);
    let found = picker.found();
    if found.is_empty() {
        let text = Line::styled(picker.emptiness(), app.theme.dim);
        let lines = wrap(&text, columns, &Line::default());
        for (n, line) in lines.iter().enumerate() {
            put(buffer, row(inner, n), line);
        }
    }
    let mut lines = Vec::new();
    let mut chosen = 0;
    for (index, found) in found.into_iter().enumerate() {
        let is_chosen = index == picker.index;
        lines.push(session(app, found.summary, is_chosen, columns));
        lines.extend(found.excerpt.map(|excerpt| {
            let excerpt = cut(&one_line(excerpt), columns.saturating_sub(4));
            Line::styled(format!("    {excerpt}"), app.theme.dim)
        }));
        if is_chosen {
            chosen = lines.len() - 1;
        }
    }
    let room = usize::from(inner.height);
    let first = first_shown(chosen, room);
    let shown = lines.iter().skip(first).take(room);
    for (n, line) in shown.enumerate() {
        put(buffer, row(inner, n), line);
    }
    caret
}

/// Why something was not done, at the bottom; how many rows it takes.
fn put_problem(app: &App, problem: &str, area: Rect, buffer: &mut Buffer) -> u16 {
    let text = Line::styled(format!("✗ {problem}"), app.theme.warning);
    let mut lines = wrap(&text, usize::from(area.width), &Line::raw("  "));
    lines.truncate(usize::from(area.height.saturating_sub(1)).max(1));
    let rows = (lines.len() as u16).min(area.height);
    let top = area.height - rows;
    for (n, line) in lines.iter().take(usize::from(rows)).enumerate() {
        put(buffer, row(area, usize::from(top) + n), line);
    }
    rows
}

fn session(app: &App, summary: &Summary, is_chosen: bool, columns: usize) -> Line<'static> {
    let mark = if is_chosen { "▶ " } else { "  " };
    let (what, brief, style) = match &summary.problem {
        Some(_) => (
            "! cannot be read".to_owned(),
            "! cannot be read",
            app.theme.warning,
        ),
        None if summary.messages == 1 => ("1 message".to_owned(), &*summary.age, app.theme.dim),
        None => (
            format!("{} messages", summary.messages),
            &*summary.age,
            app.theme.dim,
        ),
    };
    // The ages stand one below the other.
    let whole = format!("{what}  {:>10}", summary.age);
    let room = |about: &str| columns.saturating_sub(width(about) + 4);
    // Too narrow for all of it: the title.
    let about = match (room(&whole), room(brief)) {
        (24.., _) => &whole,
        (_, 12..) => brief,
        _ => "",
    };
    let room = if about.is_empty() {
        columns.saturating_sub(2)
    } else {
        room(about)
    };
    // What has no title, or cannot be read, is at least told apart.
    let title = match summary.title.as_str() {
        "" => &summary.id,
        title => title,
    };
    let title = one_line(title);
    let title = cut(&title, room);
    let gap = " ".repeat(room.saturating_sub(width(&title)) + 1);
    let mut line = Line::from(vec![
        Span::raw(mark),
        Span::styled(title, app.theme.text),
        Span::raw(gap),
        Span::styled(about.to_owned(), style),
    ]);
    if is_chosen {
        line = line.style(app.theme.selected);
    }
    line
}

/// The search, the new title, or the question.
fn field(app: &App, picker: &Picker, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let (label, editor, style): (&str, &Editor, Style) = match &picker.question {
        None => ("search: ", &picker.search, app.theme.text),
        Some(Question::Rename { title, selected }) => {
            let style = if *selected {
                app.theme.selected
            } else {
                app.theme.text
            };
            ("title: ", title, style)
        }
        Some(Question::Delete) => {
            let title = picker.chosen().map_or("", |summary| &summary.title);
            let room = usize::from(area.width).saturating_sub(18);
            let text = format!("delete `{}`? y or n", cut(&one_line(title), room));
            put(buffer, area, &Line::styled(text, app.theme.warning));
            return None;
        }
    };
    if area.is_empty() {
        return None;
    }
    let room = usize::from(area.width).saturating_sub(width(label) + 1);
    let (before, after) = editor.text().split_at(editor.caret());
    let before = tail(before, room);
    let column = width(label) + width(&before);
    let text = format!("{before}{after}");
    let line = Line::from(vec![
        Span::styled(label, app.theme.dim),
        Span::styled(text, style),
    ]);
    put(buffer, area, &line);
    let x = area.x
        + u16::try_from(column)
            .unwrap_or_default()
            .min(area.width - 1);
    Some(Position::new(x, area.y))
}

/// The end of a text that fits.
fn tail(text: &str, room: usize) -> String {
    use unicode_segmentation::UnicodeSegmentation;
    let mut used = 0;
    let start = text
        .grapheme_indices(true)
        .rev()
        .take_while(|(_, grapheme)| {
            used += width(grapheme);
            used <= room
        })
        .last()
        .map_or(text.len(), |(at, _)| at);
    text[start..].to_owned()
}
