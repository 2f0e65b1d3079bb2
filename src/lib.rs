//! gpt-oss, OpenAI's open-weight model, for one person at one machine.
//!
//! The data path, which is also the reading order:
//!
//! ```text
//! hub / path ─► Checkpoint ─► weights in the form a backend's kernels read
//!                                  │
//! tokens ─► Generator ─► Transformer ─► KvCache          (token ids in, token ids out)
//!              │  ▲
//!              ▼  └─ Sampler
//!        harmony parser ─► ChatSession ─► run | chat | bench
//! ```
//!
//! The layer rule, which `tests/architecture.rs` enforces: the engine knows token ids only (no text,
//! no roles, no terminal), harmony knows no tensors, and the front ends know neither burn nor the
//! engine, except `info` and `bench`, whose subject they are.

pub mod checkpoint;
pub mod cli;
pub mod engine;
pub mod harmony;
pub mod hub;
pub mod session;
pub mod settings;
pub mod store;
pub mod text;
pub mod tokenizer;
pub mod tui;
