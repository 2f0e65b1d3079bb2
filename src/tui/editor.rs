//! The multi-line input: grapheme by grapheme, with undo.

/// Where a motion or a deletion goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    #[allow(missing_docs)]
    Left,
    #[allow(missing_docs)]
    Right,
    /// In lines as wrapped at the last [`Editor::layout`].
    Up,
    #[allow(missing_docs)]
    Down,
    #[allow(missing_docs)]
    WordLeft,
    #[allow(missing_docs)]
    WordRight,
    /// Start of the line.
    Home,
    /// End of the line.
    End,
    /// Start of the text.
    First,
    /// End of the text.
    Last,
}

/// The text being typed.
#[derive(Clone, Debug, Default)]
pub struct Editor {/* private */}

/// The editor's text at a width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Wrapped lines, none wider than the width.
    pub lines: Vec<String>,
    /// Column and line of the caret (column may equal the width only where nothing follows; wrap it instead).
    pub caret: (usize, usize),
}

impl Editor {
    /// The text.
    pub fn text(&self) -> &str {
        todo!()
    }
    /// Replaces everything, as one edit that can be undone; the caret at the end.
    pub fn set_text(&mut self, text: &str) {
        let _ = text;
    }
    /// Inserts at the caret; typed characters join into one undo step per word, a paste is one step.
    pub fn insert(&mut self, text: &str) {
        let _ = text;
    }
    /// Moves; false where it cannot go further (the first line's Up is the history's).
    pub fn go(&mut self, motion: Motion) -> bool {
        let _ = motion;
        todo!()
    }
    /// Deletes from the caret to where the motion goes.
    pub fn delete(&mut self, motion: Motion) -> bool {
        let _ = motion;
        todo!()
    }
    /// One step back.
    pub fn undo(&mut self) -> bool {
        todo!()
    }
    /// One step forth again.
    pub fn redo(&mut self) -> bool {
        todo!()
    }
    /// Wraps at `width` cells; vertical motions follow the last layout.
    pub fn layout(&mut self, width: usize) -> Layout {
        let _ = width;
        todo!()
    }
}
