//! The state, drawn.

use ratatui::Frame;

use super::app::App;

/// Draws everything; changes nothing.
pub fn draw(app: &App, frame: &mut Frame<'_>) {
    let _ = (app, frame);
    todo!()
}
