//! The CPU.
pub mod kernels;
pub mod products;
