//! Flags, environment, configuration file, defaults: in this order.

use crate::session::{KvType, Reasoning, Sampling};

/// How the chat looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// The terminal's own colours.
    #[default]
    Standard,
    /// Nothing dim, nothing pale.
    HighContrast,
    /// No colour.
    Plain,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, clippy::struct_excessive_bools)]
pub struct Settings {
    pub model: String,
    pub system: Option<String>,
    pub reasoning: Reasoning,
    pub sampling: Sampling,
    pub max_tokens: Option<usize>,
    pub context: Option<usize>,
    pub kv_type: KvType,
    pub threads: Option<usize>,
    pub theme: ThemeName,
    /// The mouse wheel scrolls (and the terminal's selection needs Shift).
    pub mouse: bool,
    /// Conversations are written to the state directory.
    pub save: bool,
    /// Thinking is unfolded.
    pub show_thinking: bool,
}
