//! The lines around the draft: what goes on, the keys, the figures.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::figures::{bytes, count, rate, seconds};
use super::{bold, cut, shorten};
use crate::session::Kind;
use crate::tui::app::areas::Areas;
use crate::tui::app::note::Level;
use crate::tui::app::{App, Phase};
use crate::tui::keys;
use crate::tui::text::{width, wrap};

/// From this width on, the context is named.
const ROOMY: u16 = 60;
/// Between what goes on and its details.
const GAP: &str = "  ";
const LONGEST_NAME: usize = 32;
const SPINNER: [&str; 4] = ["|", "/", "-", "\\"];

/// Joins the pieces that fit, in their order; those of the least weight go first.
fn fit(pieces: Vec<(u8, Span<'static>)>, separator: &'static str, room: usize) -> Line<'static> {
    let mut pieces = pieces;
    let total = |pieces: &[(u8, Span<'_>)]| {
        let texts: usize = pieces.iter().map(|(_, span)| width(&span.content)).sum();
        texts + width(separator) * pieces.len().saturating_sub(1)
    };
    while pieces.len() > 1 && total(&pieces) > room {
        let least = pieces
            .iter()
            .enumerate()
            .min_by_key(|(index, (weight, _))| (*weight, std::cmp::Reverse(*index)))
            .map(|(index, _)| index);
        if let Some(least) = least {
            pieces.remove(least);
        }
    }
    let mut line = Line::default();
    for (index, (_, span)) in pieces.into_iter().enumerate() {
        if index > 0 {
            line.push_span(Span::raw(separator));
        }
        let text = cut(&span.content, room);
        line.push_span(Span::styled(text, span.style));
    }
    line
}

/// What was just done or could not be, and what goes on: on one line where there is room.
pub(crate) fn activity(app: &App, columns: u16, rows: u16) -> Vec<Line<'static>> {
    let room = usize::from(columns);
    let pieces = going_on(app);
    let Some(note) = &app.note else {
        return vec![fit(pieces, GAP, room)];
    };
    let theme = &app.theme;
    let (mark, style) = match note.level {
        Level::Done => ("", theme.notice),
        Level::Warning => ("! ", theme.warning),
        Level::Error => ("✗ ", theme.error),
    };
    let text = format!("{mark}{}", note.text);
    let taken: usize = pieces
        .iter()
        .map(|(_, span)| width(GAP) + width(&span.content))
        .sum();
    if !text.contains('\n') && width(&text) + taken <= room {
        let mut all = vec![(9, Span::styled(text, style))];
        all.extend(pieces);
        return vec![fit(all, GAP, room)];
    }
    let most = usize::from(Areas::most_activity(rows)).max(1);
    let mut lines = notice(&text, style, room, most);
    if !pieces.is_empty() && lines.len() < most {
        lines.push(fit(pieces, GAP, room));
    }
    lines
}

/// A notice in lines: as it is, else with its names shortened, else cut.
fn notice(text: &str, style: Style, room: usize, most: usize) -> Vec<Line<'static>> {
    let wrapped = |text: &str| -> Vec<Line<'static>> {
        text.lines()
            .flat_map(|line| {
                let line = Line::styled(line.to_owned(), style);
                wrap(&line, room, &Line::raw("  "))
            })
            .collect()
    };
    let mut lines = wrapped(text);
    // Names may be shortened before the conversation is hidden.
    if lines.len() > (most / 3).max(3).min(most) {
        lines = wrapped(&with_short_names(text, (room / 2).max(8)));
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = Line::styled(cut(&format!("{last} …"), room), style);
        }
    }
    lines
}

/// What stands between backquotes in at most `room` cells each.
fn with_short_names(text: &str, room: usize) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    let last = pieces.len() - 1;
    let pieces = pieces.iter().enumerate().map(|(index, piece)| {
        if index % 2 == 1 && index < last {
            shorten(piece, room)
        } else {
            (*piece).to_owned()
        }
    });
    pieces.collect::<Vec<_>>().join("`")
}

