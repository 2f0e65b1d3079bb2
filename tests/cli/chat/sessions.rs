//! Saved conversations.

use super::{TINY, idle, keys, replay, say, turn};
use crate::program::Program;
use crate::pty::Terminal;

/// A conversation with one exchange, saved and left.
fn talked(program: &Program, args: &[&str]) {
    let mut terminal = replay(program, &turn("Hm.", "The first answer.", 1), args);
    say(&mut terminal, "The first question");
    terminal.wait_for_text("The first answer.");
    idle(&mut terminal);
    terminal.send(keys::CTRL_D);
    assert_eq!(terminal.wait(), 0);
}

fn again(program: &Program, args: &[&str]) -> Terminal {
    let all: Vec<&str> = TINY.iter().chain(args).copied().collect();
    Terminal::start(program.home.path(), &all, &[])
}

#[test]
fn the_last_conversation_goes_on() {
    let program = Program::new();
    talked(&program, &[]);
    let mut terminal = again(&program, &["--continue"]);
    super::ready(&mut terminal);
    terminal.wait_for_text("The first answer.");
    assert!(terminal.find("The first question").is_some());
    say(&mut terminal, "Hello!");
    idle(&mut terminal);
    terminal.send(keys::CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let mut terminal = again(&program, &["--continue"]);
    terminal.wait_for_text("Hello!");
    assert!(terminal.find("The first question").is_some());
}

#[test]
fn a_conversation_is_found_by_its_title() {
    let program = Program::new();
    talked(&program, &[]);
    let mut terminal = again(&program, &["--session", "the first question"]);
    terminal.wait_for_text("The first answer.");
    let mut terminal = again(&program, &["--session", "nothing"]);
    assert_eq!(terminal.wait(), 1);
    let contents = terminal.contents();
    assert!(
        contents.contains("there is no session `nothing`"),
        "{contents}"
    );
}

#[test]
fn a_saved_conversation_is_picked_from_a_list() {
    let program = Program::new();
    talked(&program, &[]);
    let mut terminal = again(&program, &[]);
    super::ready(&mut terminal);
    say(&mut terminal, "/open");
    terminal.wait_for_text("The first question");
    terminal.send(keys::ENTER);
    terminal.wait_for_text("The first answer.");
}

#[test]
fn nothing_is_saved_where_that_is_not_wanted() {
    let program = Program::new();
    talked(&program, &["--no-save"]);
    let mut terminal = again(&program, &["--continue"]);
    assert_eq!(terminal.wait(), 1);
    let contents = terminal.contents();
    assert!(
        contents.contains("there is no saved conversation"),
        "{contents}"
    );
}

#[test]
fn two_programs_do_not_write_to_one_conversation() {
    let program = Program::new();
    talked(&program, &[]);
    let mut first = again(&program, &["--continue"]);
    first.wait_for_text("The first answer.");
    let mut second = again(&program, &["--continue"]);
    assert_eq!(second.wait(), 1);
    let contents = second.contents();
    assert!(contents.contains("is open elsewhere"), "{contents}");
}
