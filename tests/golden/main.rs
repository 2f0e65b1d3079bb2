//! The numbers, texts and files of the reference implementations.

mod checkpoint;
