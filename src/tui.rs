//! The chat: a session in the terminal.
//!
//! Three threads and one channel: the input thread reads the terminal, the worker owns the model, and the main thread
//! owns the [`App`](app::App) and the screen. Whatever happens becomes a [`Msg`](event::Msg); `App::update` turns it into a new state and
//! [effects](event::Effect) and does nothing else; drawing is a function of the state.

pub mod app;
pub mod commands;
pub mod editor;
pub mod event;
pub mod keys;
pub mod markdown;
pub mod text;
pub mod theme;
pub mod view;
