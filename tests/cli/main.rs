//! The program from outside: its commands, and the library where a command would need a terminal.

// Helpers stand outside the functions that clippy knows as tests.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../support/program.rs"]
#[macro_use]
mod program;
#[cfg(unix)]
#[path = "../support/pty.rs"]
mod pty;

mod answers;
mod bench;
#[cfg(unix)]
mod chat;
mod config;
mod devices;
mod files;
mod gpu;
mod info;
#[cfg(target_os = "linux")]
mod memory;
mod pull;
#[cfg(unix)]
mod terminal;
mod usage;
