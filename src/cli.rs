//! The command line.

pub mod pull;

use std::process::ExitCode;

/// Parses, runs, prints one error.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
