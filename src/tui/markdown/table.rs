//! Tables: columns as wide as they need, narrowed and wrapped to fit, one field a line where not even that fits.

use pulldown_cmark::Alignment;
use ratatui::text::{Line, Span};

use super::super::text::{line_width, wrap};
use super::super::theme::Theme;

const SEPARATOR: &str = " │ ";
const SEPARATOR_WIDTH: usize = 3;

/// Columns narrower than this are not worth having.
const MIN_COLUMN: usize = 4;

/// The cells as they were read; the first row is the header.
#[derive(Debug, Default)]
pub struct Table {
    pub alignments: Vec<Alignment>,
    pub rows: Vec<Vec<Line<'static>>>,
}

impl Table {
    pub fn lines(&self, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        match self.column_widths(width) {
            Some(widths) => self.grid(&widths, theme),
            None => self.records(width),
        }
    }

    /// What each column gets, if all of them fit.
    fn column_widths(&self, width: usize) -> Option<Vec<usize>> {
        let columns = self.alignments.len();
        let natural: Vec<_> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(line_width).max().unwrap_or(0).max(1)
            })
            .collect();
        let room = width.checked_sub(SEPARATOR_WIDTH * columns.saturating_sub(1))?;
        let total = |cap: usize| natural.iter().map(|width| (*width).min(cap)).sum::<usize>();
        if total(usize::MAX) <= room {
            return Some(natural);
        }
        if total(MIN_COLUMN) > room {
            return None;
        }
        // The widest columns give first: the largest cap that fits, and what is left over to the first of them.
        let (mut fits, mut too_wide) = (MIN_COLUMN, room + 1);
        while too_wide - fits > 1 {
            let cap = usize::midpoint(fits, too_wide);
            *(if total(cap) <= room {
                &mut fits
            } else {
                &mut too_wide
            }) = cap;
        }
        let mut left = room - total(fits);
        let widths = natural.into_iter().map(|width| {
            let extra = usize::from(width > fits && left > 0);
            left -= extra;
            width.min(fits) + extra
        });
        Some(widths.collect())
    }

    fn grid(&self, widths: &[usize], theme: &Theme) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            lines.extend(self.grid_row(row, widths, theme));
            if index == 0 {
                let rule: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(Line::styled(rule.join("─┼─"), theme.rule));
            }
        }
        lines
    }

    fn grid_row(
        &self,
        row: &[Line<'static>],
        widths: &[usize],
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        let nothing = Line::default();
        let cells: Vec<_> = (0..widths.len())
            .map(|column| {
                wrap(
                    row.get(column).unwrap_or(&nothing),
                    widths[column],
                    &nothing,
                )
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        let line = |at: usize| {
            let mut spans: Vec<Span<'static>> = Vec::new();
            for (column, cell) in cells.iter().enumerate() {
                let content = cell.get(at).unwrap_or(&nothing);
                let is_last = column + 1 == widths.len();
                let ends_here = is_last && line_width(content) == 0;
                if column > 0 {
                    let separator = if ends_here {
                        SEPARATOR.trim_end()
                    } else {
                        SEPARATOR
                    };
                    spans.push(Span::styled(separator, theme.rule));
                }
                if ends_here {
                    break;
                }
                let free = widths[column].saturating_sub(line_width(content));
                let before = match self.alignments[column] {
                    Alignment::Right => free,
                    Alignment::Center => free / 2,
                    Alignment::Left | Alignment::None => 0,
                };
                let after = if is_last { 0 } else { free - before };
                let space = |width| Some(Span::raw(" ".repeat(width))).filter(|_| width > 0);
                spans.extend(space(before));
                spans.extend(content.spans.iter().cloned());
                spans.extend(space(after));
            }
            Line::from(spans)
        };
        (0..height).map(line).collect()
    }

    /// Each row as lines of `Header: value`.
    fn records(&self, width: usize) -> Vec<Line<'static>> {
        let hanging = Line::from("  ");
        let Some((header, rows)) = self.rows.split_first() else {
            return Vec::new();
        };
        if rows.is_empty() {
            return header
                .iter()
                .flat_map(|cell| wrap(cell, width, &hanging))
                .collect();
        }
        let mut lines = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                lines.push(Line::default());
            }
            for (column, cell) in row.iter().enumerate() {
                let mut field = header.get(column).cloned().unwrap_or_default();
                if !field.spans.is_empty() {
                    field.push_span(": ");
                }
                field.spans.extend(cell.spans.iter().cloned());
                lines.extend(wrap(&field, width, &hanging));
            }
        }
        lines
    }
}
