mod commands;
mod control;
mod conversation;
mod input;
mod rewind;
mod saving;
mod sessions;
pub(crate) mod support;
mod transcript;
