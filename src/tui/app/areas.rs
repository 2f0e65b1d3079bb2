//! Where things are on the screen.

use ratatui::layout::Rect;

/// The smallest screen that is drawn on.
pub(crate) const LEAST: (u16, u16) = (20, 5);

/// From top to bottom; what there is no room for has height 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Areas {
    pub transcript: Rect,
    /// What goes on, and what was just done: a line, or more where there is more to say.
    pub activity: Rect,
    pub rule: Rect,
    pub input: Rect,
    /// The keys.
    pub footer: Rect,
    pub status: Rect,
}

impl Areas {
    /// Most lines of a notice: what a reason and its way out need, up to all but a line of the draft and what is around it.
    pub fn most_activity(height: u16) -> u16 {
        match height {
            0..4 => 0,
            4..8 => height - 2,
            8..12 => height - 3,
            _ => height - 4,
        }
    }

    pub fn new(area: Rect, input_lines: usize, activity_lines: usize) -> Self {
        let height = area.height;
        let status = u16::from(height >= 3);
        let activity = u16::try_from(activity_lines)
            .unwrap_or(u16::MAX)
            .max(1)
            .min(Self::most_activity(height));
        let rule = u16::from(height >= 8);
        let footer = u16::from(height >= 12);
        let most = (height / 3).clamp(1, 12);
        let room = height.saturating_sub(status + activity + rule + footer);
        let input = (input_lines.min(usize::from(most)) as u16)
            .min(room)
            .max(1)
            .min(height);
        let others = status + activity + rule + footer + input;
        let mut y = area.y;
        let mut next = |rows: u16| {
            let rows = rows.min(area.bottom().saturating_sub(y));
            let rect = Rect::new(area.x, y, area.width, rows);
            y += rows;
            rect
        };
        Self {
            transcript: next(height.saturating_sub(others)),
            activity: next(activity),
            rule: next(rule),
            input: next(input),
            footer: next(footer),
            status: next(status),
        }
    }

    /// Cells of a line of the draft: the prompt takes two.
    pub fn draft_width(width: u16) -> usize {
        usize::from(width.saturating_sub(2)).max(1)
    }
}
