//! Completions above the draft, and the list of sessions.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

use super::{cut, put, row};
use crate::store::Summary;
use crate::tui::app::App;
use crate::tui::app::areas::Areas;
use crate::tui::app::picker::{Picker, Question};
use crate::tui::editor::Editor;
use crate::tui::text::{sanitize, width};

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
    let room = usize::from(inner.height.saturating_sub(1));
    let found = picker.found();
    if found.is_empty() {
        let text = if picker.is_loading() {
            "looking for sessions"
        } else if picker.search.text().is_empty() {
            "there are no saved sessions"
        } else {
            "no session has these words"
        };
        put(buffer, row(inner, 1), &Line::styled(text, app.theme.dim));
    }
    let first = first_shown(picker.index, room);
    let shown = found.iter().enumerate().skip(first).take(room);
    for (n, (index, summary)) in shown.enumerate() {
        let line = session(
            app,
            summary,
            index == picker.index,
            usize::from(inner.width),
        );
        put(buffer, row(inner, n + 1), &line);
    }
    caret
}

fn session(app: &App, summary: &Summary, is_chosen: bool, columns: usize) -> Line<'static> {
    let mark = if is_chosen { "▶ " } else { "  " };
    let (about, style) = match &summary.problem {
        Some(_) => ("! cannot be read".to_owned(), app.theme.warning),
        None if summary.messages == 1 => ("1 message".to_owned(), app.theme.dim),
        None => (format!("{} messages", summary.messages), app.theme.dim),
    };
    // What has no title, or cannot be read, is at least told apart.
    let title = match summary.title.as_str() {
        "" => &summary.id,
        title => title,
    };
    let title = sanitize(title).replace('\n', " ");
    let taken = width(&about) + 4;
    // Too narrow for both: the title.
    let (about, room) = if columns < taken + 12 {
        (String::new(), columns.saturating_sub(2))
    } else {
        (about, columns - taken)
    };
    let title = cut(&title, room);
    let gap = " ".repeat(room.saturating_sub(width(&title)) + 1);
    let mut line = Line::from(vec![
        Span::raw(mark),
        Span::styled(title, app.theme.text),
        Span::raw(gap),
        Span::styled(about, style),
    ]);
    if is_chosen {
        line = line.style(app.theme.selected);
    }
    line
}

/// The search, the new title, or the question.
fn field(app: &App, picker: &Picker, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let (label, editor): (&str, &Editor) = match &picker.question {
        None => ("search: ", &picker.search),
        Some(Question::Rename(title)) => ("title: ", title),
        Some(Question::Delete) => {
            let title = picker.chosen().map_or("", |summary| &summary.title);
            let title = sanitize(title).replace('\n', " ");
            let room = usize::from(area.width).saturating_sub(18);
            let text = format!("delete `{}`? y or n", cut(&title, room));
            put(buffer, area, &Line::styled(text, app.theme.warning));
            return None;
        }
    };
    if area.is_empty() {
        return None;
    }
    let room = usize::from(area.width).saturating_sub(width(label) + 1);
    let text = tail(editor.text(), room);
    let column = width(label) + width(&text);
    let line = Line::from(vec![
        Span::styled(label, app.theme.dim),
        Span::styled(text, app.theme.text),
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
