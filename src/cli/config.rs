//! `gptoss config`, and the settings of the other commands.

use std::fmt::Write;
use std::path::Path;

use clap::Args;

use super::error::Failure;
use crate::settings::{self, DEFAULT_CONFIG, Given, Paths};

/// `gptoss config`
#[derive(Args, Debug)]
pub struct Config {
    /// Print only where configuration and sessions are
    #[arg(long)]
    pub paths: bool,
}

/// What flags, environment and configuration file say together.
///
/// # Errors
/// When one of them says what cannot be meant.
pub fn load(flags: Given) -> anyhow::Result<Given> {
    settings::load(flags).map_err(|error| failure(&error))
}

fn failure(error: &settings::Error) -> anyhow::Error {
    let hint = match error {
        // A setting that cannot be meant is as wrong as a flag.
        settings::Error::Config { .. } | settings::Error::Variable { .. } => {
            let hint = "`gptoss config` prints every setting with its default";
            return Failure::usage(error.to_string(), hint).into();
        }
        settings::Error::Read { .. } => "`gptoss config --paths` says where it is looked for",
        settings::Error::Home { .. } => "",
    };
    Failure::new(error.to_string(), hint).into()
}

/// Runs `gptoss config` and gives what it prints. A configuration that cannot be used is no hindrance.
///
/// # Errors
/// When nothing says where the paths are.
pub fn run(args: &Config) -> anyhow::Result<Vec<u8>> {
    let paths = Paths::from_env(|name| std::env::var_os(name)).map_err(|error| failure(&error))?;
    let lines = listed(&paths);
    let text = if args.paths {
        lines
    } else {
        let mut text = String::from("# Paths in use:\n");
        for line in lines.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "#   {line}");
        }
        format!("{text}\n{DEFAULT_CONFIG}")
    };
    Ok(text.into_bytes())
}

fn listed(paths: &Paths) -> String {
    let line = |name: &str, path: &Path| {
        let missing = if path.exists() { "" } else { " (not there)" };
        format!("{name:<14} {}{missing}\n", path.display())
    };
    line("configuration", &paths.config)
        + &line("sessions", &paths.sessions())
        + &line("cache", &paths.cache)
}