/// What goes on, and how far the end is; with weights for [`fit`].
fn going_on(app: &App) -> Vec<(u8, Span<'static>)> {
    let theme = &app.theme;
    let spinner = SPINNER[app.ticks % SPINNER.len()];
    let mut pieces = Vec::new();
    let mut details = Vec::new();
    let going = match &app.phase {
        Phase::Loading { what, done, total } => {
            if let Some(download) = &app.download {
                if download.is_waiting() {
                    details.push((7, "waiting for the network".to_owned()));
                }
                if let Some(rate) = download.rate() {
                    details.push((5, format!("{}/s", bytes(rate as u64))));
                }
                if let Some(left) = download.left(*total) {
                    details.push((6, format!("{} left", seconds(left))));
                }
            }
            Some(format!("{spinner} {what}{}", progress(*done, *total)))
        }
        Phase::Prefill {
            done,
            total,
            reused,
        } => {
            if *reused > 0 {
                details.push((4, format!("{} reused", count(*reused))));
            }
            Some(match total {
                0 => format!("{spinner} reading"),
                _ => format!(
                    "{spinner} reading {}/{} tokens",
                    count(*done),
                    count(*total)
                ),
            })
        }
        Phase::Streaming { kind } => {
            let what = match kind {
                Kind::Thinking => "thinking",
                Kind::Preamble => "commenting",
                Kind::Final => "answering",
                Kind::ToolCall => "calling a tool",
            };
            let tokens = app.turn.as_ref().map_or(0, |turn| turn.tokens);
            let unit = if tokens == 1 { "token" } else { "tokens" };
            Some(format!("{spinner} {what}, {} {unit}", count(tokens)))
        }
        Phase::Stopping => Some(format!("{spinner} stopping (Ctrl-C quits)")),
        Phase::Failed { .. } => Some("✗ no model".to_owned()),
        Phase::Idle => None,
    };
    if let Some(speed) = app.turn.as_ref().and_then(|turn| turn.speed) {
        details.push((3, format!("{} tok/s", rate(speed))));
    }
    if let Some(text) = going {
        pieces.push((8, Span::styled(text, theme.accent)));
    }
    for (weight, text) in details {
        pieces.push((weight, Span::styled(text, theme.accent)));
    }
    if app
        .turn
        .as_ref()
        .is_some_and(|turn| turn.repeating().is_some())
    {
        let text = "! the output repeats itself: Esc stops";
        pieces.push((7, Span::styled(text, theme.warning)));
    }
    if let Some(unseen) = app.transcript.unseen() {
        let text = match unseen {
            0 => "↓ more (Ctrl-End)".to_owned(),
            1 => "↓ 1 new line".to_owned(),
            unseen => format!("↓ {} new lines", count(unseen)),
        };
        pieces.push((6, Span::styled(text, bold(theme.accent))));
    }
    if app.editing.is_some() {
        // However narrow it is, there is room for the way out.
        let text = match app.size.0 {
            68.. => "editing an earlier message: Enter starts a new branch, Esc cancels",
            _ => "editing: Esc cancels",
        };
        pieces.push((4, Span::styled(text, theme.warning)));
    }
    if app.selected().is_some() {
        pieces.push((4, Span::styled("which message?", theme.warning)));
    }
    pieces
}

fn progress(done: u64, total: u64) -> String {
    match (done, total) {
        (0, 0) => String::new(),
        (done, 0) => format!(" {}", bytes(done)),
        (done, total) => {
            let percent = 100 * u128::from(done.min(total)) / u128::from(total);
            format!(" {percent} % of {}", bytes(total))
        }
    }
}

/// The line above the draft, with the session's name.
pub(super) fn rule(app: &App, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.width);
    let title = app.title.as_deref().unwrap_or_default();
    let title = crate::tui::text::sanitize(title).replace('\n', " ");
    let mut text = String::new();
    if !title.is_empty() && room > 12 {
        text = format!("── {} ", cut(&title, room - 8));
    }
    let rest = room.saturating_sub(width(&text));
    text += &"─".repeat(rest);
    super::put(buffer, area, &Line::styled(text, app.theme.rule));
}

