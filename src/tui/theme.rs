//! Styles by what they are for, in the terminal's own sixteen colours. No meaning is carried by colour alone.

use ratatui::style::{Color, Modifier, Style};

/// The styles of everything on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say what they are for.
pub struct Theme {
    pub text: Style,
    pub dim: Style,
    pub heading: Style,
    pub emphasis: Style,
    pub strong: Style,
    pub strikethrough: Style,
    pub link: Style,
    pub quote: Style,
    pub rule: Style,
    pub code: Style,
    pub code_keyword: Style,
    pub code_string: Style,
    pub code_comment: Style,
    pub code_number: Style,
    pub code_function: Style,
    pub code_type: Style,
    pub user: Style,
    pub thinking: Style,
    pub tool: Style,
    pub notice: Style,
    pub warning: Style,
    pub error: Style,
    pub accent: Style,
    pub selected: Style,
    pub status: Style,
}

impl Theme {
    /// The same, as thinking looks.
    pub fn for_thinking(&self) -> Self {
        let Self { thinking, .. } = *self;
        let quiet = |style: Style| style.patch(thinking);
        Self {
            text: thinking,
            dim: quiet(self.dim),
            heading: quiet(self.heading),
            emphasis: quiet(self.emphasis),
            strong: quiet(self.strong),
            strikethrough: quiet(self.strikethrough),
            link: quiet(self.link),
            quote: quiet(self.quote),
            rule: quiet(self.rule),
            code: quiet(self.code),
            code_keyword: quiet(self.code_keyword),
            code_string: quiet(self.code_string),
            code_comment: quiet(self.code_comment),
            code_number: quiet(self.code_number),
            code_function: quiet(self.code_function),
            code_type: quiet(self.code_type),
            ..self.clone()
        }
    }

    /// For light and dark terminals alike.
    pub fn standard() -> Self {
        let plain = Self::plain();
        let colour = |style: Style, colour| style.fg(colour);
        Self {
            heading: colour(plain.heading, Color::Blue),
            link: colour(plain.link, Color::Cyan),
            quote: colour(plain.quote, Color::Green),
            code: colour(plain.code, Color::Cyan),
            code_keyword: colour(plain.code_keyword, Color::Magenta),
            code_string: colour(plain.code_string, Color::Green),
            code_number: colour(plain.code_number, Color::Yellow),
            code_function: colour(plain.code_function, Color::Blue),
            code_type: colour(plain.code_type, Color::Cyan),
            user: colour(plain.user, Color::Blue),
            tool: colour(plain.tool, Color::Magenta),
            warning: colour(plain.warning, Color::Yellow),
            error: colour(plain.error, Color::Red),
            accent: colour(plain.accent, Color::Blue),
            ..plain
        }
    }

    /// No dim text and no colour that may be close to the background.
    pub fn high_contrast() -> Self {
        let plain = Self::plain();
        Self {
            dim: Style::new(),
            thinking: Style::new().add_modifier(Modifier::ITALIC),
            code_comment: Style::new().add_modifier(Modifier::ITALIC),
            status: Style::new().add_modifier(Modifier::REVERSED),
            ..plain
        }
    }

    /// `NO_COLOR`: weight and slant only.
    pub fn plain() -> Self {
        let with = |modifier| Style::new().add_modifier(modifier);
        Self {
            text: Style::new(),
            dim: with(Modifier::DIM),
            heading: with(Modifier::BOLD),
            emphasis: with(Modifier::ITALIC),
            strong: with(Modifier::BOLD),
            strikethrough: with(Modifier::CROSSED_OUT),
            link: with(Modifier::UNDERLINED),
            quote: with(Modifier::ITALIC),
            rule: with(Modifier::DIM),
            code: Style::new(),
            code_keyword: with(Modifier::BOLD),
            code_string: Style::new(),
            code_comment: with(Modifier::DIM),
            code_number: Style::new(),
            code_function: Style::new(),
            code_type: Style::new(),
            user: with(Modifier::BOLD),
            thinking: with(Modifier::DIM),
            tool: with(Modifier::BOLD),
            notice: with(Modifier::DIM),
            warning: with(Modifier::BOLD),
            error: with(Modifier::BOLD),
            accent: with(Modifier::BOLD),
            selected: with(Modifier::REVERSED),
            status: with(Modifier::DIM),
        }
    }
}
