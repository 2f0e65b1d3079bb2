//! What cannot work is said before the screen is taken.

use std::path::Path;

use super::TINY;
use crate::program::Program;
use crate::pty::Terminal;
use crate::pull::Fixture;

/// What `gptoss chat` says in place of a screen, and its exit code.
fn refused(program: &Program, args: &[&str], variables: &[(&str, &str)]) -> String {
    let all: Vec<&str> = [&["chat"], args].concat();
    said(
        program,
        Terminal::start(program.home.path(), &all, variables),
    )
}

fn said(program: &Program, mut terminal: Terminal) -> String {
    let code = terminal.wait();
    let log = String::from_utf8_lossy(&terminal.log);
    assert!(!log.contains("\x1b[?1049h"), "the screen was taken: {log}");
    let home = program.home.path().display().to_string();
    let contents = terminal.contents().replace(&home, "[home]");
    format!("{code}: {}", unwrapped(contents.trim_end()))
}

/// Paragraphs as they were before they were broken between words, which depends on where the home is.
fn unwrapped(text: &str) -> String {
    let paragraphs = text.split("\n\n");
    let lines: Vec<_> = paragraphs.map(|text| text.replace('\n', " ")).collect();
    lines.join("\n\n")
}

#[test]
fn what_is_said_is_broken_between_words() {
    let program = Program::new();
    let mut terminal = Terminal::start(
        program.home.path(),
        &["chat", "--model", "tiny", "--session", "x"],
        &[("TERM", "dumb")],
    );
    assert_eq!(terminal.wait(), 2);
    let contents = terminal.contents();
    assert!(
        contents
            .contains("TERM=xterm-256color gptoss chat;\n`gptoss run` answers one prompt anywhere"),
        "{contents}"
    );
}

#[test]
fn a_context_that_the_model_does_not_have() {
    let program = Program::new();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny");
    for model in ["tiny", assets.to_str().unwrap()] {
        let args = ["--model", model, "--context", "131073"];
        insta::allow_duplicates!(insta::assert_snapshot!(refused(&program, &args, &[]), @"
        2: error: --context 131073 is more than the 131072 positions of this model

        hint: give at most 131072, or leave --context out
        "));
    }
    let args = ["--model", "tiny", "--context", "0"];
    insta::assert_snapshot!(refused(&program, &args, &[]), @"
    2: error: invalid value '0' for '--context <TOKENS>': expected a whole number from 1 on

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&program, &[], &[("GPTOSS_MODEL", "tiny"), ("GPTOSS_CONTEXT", "200000")]), @"
    2: error: GPTOSS_CONTEXT=200000 is more than the 131072 positions of this model

    hint: give at most 131072, or leave GPTOSS_CONTEXT out
    ");
}

#[test]
fn a_context_that_a_model_in_the_cache_does_not_have() {
    let fixture = Fixture::tiny();
    fixture.download().unwrap();
    let program = Program::new();
    let cache = fixture.home.path().to_str().unwrap();
    let variables = [("HF_HOME", cache), ("HF_HUB_OFFLINE", "1")];
    insta::assert_snapshot!(refused(&program, &["--context", "131073"], &variables), @"
    2: error: --context 131073 is more than the 131072 positions of this model

    hint: give at most 131072, or leave --context out
    ");
}

#[test]
fn a_model_that_is_none() {
    let program = Program::new();
    program.file("model.gguf", "GGUF");
    std::fs::create_dir(program.home.path().join("empty")).unwrap();
    let said: Vec<String> = ["./nowhere", "./model.gguf", "./empty", "21b"]
        .iter()
        .map(|model| refused(&program, &["--model", model], &[]))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @"
    1: error: --model: `./nowhere` does not exist; name the directory that holds config.json and the .safetensors files
    1: error: --model: `./model.gguf` is a checkpoint in GGUF form, which is not supported; get the published safetensors files (config.json, model.safetensors.index.json and its shards of openai/gpt-oss-20b or -120b)
    1: error: --model: `./empty` has no config.json; name the directory of a gpt-oss checkpoint, or fetch config.json too
    2: error: invalid value '21b' for '--model <MODEL>': `21b` names no model: no such directory, and a name on the hub has an owner; accepted are `20b`, `120b`, `tiny`, a directory with a checkpoint, and `owner/name[@revision]`

    For more information, try '--help'.
    ");
}

#[test]
fn a_recording_that_cannot_be_played() {
    let program = Program::new();
    program.file("malformed.jsonl", "{\"id\": 1}\n{\"id\": 99999}\n");
    let said: Vec<String> = ["nowhere.jsonl", "malformed.jsonl", ".", "-"]
        .iter()
        .map(|file| refused(&program, &["--model", "tiny", "--replay", file], &[]))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @"
    1: error: --replay `nowhere.jsonl`: cannot read `nowhere.jsonl`: No such file or directory (os error 2)
    1: error: --replay `malformed.jsonl`: line 2 of the recording: 99999 is no id of a vocabulary of 2944
    1: error: --replay `.`: cannot read `.`: Is a directory (os error 21)
    2: error: the recording cannot be read from standard input, which is the keyboard here

    hint: give a file
    ");
}

#[test]
fn a_configuration_that_cannot_be_read() {
    let program = Program::new();
    let directory = program.home.path().join(".config/gptoss");
    std::fs::create_dir_all(directory.join("config.toml")).unwrap();
    insta::assert_snapshot!(refused(&program, &TINY[1..], &[]), @"
    1: error: cannot read the configuration `[home]/.config/gptoss/config.toml`: Is a directory (os error 21)

    hint: `gptoss config --paths` says where it is looked for
    ");
    program.file("latin.toml", b"system = \"gr\xfc\xdf dich\"");
    insta::assert_snapshot!(refused(&program, &TINY[1..], &[("GPTOSS_CONFIG", "latin.toml")]), @"
    1: error: cannot read the configuration `latin.toml`: stream did not contain valid UTF-8

    hint: `gptoss config --paths` says where it is looked for
    ");
}

#[test]
fn variables_that_mean_nothing() {
    let program = Program::new();
    insta::assert_snapshot!(refused(&program, &TINY[1..], &[("GPTOSS_TEMPRATURE", "0")]), @"
    2: error: the environment variable GPTOSS_TEMPRATURE: there is no such setting; GPTOSS_TEMPERATURE is the nearest

    hint: `gptoss config` prints every setting with its default
    ");
}

#[test]
fn a_terminal_that_cannot_move_its_cursor() {
    let program = Program::new();
    let said: Vec<String> = ["TERM=dumb; ", "TERM=; ", "unset TERM; "]
        .iter()
        .map(|first| {
            let line = format!("{first} exec $GPTOSS chat --model tiny");
            said(&program, Terminal::shell(program.home.path(), &line))
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"), @"
    2: error: a chat needs a terminal that can move its cursor, and TERM is `dumb`

    hint: if this one can, say what it is: TERM=xterm-256color gptoss chat; `gptoss run` answers one prompt anywhere
    2: error: a chat needs a terminal that can move its cursor, and TERM is empty

    hint: if this one can, say what it is: TERM=xterm-256color gptoss chat; `gptoss run` answers one prompt anywhere
    2: error: a chat needs a terminal that can move its cursor, and TERM is not set

    hint: if this one can, say what it is: TERM=xterm-256color gptoss chat; `gptoss run` answers one prompt anywhere
    ");
}
