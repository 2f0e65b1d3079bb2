//! Regenerating, editing, going back.

use super::{idle, keys, replay, say, start, turn, widen};
use crate::program::Program;

#[test]
fn an_answer_is_made_again_on_a_branch_beside_it() {
    let program = Program::new();
    let recording = turn("Hm.", "The first.", 1) + &turn("Hm.", "The second.", 1);
    let mut terminal = replay(&program, &recording, &[]);
    say(&mut terminal, "Hi");
    terminal.wait_for_text("The first.");
    idle(&mut terminal);
    terminal.send(keys::CTRL_R);
    terminal.wait_for_text("The second.");
    idle(&mut terminal);
    assert_eq!(terminal.find("The first."), None);
    terminal.wait_for_text("branch 2/2");
    say(&mut terminal, "/branch prev");
    terminal.wait_for_text("The first.");
    assert_eq!(terminal.find("The second."), None);
}

#[test]
fn an_earlier_message_is_edited_and_the_old_branch_kept() {
    let program = Program::new();
    let recording = ["One.", "Two.", "Three."].map(|answer| turn("Hm.", answer, 1));
    let mut terminal = replay(&program, &recording.concat(), &[]);
    for (message, answer) in [("first", "One."), ("second", "Two.")] {
        say(&mut terminal, message);
        terminal.wait_for_text(answer);
        idle(&mut terminal);
    }
    terminal.send(keys::ALT_E);
    terminal.wait_for_text("which message?");
    terminal.send(keys::UP);
    terminal.send(keys::ENTER);
    terminal.wait_for_text("editing an earlier message");
    terminal.send(" of all");
    terminal.wait_for_text("first of all");
    terminal.send(keys::ENTER);
    terminal.wait_for_text("Three.");
    idle(&mut terminal);
    let contents = terminal.contents();
    assert!(!contents.contains("Two."), "{contents}");
    assert!(contents.contains("branch 2/2"), "{contents}");
}

#[test]
fn regenerating_reads_nothing_but_its_last_tokens_again() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    widen(&mut terminal);
    say(&mut terminal, "Hello!");
    terminal.wait_for_text("How can I help you today?");
    idle(&mut terminal);
    terminal.send(keys::CTRL_R);
    // The toy's prompt of one greeting, all of it but the token that the next one follows from.
    terminal.wait_for_text("reused ");
    idle(&mut terminal);
    terminal.wait_for_text("reused 67");
}
