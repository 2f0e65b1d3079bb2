//! The real binary in an empty environment, and what it says as one text.

use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

/// A program that finds nothing of the person who runs the tests.
pub struct Program {
    /// Home, working directory and place for files.
    pub home: TempDir,
}

impl Program {
    pub fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// `gptoss` with `args`, standard input empty.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::cargo_bin("gptoss").unwrap();
        command.args(args).current_dir(self.home.path()).env_clear();
        for (name, value) in environment(self.home.path()) {
            command.env(name, value);
        }
        command
    }

    /// `gptoss run` on the built-in model, the likeliest token always, on a fixed day.
    pub fn run(&self, args: &[&str]) -> Command {
        let mut command = self.command(&["run"]);
        command.args(GREEDY).args(args);
        command
    }

    /// Writes a file and gives its name.
    pub fn file<'a>(&self, name: &'a str, content: impl AsRef<[u8]>) -> &'a str {
        std::fs::write(self.home.path().join(name), content).unwrap();
        name
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path().join(name)).unwrap()
    }
}

/// What the goldens were made with.
pub const GREEDY: [&str; 8] = [
    "--model",
    "tiny",
    "--temperature",
    "0",
    "--kv-type",
    "f32",
    "--current-date",
    "2025-06-28",
];

/// The only variables that the program sees.
pub fn environment(home: &Path) -> [(&'static str, String); 2] {
    [
        ("HOME", home.display().to_string()),
        ("TERM", "xterm-256color".to_owned()),
    ]
}

/// Exit code, standard output and standard error as one text.
pub fn transcript(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!(
        "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// What differs from run to run and from machine to machine.
pub const FILTERS: [(&str, &str); 6] = [
    (r"\d+\.\d+ tok/s", "[rate] tok/s"),
    (r"\d+\.\d\d s\b", "[time] s"),
    (r"peak memory \d+\.\d [kMG]B", "peak memory [size]"),
    (r"seed \d{6,}", "seed [seed]"),
    (r"cpu \(.*\)", "cpu ([kernels])"),
    (r"/[^ `]*/\.cache/", "[home]/.cache/"),
];

/// `assert_snapshot!` of a command's [`transcript`] through the [`FILTERS`].
#[macro_export]
macro_rules! assert_transcript {
    ($command:expr, @$expected:literal) => {
        insta::with_settings!({ filters => $crate::program::FILTERS.to_vec() }, {
            insta::assert_snapshot!($crate::program::transcript(&mut $command), @$expected);
        });
    };
}
