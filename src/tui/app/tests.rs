mod commands;
mod control;
mod conversation;
mod input;
mod notes;
mod rewind;
mod sessions;
pub(crate) mod support;
mod transcript;
