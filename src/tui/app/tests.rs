mod commands;
mod conversation;
mod control;
mod input;
mod rewind;
mod sessions;
mod support;
mod transcript;
