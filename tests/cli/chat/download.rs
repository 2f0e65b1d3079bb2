//! A model that is fetched while the chat is on the screen.

use std::fs::{self, File};
use std::path::PathBuf;

use super::{WELCOME, keys, ready, say};
use crate::program::Program;
use crate::pty::Terminal;
use crate::pull::Fixture;

/// Starts a chat with a model that is not here, and agrees to fetch it. The storage sends nothing yet.
fn start(fixture: &Fixture) -> Terminal {
    fixture.server.let_through(Some(0));
    let line = "exec $GPTOSS chat -t 0 -r low --current-date 2025-06-28";
    agree(fixture, line)
}

fn agree(fixture: &Fixture, line: &str) -> Terminal {
    let mut variables = Vec::new();
    let own = fixture.vars();
    for (name, value) in &own {
        variables.push((name.as_str(), value.to_str().unwrap()));
    }
    let mut terminal = Terminal::shell_with(fixture.home.path(), line, &variables);
    terminal.wait_for_text("Download now? [Y/n]");
    terminal.send("y\r");
    terminal
}

/// Lets the first megabyte come and waits until it shows.
fn a_megabyte(fixture: &Fixture, terminal: &mut Terminal) {
    terminal.wait_for_text(WELCOME);
    fixture.server.let_through(Some(1_000_000));
    terminal.wait_for_text("fetching model.safetensors 18 % of 6.1 MB");
}

/// The unfinished weights, once nobody writes to them any more.
fn part(fixture: &Fixture) -> PathBuf {
    let blobs = fixture
        .home
        .path()
        .join("hub/models--openai--gpt-oss-20b/blobs");
    let part = fs::read_dir(blobs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "part"))
        .expect("there is a part of the weights");
    File::open(&part).unwrap().lock().unwrap();
    part
}

#[test]
fn a_download_shows_its_progress_and_a_message_waits_for_it() {
    let fixture = Fixture::tiny();
    let mut terminal = start(&fixture);
    a_megabyte(&fixture, &mut terminal);
    assert!(terminal.screen().alternate_screen());
    say(&mut terminal, "What is the capital of France?");
    fixture.server.let_through(Some(2_000_000));
    terminal.wait_for_text("fetching model.safetensors 51 % of 6.1 MB");
    fixture.server.let_through(None);
    terminal.wait_for_text("The capital of France is Paris.");
}

#[test]
fn a_download_is_stopped_goes_on_and_another_model_answers_meanwhile() {
    let fixture = Fixture::tiny();
    let mut terminal = start(&fixture);
    a_megabyte(&fixture, &mut terminal);
    // The storage says nothing more, and still it ends.
    terminal.send(keys::ESCAPE);
    terminal.wait_for_text("the download was stopped");
    terminal.wait_for_text("no model");
    say(&mut terminal, "/model tiny");
    ready(&mut terminal);
    say(&mut terminal, "Hello!");
    terminal.wait_for_text("How can I help you today?");

    fixture.server.let_through(None);
    let done = fs::metadata(part(&fixture)).unwrap().len();
    assert!(done >= 1_000_000, "{done}");
    fixture.server.take_log();
    say(&mut terminal, "/model 20b");
    terminal.wait_for("the 20b", |screen| {
        let status = screen.rows(0, 80).last().unwrap();
        status.contains("20b") && status.contains("/131,072")
    });
    let log = fixture.server.take_log();
    let range = format!(" bytes={done}-");
    assert!(log.iter().any(|line| line.ends_with(&range)), "{log:?}");
}

#[test]
fn leaving_during_a_download_keeps_what_has_come() {
    for leave in ["ctrl-c", "ctrl-d", "quit"] {
        let fixture = Fixture::tiny();
        let mut terminal = start(&fixture);
        a_megabyte(&fixture, &mut terminal);
        let code = match leave {
            "ctrl-c" => {
                terminal.send(keys::CTRL_C);
                terminal.wait_for_text("Ctrl-C again quits");
                terminal.send(keys::CTRL_C);
                terminal.wait()
            }
            "ctrl-d" => {
                terminal.send(keys::CTRL_D);
                terminal.wait()
            }
            _ => {
                say(&mut terminal, "/quit");
                terminal.wait()
            }
        };
        // Stopping may be over before the second Ctrl-C comes.
        assert!(
            code == 0 || (leave == "ctrl-c" && code == 130),
            "{leave}: {code}"
        );
        assert!(!terminal.screen().alternate_screen());
        let done = fs::metadata(part(&fixture)).unwrap().len();
        assert!(done >= 1_000_000, "{leave}: {done}");
        fixture.server.let_through(None);
        fixture.server.take_log();
        fixture.download().unwrap();
        let log = fixture.server.take_log();
        let range = format!(" bytes={done}-");
        assert!(log.iter().any(|line| line.ends_with(&range)), "{log:?}");
    }
}

/// The chat says `message` and the way out, and goes on with the built-in model.
fn fails_and_goes_on(mut terminal: Terminal, message: &str) {
    terminal.wait_for_text(message);
    terminal.wait_for_text("`/model NAME` loads another");
    say(&mut terminal, "/model tiny");
    ready(&mut terminal);
    say(&mut terminal, "Hello!");
    terminal.wait_for_text("How can I help you today?");
}

#[test]
fn a_file_that_is_gone_is_an_error_with_a_way_out() {
    let fixture = Fixture::tiny();
    fixture.server.set(|hub| hub.gone = true);
    let terminal = start(&fixture);
    fails_and_goes_on(
        terminal,
        "there is no `openai/gpt-oss-20b/model.safetensors`",
    );
}

#[test]
fn a_storage_that_cannot_be_reached_is_an_error_with_a_way_out() {
    let fixture = Fixture::tiny();
    fixture.server.set(|hub| hub.lost = true);
    fails_and_goes_on(start(&fixture), "refused");
}

#[test]
fn a_disk_that_takes_no_more_is_an_error_with_a_way_out() {
    let fixture = Fixture::tiny();
    // Blocks of 512 bytes.
    let line = "trap '' XFSZ; ulimit -f 2000; exec $GPTOSS chat -t 0 -r low";
    fails_and_goes_on(agree(&fixture, line), "File too large");
}

#[test]
fn a_model_that_cannot_be_had_is_told_by_the_name_that_was_typed() {
    let program = Program::new();
    let home = program.home.path().to_str().unwrap();
    let variables = [("HF_ENDPOINT", "http://127.0.0.1:9"), ("HF_HOME", home)];
    let mut terminal = Terminal::start(program.home.path(), &super::TINY, &variables);
    ready(&mut terminal);
    let flat = |screen: &vt100::Screen| {
        let contents = screen.contents();
        contents.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (typed, told) in [
        ("some/model", "no connection to http://127.0.0.1:9"),
        (
            "./nowhere",
            "cannot load `./nowhere`: `./nowhere` does not exist",
        ),
        ("a b", "cannot load `a b`: `a b` names no model"),
    ] {
        say(&mut terminal, &format!("/model {typed}"));
        terminal.wait_for(told, |screen| {
            let contents = flat(screen);
            contents.contains(told) && contents.contains("`tiny` goes on")
        });
        let contents = flat(terminal.screen());
        assert!(
            !contents.contains("--model") && !contents.contains("configured"),
            "{contents}"
        );
    }
    say(&mut terminal, "/model tiny");
    terminal.wait_for_text("`tiny` is loaded");
}
