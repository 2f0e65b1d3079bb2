//! Stopping and leaving.

use super::{TINY, endless, idle, keys, replay, say, start, turn};
use crate::program::Program;
use crate::pty::Terminal;

#[test]
fn an_answer_that_is_stopped_is_kept() {
    for key in [keys::ESCAPE, keys::CTRL_C] {
        let program = Program::new();
        let recording = endless("Once upon a time");
        let mut terminal = replay(&program, &recording, &[]);
        say(&mut terminal, "Tell me a story");
        terminal.wait_for_text("Once upon a time");
        terminal.send(key);
        idle(&mut terminal);
        let contents = terminal.contents();
        assert!(contents.contains("Once upon a time"), "{contents}");
        assert!(contents.contains("stopped"), "{contents}");
    }
}

#[test]
fn reading_is_stopped_too() {
    let program = Program::new();
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(8000);
    program.file("long.txt", text);
    let mut terminal = start(&program, &[]);
    say(&mut terminal, "/read long.txt");
    terminal.wait_for_text("attached");
    terminal.send("Well?");
    terminal.wait_for_text("Well?");
    terminal.send(keys::ENTER);
    terminal.wait_for_text("reading ");
    terminal.send(keys::ESCAPE);
    idle(&mut terminal);
    // Nothing was said, so the message can be sent again.
    assert!(
        terminal.contents().contains("Well?"),
        "{}",
        terminal.contents()
    );
}

#[test]
fn a_second_ctrl_c_quits_while_the_model_works() {
    let program = Program::new();
    let recording = endless("Once upon a time");
    let mut terminal = replay(&program, &recording, &[]);
    say(&mut terminal, "Tell me a story");
    terminal.wait_for_text("Once upon a time");
    terminal.send(keys::CTRL_C);
    terminal.send(keys::CTRL_C);
    // Stopping may be over before the second one comes.
    assert!(matches!(terminal.wait(), 0 | 130));
    assert_eq!(terminal.contents().trim(), "");
}

#[test]
fn ctrl_c_clears_the_draft_asks_and_quits() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    terminal.send("draft");
    terminal.wait_for_text("› draft");
    terminal.send(keys::CTRL_C);
    terminal.wait_for("empty draft", |screen| {
        !screen.contents().contains("› draft")
    });
    terminal.send(keys::CTRL_C);
    terminal.wait_for_text("again");
    terminal.send(keys::CTRL_C);
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn ctrl_d_and_quit_leave_nothing_on_the_screen() {
    for keys in [keys::CTRL_D, "/quit"] {
        let program = Program::new();
        let mut terminal = replay(&program, &turn("Hm.", "Hello", 1), &[]);
        say(&mut terminal, "Hi");
        terminal.wait_for_text("Hello");
        idle(&mut terminal);
        terminal.send(keys);
        if keys == "/quit" {
            terminal.wait_for_text("/quit");
            terminal.send("\r");
        }
        assert_eq!(terminal.wait(), 0);
        assert_eq!(terminal.contents().trim(), "");
    }
}

#[test]
fn what_was_made_until_the_end_is_saved() {
    let program = Program::new();
    let recording = endless("Once upon a time");
    let mut terminal = replay(&program, &recording, &[]);
    say(&mut terminal, "Tell me a story");
    terminal.wait_for_text("Once upon a time");
    say(&mut terminal, "/quit");
    assert_eq!(terminal.wait(), 0);
    let args: Vec<&str> = TINY.iter().chain(&["--continue"]).copied().collect();
    let mut terminal = Terminal::start(program.home.path(), &args, &[]);
    terminal.wait_for_text("Once upon a time");
}
