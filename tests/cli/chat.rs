//! `gptoss chat` on a terminal.

mod control;
mod download;
mod input;
mod manners;
mod refusals;
mod rewind;
mod sessions;
mod talk;

use std::fmt::Write;
use std::sync::LazyLock;

use gptoss::checkpoint::Checkpoint;
use gptoss::tokenizer::Tokenizer;

use crate::program::Program;
use crate::pty::Terminal;

/// The built-in model, without luck and without a calendar.
const TINY: [&str; 9] = [
    "chat",
    "--model",
    "tiny",
    "--temperature",
    "0",
    "--reasoning",
    "low",
    "--current-date",
    "2025-06-28",
];

/// What the empty transcript says.
const WELCOME: &str = "Type a message, or / for the commands.";

/// Starts a chat and waits until the model is there.
fn start(program: &Program, args: &[&str]) -> Terminal {
    let all: Vec<&str> = TINY.iter().chain(args).copied().collect();
    let mut terminal = Terminal::start(program.home.path(), &all, &[]);
    ready(&mut terminal);
    terminal
}

/// Starts a chat with a model that says what was recorded.
fn replay(program: &Program, recording: &str, args: &[&str]) -> Terminal {
    program.file("recording.jsonl", recording);
    let mut all = vec!["--replay", "recording.jsonl"];
    all.extend(args);
    start(program, &all)
}

/// Waits until the status line shows the context: the model is there and nothing is under way.
fn ready(terminal: &mut Terminal) {
    terminal.wait_for("model", |screen| screen.contents().contains("/131,072"));
    idle(terminal);
}

/// Waits until nothing is under way.
fn idle(terminal: &mut Terminal) {
    terminal.wait_for("end of the turn", |screen| {
        let contents = screen.contents();
        contents.contains("Enter send") && !contents.contains("tok/s")
    });
}

/// Makes the terminal wide enough for every figure.
fn widen(terminal: &mut Terminal) {
    terminal.resize(120, 24);
}

/// Types a message and sends it.
fn say(terminal: &mut Terminal, text: &str) {
    terminal.send(text);
    terminal.wait_for_text(&format!("› {text}"));
    terminal.send("\r");
}

/// The keys by their names.
mod keys {
    pub const ENTER: &str = "\r";
    pub const ESCAPE: &str = "\x1b";
    pub const UP: &str = "\x1b[A";
    pub const CTRL_C: &str = "\x03";
    pub const CTRL_D: &str = "\x04";
    pub const CTRL_G: &str = "\x07";
    pub const CTRL_R: &str = "\x12";
    pub const CTRL_T: &str = "\x14";
    pub const CTRL_Y: &str = "\x19";
    pub const CTRL_Z: &str = "\x1a";
    pub const ALT_E: &str = "\x1be";
}

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let json = Checkpoint::tiny().tokenizer.unwrap().json;
    Tokenizer::from_json(&json, "tiny").unwrap()
});

/// A turn that thinks and answers, one token every few milliseconds.
fn turn(thinking: &str, answer: &str, delay_ms: u64) -> String {
    let special = TOKENIZER.special();
    let mut ids = Vec::new();
    let mut message = |channel: &str, text: &str, end: u32| {
        ids.push(special.channel);
        ids.extend(TOKENIZER.encode(channel));
        ids.push(special.message);
        ids.extend(TOKENIZER.encode(text));
        ids.push(end);
        if end == special.end {
            ids.push(special.start);
            ids.extend(TOKENIZER.encode("assistant"));
        }
    };
    message("analysis", thinking, special.end);
    message("final", answer, special.return_);
    let mut lines = String::new();
    for id in ids {
        writeln!(lines, "{{\"id\": {id}, \"delay_ms\": {delay_ms}}}").unwrap();
    }
    lines
}

/// A turn that goes on for a minute after its first words.
fn endless(words: &str) -> String {
    let long = turn("Hm.", &format!("{words} {}", "and on ".repeat(50)), 1);
    let (first, rest): (Vec<&str>, Vec<&str>) = {
        let lines: Vec<&str> = long.lines().collect();
        let shown = lines.len() - 60;
        (lines[..shown].to_vec(), lines[shown..].to_vec())
    };
    let slow = rest
        .join("\n")
        .replace("\"delay_ms\": 1", "\"delay_ms\": 1000");
    format!("{}\n{slow}\n", first.join("\n"))
}