/// The keys that matter now.
pub(crate) fn footer(app: &App, columns: u16) -> Line<'static> {
    let mut line = Line::default();
    let mut keys: Vec<_> = keys::footer(app.footer()).collect();
    let taken = |keys: &[(&str, &str)]| -> usize {
        let each = keys.iter().map(|(key, what)| width(key) + 1 + width(what));
        each.sum::<usize>() + 2 * keys.len().saturating_sub(1)
    };
    while keys.len() > 1 && taken(&keys) > usize::from(columns) {
        // The way out and what the place is for stay to the last.
        let matters = |key: &str| match key {
            "Esc" | "Ctrl-C" | "n" => 2,
            "Enter" | "r" | "y" => 1,
            _ => 0,
        };
        let least = keys
            .iter()
            .enumerate()
            .min_by_key(|(index, (key, _))| (matters(key), std::cmp::Reverse(*index)))
            .map_or(0, |(index, _)| index);
        keys.remove(least);
    }
    for (index, (key, what)) in keys.into_iter().enumerate() {
        let gap = if index > 0 { "  " } else { "" };
        line.push_span(Span::raw(gap));
        line.push_span(Span::styled(key, bold(Style::new())));
        line.push_span(Span::styled(format!(" {what}"), app.theme.dim));
    }
    line
}

/// As `--model` names it; of a long path, the end.
fn name(model: &str) -> String {
    let name = crate::tui::text::sanitize(model).replace('\n', " ");
    match name.trim_end_matches('/').rsplit('/').next() {
        Some(last) if width(&name) > LONGEST_NAME => cut(last, LONGEST_NAME),
        _ => name,
    }
}

/// Model, context and the figures of the last turn.
pub(crate) fn line(app: &App, columns: u16) -> Line<'static> {
    let theme = &app.theme;
    let status = theme.status;
    let plain = |text: String| Span::styled(text, status);
    let mut pieces = Vec::new();
    pieces.push((11, plain(name(&app.wanted))));
    if let Some(model) = &app.model {
        pieces.push((2, plain(model.device.clone())));
    }
    pieces.push((7, plain(format!("reasoning {}", app.setup.reasoning))));
    match app.not_saved() {
        Some(true) => pieces.push((12, Span::styled("! not saved", theme.warning))),
        Some(false) => pieces.push((9, plain("not saved".to_owned()))),
        None => {}
    }
    if let Some((branch, of)) = app.branch {
        pieces.push((
            if app.rewound { 10 } else { 7 },
            plain(format!("branch {branch}/{of}")),
        ));
    }
    if let Some(model) = &app.model {
        let used = app.context_used();
        let mut text = format!("{}/{}", count(used), count(model.context));
        if columns >= ROOMY && !app.is_nearly_full() {
            text = format!("context {text}");
        }
        let mut style = status;
        if app.is_nearly_full() {
            text = format!("! context {text}");
            style = theme.warning;
        }
        pieces.push((12, Span::styled(text, style)));
    }
    if let Some(figures) = &app.figures {
        if let Some(speed) = figures.prefill {
            pieces.push((4, plain(format!("prefill {}/s", rate(speed)))));
        }
        if let Some(speed) = figures.decode {
            pieces.push((6, plain(format!("decode {}/s", rate(speed)))));
        }
        if let Some(first) = figures.first {
            pieces.push((3, plain(format!("first {}", seconds(first)))));
        }
        if figures.reused > 0 {
            // After a rewind it is what the user waited for.
            let weight = if app.rewound { 11 } else { 5 };
            pieces.push((weight, plain(format!("reused {}", count(figures.reused)))));
        }
    }
    fit(pieces, " · ", usize::from(columns))
}
