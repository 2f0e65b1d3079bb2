//! `gptoss run` on a terminal.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::{GREEDY, Program};
use crate::pty::Terminal;

fn start(program: &Program, args: &[&str], variables: &[(&str, &str)]) -> Terminal {
    let all: Vec<&str> = ["run"]
        .into_iter()
        .chain(GREEDY)
        .chain(args.iter().copied())
        .collect();
    Terminal::start(program.home.path(), &all, variables)
}

#[test]
fn thinking_is_dim_and_the_answer_is_not() {
    let program = Program::new();
    let mut terminal = start(&program, &["-r", "low", "Hello!"], &[]);
    assert_eq!(terminal.wait(), 0);
    assert!(terminal.is_dim("thinking: The user sends a greeting."));
    assert!(!terminal.is_dim("Hello! How can I help you today?"));
    assert!(terminal.is_dim("output   25 tokens"));
    assert!(colours(&terminal.log).contains(&"2m".to_owned()));
    insta::with_settings!({ filters => crate::program::FILTERS.to_vec() }, {
        insta::assert_snapshot!(terminal.contents(), @"
        thinking: The user sends a greeting.

        Hello! How can I help you today?

        prompt   68 tokens: 0 reused, 68 read at [rate] tok/s
        output   25 tokens at [rate] tok/s (stop)
        time     load [time] s, first token after [time] s, peak memory [size]
        run      seed [seed], cpu ([kernels])
        ");
    });
}

#[test]
fn no_color_means_none_on_a_terminal_too() {
    let program = Program::new();
    let mut terminal = start(&program, &["-r", "low", "Hello!"], &[("NO_COLOR", "1")]);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.is_dim("thinking: The user sends a greeting."));
    assert_eq!(colours(&terminal.log), [""; 0]);
}

/// The escape sequences that set colours and the like.
fn colours(log: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(log)
        .split("\x1b[")
        .skip(1)
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            rest[end..]
                .starts_with('m')
                .then(|| rest[..=end].to_owned())
        })
        .collect()
}

#[test]
fn thinking_can_be_hidden() {
    let program = Program::new();
    let mut terminal = start(&program, &["-r", "low", "--hide-thinking", "Hello!"], &[]);
    assert_eq!(terminal.wait(), 0);
    assert_eq!(terminal.find("thinking"), None, "{}", terminal.contents());
}

/// Eight thousand times this takes a while to read on any machine.
const LONG: &str = "The quick brown fox jumps over the lazy dog. ";

/// Goes on until something stops it.
const ENDLESS: [&str; 2] = ["--raw", "1, 2, 3,"];

#[test]
fn ctrl_c_stops_the_answer_and_keeps_what_was_made() {
    let program = Program::new();
    let mut terminal = start(&program, &ENDLESS, &[]);
    terminal.wait_for_text(", , , , ");
    terminal.send("\x03");
    assert_eq!(terminal.wait(), 130);
    let contents = terminal.contents();
    assert!(contents.contains(", , , , "), "{contents}");
    assert!(contents.contains("(cancelled)"), "{contents}");
}

#[test]
fn ctrl_c_stops_the_reading_of_a_prompt() {
    let program = Program::new();
    let file = program.file("long.txt", LONG.repeat(8000));
    let mut terminal = start(&program, &["--prompt", file], &[]);
    terminal.wait_for_text("reading the prompt");
    // A speed and a time left as soon as there are any.
    terminal.wait_for_text(" tok/s, ");
    terminal.send("\x03");
    assert_eq!(terminal.wait(), 130);
    let contents = terminal.contents();
    assert!(contents.contains("0 tokens (cancelled)"), "{contents}");
    assert!(!contents.contains("reading the prompt"), "{contents}");
}

#[test]
fn a_terminated_run_keeps_what_was_made() {
    let program = Program::new();
    let mut terminal = start(&program, &ENDLESS, &[]);
    terminal.wait_for_text(", , , , ");
    kill(Pid::from_raw(terminal.process_id()), Signal::SIGTERM).unwrap();
    assert_eq!(terminal.wait(), 143);
    assert!(
        terminal.contents().contains("(cancelled)"),
        "{}",
        terminal.contents()
    );
}

#[test]
fn a_ctrl_c_that_a_program_in_between_sends_again_is_one() {
    let program = Program::new();
    let mut terminal = start(&program, &ENDLESS, &[]);
    terminal.wait_for_text(", , , , ");
    terminal.send("\x03");
    let _ = kill(Pid::from_raw(terminal.process_id()), Signal::SIGINT);
    assert_eq!(terminal.wait(), 130);
    let contents = terminal.contents();
    assert!(contents.contains("(cancelled)"), "{contents}");
}

#[test]
fn json_is_whole_after_ctrl_c() {
    let program = Program::new();
    let file = program.file("long.txt", LONG.repeat(8000));
    let mut terminal = start(&program, &["--json", "--prompt", file], &[]);
    terminal.wait_for_text("reading the prompt");
    terminal.send("\x03");
    assert_eq!(terminal.wait(), 130);
    let contents = terminal.contents();
    assert!(
        contents.contains("\"finish_reason\":\"cancelled\""),
        "{contents}"
    );
}

#[test]
fn a_terminal_is_not_read_unless_asked_for() {
    let program = Program::new();
    let mut terminal = start(&program, &[], &[]);
    assert_eq!(terminal.wait(), 2);
    let contents = terminal.contents();
    assert!(contents.contains("error: there is no prompt"), "{contents}");

    let mut terminal = start(&program, &["-r", "low", "--prompt", "-"], &[]);
    terminal.send("What is the capital of France?\r\x04");
    assert_eq!(terminal.wait(), 0);
    let contents = terminal.contents();
    assert!(
        contents.contains("The capital of France is Paris."),
        "{contents}"
    );
}

#[test]
fn the_answer_can_be_piped_while_thinking_stays_on_the_terminal() {
    let program = Program::new();
    let line = "$GPTOSS run --model tiny -t 0 -r low 'Hello!' | cat > answer.txt; echo done";
    let mut terminal = Terminal::shell(program.home.path(), line);
    terminal.wait_for_text("done");
    assert_eq!(terminal.wait(), 0);
    assert_eq!(
        program.read("answer.txt"),
        "Hello! How can I help you today?\n"
    );
    assert!(terminal.is_dim("thinking: The user sends a greeting."));
}

#[test]
fn text_of_the_model_cannot_command_the_terminal() {
    let program = Program::new();
    // An error quotes a file name that would colour and clear the screen.
    let mut terminal = start(&program, &["--prompt", "\u{1b}[31m\u{1b}[2Jx\u{9b}2J"], &[]);
    assert_eq!(terminal.wait(), 1);
    assert!(
        terminal.contents().contains("cannot read `x`"),
        "{}",
        terminal.contents()
    );
}
