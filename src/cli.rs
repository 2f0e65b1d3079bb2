//! The command line.

use std::process::ExitCode;

/// Parses, runs, prints one error.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
