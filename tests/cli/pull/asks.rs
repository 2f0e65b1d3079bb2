//! `gptoss run` on a terminal, where the model is not here.

use super::*;
use crate::pty::Terminal;

fn run(fixture: &Fixture) -> Terminal {
    let args = [
        "run",
        "-t",
        "0",
        "-r",
        "low",
        "What is the capital of France?",
    ];
    let vars = fixture.vars();
    let vars: Vec<(&str, &str)> = vars
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    let mut terminal = Terminal::start(fixture.home.path(), &args, &vars);
    terminal.wait_for_text("Download now? [Y/n]");
    terminal
}

#[test]
fn a_model_that_is_not_here_is_fetched_after_asking_and_answers() {
    let fixture = Fixture::tiny();
    let mut terminal = run(&fixture);
    let contents = terminal.contents();
    assert!(
        contents.starts_with("`openai/gpt-oss-20b` is not here (6.1 MB to fetch"),
        "{contents}"
    );
    assert!(
        !fixture.repo().join("snapshots").exists(),
        "nothing is fetched before the answer"
    );
    terminal.send("y\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.contents());
    let contents = terminal.contents();
    assert!(
        contents.contains("\nThe capital of France is Paris.\n"),
        "{contents}"
    );
}

#[test]
fn nothing_is_fetched_for_a_user_who_says_no() {
    let fixture = Fixture::tiny();
    let mut terminal = run(&fixture);
    fixture.server.take_log();
    terminal.send("n\r");
    assert_eq!(terminal.wait(), 1);
    let contents = terminal.contents();
    assert!(contents.contains("gptoss pull 20b"), "{contents}");
    assert!(contents.contains("--model tiny"), "{contents}");
    assert_eq!(fixture.server.take_log(), Vec::<String>::new());
}
