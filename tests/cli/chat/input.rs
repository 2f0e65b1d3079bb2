//! What is typed and pasted.

use super::{idle, keys, replay, say, start, turn};
use crate::program::Program;
use crate::pty::Terminal;

#[test]
fn a_paste_of_three_lines_is_one_draft_and_sends_nothing() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    terminal.send("\x1b[200~one\rtwo\rthree\r\x1b[201~");
    terminal.wait_for_text("three");
    assert!(draft_is(&terminal, &["› one", "  two", "  three"]));
    assert!(terminal.contents().contains(super::WELCOME));
}

#[test]
fn a_burst_of_lines_is_not_sent_line_by_line() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    terminal.send("one\rtwo\rthree");
    terminal.wait_for_text("three");
    assert!(draft_is(&terminal, &["› one", "  two", "  three"]));
    assert!(terminal.contents().contains(super::WELCOME));
}

/// Three lines stand below one another.
fn draft_is(terminal: &Terminal, lines: &[&str]) -> bool {
    let rows: Vec<String> = terminal.screen().rows(0, 80).collect();
    rows.windows(lines.len()).any(|window| {
        window
            .iter()
            .zip(lines)
            .all(|(row, line)| row.trim_end() == *line)
    })
}

#[test]
fn a_half_sequence_and_a_paste_without_end_keep_nobody_waiting() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    terminal.send("\x1b[200~half of it");
    terminal.wait_for_text("half of it");
    terminal.send("!");
    terminal.wait_for_text("half of it!");
    terminal.send(keys::CTRL_C);
    terminal.wait_for_text("cleared");
    // An answer to a question that somebody else asked.
    terminal.send("\x1b]11;rgb:0000/0000/0000\x1b\\x");
    terminal.wait_for("the letter alone", |screen| {
        screen.rows(0, 80).any(|row| row.trim_end() == "› x")
    });
    terminal.send("\x1b[200~and more");
    terminal.send(keys::CTRL_C);
    terminal.wait_for_text("cleared");
    terminal.send("\x1b[");
    terminal.send(keys::CTRL_C);
    terminal.wait_for_text("Ctrl-C again quits");
    terminal.send("\x1b[1;");
    terminal.send(keys::CTRL_C);
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_megabyte_is_pasted_and_shown_folded() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    let text = "Lorem ipsum dolor sit amet. ".repeat(40_000);
    terminal.send(&format!("\x1b[200~{text}\x1b[201~"));
    terminal.wait_for_text("1,120,000 characters");
    terminal.send("still here");
    terminal.wait_for_text("still here");
}

#[test]
fn line_breaks_are_typed_with_ctrl_j_and_alt_enter() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    for (text, key) in [("one", "\n"), ("two", "\x1b\r"), ("three", "")] {
        terminal.send(text);
        terminal.wait_for_text(text);
        terminal.send(key);
    }
    assert!(draft_is(&terminal, &["› one", "  two", "  three"]));
}

#[test]
fn the_draft_goes_to_the_editor_and_comes_back() {
    let program = Program::new();
    let line = "export EDITOR=\"sed -i s/cat/dog/\"; stty -g > before; $GPTOSS chat --model tiny";
    let mut terminal = Terminal::shell(program.home.path(), line);
    super::ready(&mut terminal);
    terminal.send("a cat");
    terminal.wait_for_text("a cat");
    terminal.send(keys::CTRL_G);
    terminal.wait_for_text("a dog");
    assert!(terminal.screen().alternate_screen());
    // The keys are read again.
    terminal.send("!");
    terminal.wait_for_text("a dog!");
}

#[test]
fn keys_that_come_with_a_new_size_are_read_and_the_size_too() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    for round in 0..20 {
        let columns = if round % 2 == 0 { 120 } else { 80 };
        terminal.resize(columns, 24);
        terminal.send(&format!("key {round}"));
        let (row, draft) = ("─".repeat(usize::from(columns)), format!("› key {round}"));
        terminal.wait_for("keys and size", |screen| {
            let contents = screen.contents();
            contents.contains(&draft) && contents.lines().any(|line| line == row)
        });
        terminal.send("\x15");
        terminal.wait_for("empty draft", |screen| !screen.contents().contains(&draft));
    }
}

#[test]
fn a_size_that_changes_while_the_chat_begins_is_noticed() {
    let program = Program::new();
    let mut terminal = Terminal::start(program.home.path(), &super::TINY, &[]);
    // The first picture comes before the terminal is read.
    terminal.wait_for_text(super::WELCOME);
    terminal.resize(100, 30);
    let row = "─".repeat(100);
    terminal.wait_for("size", |screen| {
        screen.contents().lines().any(|line| line == row)
    });
}

#[test]
fn an_editor_that_fails_leaves_the_draft() {
    let program = Program::new();
    let line = "VISUAL=false $GPTOSS chat --model tiny";
    let mut terminal = Terminal::shell(program.home.path(), line);
    super::ready(&mut terminal);
    terminal.send("a cat");
    terminal.wait_for_text("a cat");
    terminal.send(keys::CTRL_G);
    terminal.wait_for_text("`false` ended with");
    assert!(terminal.contents().contains("› a cat"));
}

#[test]
fn a_file_is_attached_and_an_export_is_written() {
    let program = Program::new();
    program.file("notes.txt", "The secret word is xyzzy.\n");
    let recording = turn("Hm.", "It is xyzzy.", 1);
    let mut terminal = replay(&program, &recording, &[]);
    say(&mut terminal, "/read notes.txt");
    terminal.wait_for_text("attached");
    terminal.send("Which word?");
    terminal.wait_for_text("Which word?");
    terminal.send(keys::ENTER);
    terminal.wait_for_text("It is xyzzy.");
    idle(&mut terminal);
    say(&mut terminal, "/export talk.md");
    terminal.wait_for_text("written to `talk.md`");
    let written = program.read("talk.md");
    assert!(written.contains("It is xyzzy."), "{written}");
    assert!(written.contains("The secret word"), "{written}");
    say(&mut terminal, "/export talk.md");
    terminal.wait_for_text("is there already");
}

#[test]
fn copying_goes_through_the_terminal() {
    let program = Program::new();
    let mut terminal = replay(&program, &turn("Hm.", "foo", 1), &[]);
    say(&mut terminal, "Hi");
    terminal.wait_for_text("foo");
    idle(&mut terminal);
    terminal.send(keys::CTRL_Y);
    terminal.wait_for_text("copied 3 characters");
    let log = String::from_utf8_lossy(&terminal.log);
    assert!(log.contains("\x1b]52;c;Zm9v"), "{log:?}");
}
