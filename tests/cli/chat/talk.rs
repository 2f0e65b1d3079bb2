//! Starting, loading, streaming, folding.

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{TINY, WELCOME, idle, keys, replay, say, start, turn, widen};
use crate::program::Program;
use crate::pty::Terminal;

#[test]
fn the_screen_is_there_before_the_model_and_a_message_waits_for_it() {
    let program = Program::new();
    // Nothing comes out of it until somebody writes.
    let recording = program.home.path().join("recording");
    mkfifo(&recording, Mode::S_IRWXU).unwrap();
    let args = ["chat", "--model", "tiny", "--replay", "recording"];
    let mut terminal = Terminal::start(program.home.path(), &args, &[]);
    terminal.wait_for_text("loading tiny");
    assert!(terminal.contents().contains(WELCOME));
    say(&mut terminal, "Are you there?");
    terminal.wait_for("empty draft", |screen| !screen.contents().contains(WELCOME));
    std::fs::write(&recording, turn("Hm.", "Now I am.", 1)).unwrap();
    terminal.wait_for_text("Now I am.");
}

#[test]
fn an_answer_streams_and_the_thinking_folds_when_it_begins() {
    let program = Program::new();
    let recording = turn("The user greets.", "Hello **there**, you.", 150);
    let mut terminal = replay(&program, &recording, &[]);
    say(&mut terminal, "Hi");
    terminal.wait_for_text("The user greets.");
    assert!(terminal.is_dim("The user greets."));
    terminal.wait_for_text("Hello there, you.");
    idle(&mut terminal);
    assert_eq!(terminal.find("The user greets."), None);
    let (row, column) = terminal.find("there").unwrap();
    assert!(terminal.screen().cell(row, column).unwrap().bold());
    terminal.send(keys::CTRL_T);
    terminal.wait_for_text("The user greets.");
    terminal.send(keys::CTRL_T);
    terminal.wait_for("folded thinking", |screen| {
        !screen.contents().contains("The user greets.")
    });
}

#[test]
fn the_built_in_model_answers() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    widen(&mut terminal);
    say(&mut terminal, "Hello!");
    terminal.wait_for_text("Hello! How can I help you today?");
    idle(&mut terminal);
    // The prompt of the first turn is all new, that of the second is not.
    assert_eq!(terminal.find("reused"), None);
    say(&mut terminal, "What is the capital of France?");
    terminal.wait_for_text("Paris");
    idle(&mut terminal);
    terminal.wait_for_text("reused");
}

#[test]
fn a_damaged_model_is_said_with_a_way_out_and_another_can_be_chosen() {
    let program = Program::new();
    let directory = program.home.path().join("damaged");
    std::fs::create_dir(&directory).unwrap();
    program.file(
        "damaged/config.json",
        include_str!("../../../assets/tiny/config.json"),
    );
    program.file("damaged/model.safetensors", "cut off");
    let args = ["chat", "--model", "./damaged"];
    let mut terminal = Terminal::start(program.home.path(), &args, &[]);
    terminal.wait_for_text("no model");
    let contents = terminal.contents();
    assert!(contents.contains("damaged/model.safetensors"), "{contents}");
    assert!(contents.contains("/model NAME"), "{contents}");
    say(&mut terminal, "/model tiny");
    super::ready(&mut terminal);
}

#[test]
fn text_of_the_model_cannot_command_the_terminal() {
    let program = Program::new();
    let recording = turn("\u{1b}]0;owned\u{7}", "a\u{1b}[2Jb\u{9b}31mc", 1);
    let mut terminal = replay(&program, &recording, &["--show-thinking"]);
    say(&mut terminal, "Hi");
    terminal.wait_for_text("abc");
    idle(&mut terminal);
    let log = String::from_utf8_lossy(&terminal.log);
    assert!(
        !log.contains("owned") || !log.contains("\u{1b}]0;"),
        "{log:?}"
    );
    assert!(!log.contains("[2Jb"), "{log:?}");
}

#[test]
fn only_a_terminal_is_talked_on() {
    let program = Program::new();
    crate::assert_transcript!(program.command(&TINY), @"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: a chat needs a terminal, and standard input is none

    hint: `gptoss run` answers one prompt, in pipes and files too
    ");
    let line = "$GPTOSS chat --model tiny | cat";
    let mut terminal = Terminal::shell(program.home.path(), line);
    terminal.wait();
    let contents = terminal.contents();
    assert!(contents.contains("standard output is none"), "{contents}");
}
