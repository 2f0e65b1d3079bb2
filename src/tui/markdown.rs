//! Markdown as it arrives, to lines of a width.

use ratatui::text::Line;

use super::theme::Theme;

/// A message that grows: finished blocks are rendered once, the open one again as it changes.
#[derive(Clone, Debug)]
pub struct Markdown {/* private */}

impl Markdown {
    /// Nothing yet.
    pub fn new(width: usize, theme: &Theme) -> Self {
        let _ = (width, theme);
        todo!()
    }
    /// More source text (sanitised here).
    pub fn push(&mut self, text: &str) {
        let _ = text;
        todo!()
    }
    /// Nothing more comes: what was open is closed.
    pub fn finish(&mut self) {}
    /// Another width or theme: everything is rendered anew from the source.
    pub fn layout(&mut self, width: usize, theme: &Theme) {
        let _ = (width, theme);
    }
    /// The lines, none wider than the width.
    pub fn lines(&self) -> &[Line<'static>] {
        todo!()
    }
    /// Everything pushed, as it came.
    pub fn source(&self) -> &str {
        todo!()
    }
    /// The contents of the code blocks, in order.
    pub fn code_blocks(&self) -> Vec<String> {
        todo!()
    }
}
