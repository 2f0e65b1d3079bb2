//! Saved conversations.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{TINY, endless, idle, keys, replay, say, start, turn};
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

/// The files of the saved conversations.
fn saved(program: &Program) -> Vec<PathBuf> {
    files(&program.home.path().join(".local/state/gptoss/sessions"))
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect();
    files.sort();
    files
}

#[test]
fn an_answer_under_way_outlives_the_program() {
    let program = Program::new();
    let mut terminal = replay(&program, &endless("Once upon a time"), &[]);
    say(&mut terminal, "Tell me a story");
    terminal.wait_for_text("Once upon a time");
    terminal.wait_for("saved answer", |_| {
        let text = fs::read_to_string(&saved(&program)[0]).unwrap();
        text.contains("Once upon a time")
    });
    kill(Pid::from_raw(terminal.process_id()), Signal::SIGKILL).unwrap();
    terminal.wait();
    let text = fs::read_to_string(&saved(&program)[0]).unwrap();
    assert!(!text.contains(r#""type":"turn""#), "{text}");
    let mut terminal = start(&program, &["--continue"]);
    terminal.wait_for_text("Once upon a time");
    terminal.wait_for_text("the program was ended while it answered");
    say(&mut terminal, "Hello!");
    terminal.wait_for("saved answer", |_| {
        let text = fs::read_to_string(&saved(&program)[0]).unwrap();
        text.contains(r#""type":"turn""#)
    });
    terminal.send(keys::CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let mut terminal = start(&program, &["--continue"]);
    terminal.wait_for_text("› Hello!");
    assert!(!terminal.contents().contains("was ended while"));
}

#[test]
fn a_conversation_whose_file_is_deleted_is_saved_again() {
    let program = Program::new();
    let mut terminal = replay(&program, &turn("Hm.", "The first answer.", 1), &[]);
    say(&mut terminal, "The first question");
    terminal.wait_for_text("The first answer.");
    idle(&mut terminal);
    for path in saved(&program) {
        fs::remove_file(path).unwrap();
    }
    say(&mut terminal, "/rename Again");
    terminal.wait_for_text("was deleted while it was in use");
    terminal.send(keys::CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let mut terminal = start(&program, &["--session", "again"]);
    terminal.wait_for_text("The first answer.");
}

#[test]
fn a_conversation_that_was_not_saved_is_with_save_and_says_where() {
    let program = Program::new();
    let mut terminal = replay(
        &program,
        &turn("Hm.", "The first answer.", 1),
        &["--no-save"],
    );
    say(&mut terminal, "The first question");
    terminal.wait_for_text("The first answer.");
    idle(&mut terminal);
    assert_eq!(saved(&program), [""; 0].map(PathBuf::from));
    say(&mut terminal, "/save");
    terminal.wait_for_text("sessions/20");
    terminal.send(keys::CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let mut terminal = start(&program, &["--continue"]);
    terminal.wait_for_text("The first answer.");
}

#[test]
fn a_name_of_several_conversations_lists_them() {
    let program = Program::new();
    talked(&program, &[]);
    talked(&program, &[]);
    let mut terminal = again(&program, &["--session", "the first"]);
    assert_eq!(terminal.wait(), 1);
    let contents = terminal.contents();
    assert!(
        contents.contains("`the first` may be any of 2 sessions:"),
        "{contents}"
    );
    assert_eq!(
        contents.matches("now  The first question").count(),
        2,
        "{contents}"
    );
    assert!(
        contents.contains("hint: give more of the title"),
        "{contents}"
    );
}

#[test]
fn a_conversation_is_found_by_what_was_said_in_it() {
    let program = Program::new();
    talked(&program, &[]);
    let mut terminal = start(&program, &[]);
    say(&mut terminal, "/open");
    terminal.wait_for_text("The first question");
    terminal.send("ANSWER");
    terminal.wait_for_text("The first answer.");
    terminal.send(" zebra");
    terminal.wait_for_text("no title and no message has `ANSWER zebra`");
}

#[test]
fn nothing_is_left_on_the_disk_where_nothing_is_to_be_saved() {
    let program = Program::new();
    talked(&program, &["--no-save"]);
    let mut terminal = start(&program, &["--no-save", "--system", "Be brief."]);
    say(&mut terminal, "Hello!");
    terminal.wait_for("answer", |screen| !screen.contents().contains("context 0/"));
    idle(&mut terminal);
    say(&mut terminal, "/open");
    terminal.wait_for_text("there are no saved sessions");
    terminal.send(keys::CTRL_C);
    idle(&mut terminal);
    terminal.send(keys::CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let recording = program.home.path().join("recording.jsonl");
    assert_eq!(files(program.home.path()), [recording]);
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

#[test]
fn what_could_not_be_saved_is_marked_and_told_at_the_end() {
    let program = Program::new();
    program.file("state", "a file where a directory should be");
    let state = program.home.path().join("state");
    let state = [("GPTOSS_STATE_DIR", state.to_str().unwrap())];
    let mut terminal = Terminal::start(program.home.path(), &TINY, &state);
    super::ready(&mut terminal);
    say(&mut terminal, "Hello!");
    idle(&mut terminal);
    terminal.wait_for_text("! not saved");
    terminal.send(keys::CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let contents = terminal.contents();
    assert!(
        contents.starts_with("warning: the conversation is not saved: cannot create"),
        "{contents}"
    );
    // Who does not want it is reminded quietly, and not at the end.
    let mut terminal = start(&program, &["--save", "--no-save"]);
    super::widen(&mut terminal);
    terminal.wait_for_text("· not saved");
    terminal.send(keys::CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert_eq!(terminal.contents().trim(), "");
}
