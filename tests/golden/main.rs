//! Numbers, tokens, texts and files against what the reference implementations give.

#![allow(clippy::unwrap_used, clippy::panic)] // A panic is how a test fails.

mod checkpoint;
mod compute;
#[cfg(feature = "wgpu")]
mod cube;
mod goldens;
mod harmony;
mod model;
mod rewind;
mod tokenizer;
mod twin;
