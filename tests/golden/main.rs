//! The numbers, texts and files of the reference implementations.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod checkpoint;
