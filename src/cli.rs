//! The command line: parses, runs, prints one error.

mod args;
mod bench;
mod chat;
mod config;
mod devices;
mod error;
mod info;
mod interrupt;
mod model;
mod output;
mod progress;
mod prompt;
pub mod pull;
mod report;
mod run;
mod style;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use error::Failure;
use style::Style;

/// What the process tells its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// Done.
    Success,
    /// It could not be done.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The model ended without an answer.
    NoAnswer,
    /// Stopped by Ctrl-C.
    Interrupted,
    /// Stopped by SIGTERM.
    Terminated,
}

impl Exit {
    /// As the README lists them.
    fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoAnswer => 3,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  gptoss chat --model tiny                                   talk to the built-in toy, at once
  gptoss run --model tiny 'What is the capital of France?'   the built-in toy, runs at once
  gptoss pull 20b                                            fetch gpt-oss-20b (13.8 GB)
  gptoss run 'Why is the sky blue?'                          ask it
  gptoss run --prompt question.txt --output answer.txt       files in, files out
  gptoss bench --model 20b                                   how fast it runs here
  gptoss info --model 20b --context 32768                    what it needs; does it fit here

Exit codes: 0 done, 1 failed, 2 wrong command line, 3 the model ended without an answer,
129 SIGHUP, 130 Ctrl-C, 143 SIGTERM";

/// OpenAI's gpt-oss in the terminal, from the published checkpoint
#[derive(Debug, Parser)]
#[command(name = "gptoss", version, after_help = AFTER_HELP, arg_required_else_help = true)]
#[command(max_term_width = 100, help_expected = true, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Talk, in the terminal
    Chat(Box<chat::Args>),
    /// Answer one prompt
    Run(Box<args::Run>),
    /// Measure how fast a model runs here
    Bench(bench::Args),
    /// Show what a checkpoint holds, what it needs, and whether it fits here
    Info(args::Info),
    /// Fetch a model into the Hugging Face cache
    Pull(pull::Args),
    /// List what there is to run on
    Devices(devices::Args),
    /// Print the commented default configuration, and where files are
    Config(config::Config),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the program, or of one command
    Man {
        /// The command
        command: Option<String>,
    },
}

/// Parses the command line, runs the command and prints its error, if there is one.
pub fn main() -> ExitCode {
    let code = match execute(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => error::report(&error, Style::of_stderr()).code(),
    };
    ExitCode::from(code)
}

/// Runs a command and gives the exit code.
fn execute(command: Command) -> anyhow::Result<u8> {
    let exit = match command {
        Command::Chat(args) => return chat::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Info(args) => print(&info::run(&args)?),
        Command::Devices(args) => print(&devices::run(&args)?),
        Command::Config(args) => print(&config::run(&args)?),
        Command::Pull(args) => pull::run(&args).map(|()| Exit::Success),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "gptoss", &mut script);
            print(&script)
        }
        Command::Man { command } => print(&manual(command.as_deref())?),
    };
    exit.map(Exit::code)
}

/// The manual page, in roff.
fn manual(name: Option<&str>) -> anyhow::Result<Vec<u8>> {
    let mut program = Cli::command();
    program.build();
    let page = match name {
        None => program,
        Some(name) => program.find_subcommand(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = program
                .get_subcommands()
                .map(clap::Command::get_name)
                .collect();
            Failure::usage(
                format!("`{name}` is not a command"),
                format!("the commands are {}", names.join(", ")),
            )
        })?,
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page)
        .source(concat!("gptoss ", env!("CARGO_PKG_VERSION")))
        .render(&mut roff)?;
    Ok(roff)
}

/// Writes `bytes` to standard output; a closed pipe is nobody's error.
fn print(bytes: &[u8]) -> anyhow::Result<Exit> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(Exit::Success),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_shell_has_a_completion_and_every_command_a_manual_page() {
        use clap::ValueEnum;
        for shell in clap_complete::Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "gptoss", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("repetition-penalty"), "{shell}");
        }
        for command in Cli::command().get_subcommands() {
            let page = String::from_utf8(manual(Some(command.get_name())).unwrap()).unwrap();
            assert!(page.contains(".SH NAME"), "{page}");
        }
        assert!(manual(None).is_ok());
        let error = manual(Some("talk")).unwrap_err();
        assert_eq!(error.to_string(), "`talk` is not a command");
    }
}
