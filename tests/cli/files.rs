//! `gptoss run`: prompts and answers in files and pipes.

use std::io::Read;
use std::process::Stdio;

use crate::program::Program;

const QUESTION: &str = "What is the capital of France?";
const ANSWER: &str = "The capital of France is Paris.\n";

/// The answer to a prompt that comes as a file of these bytes.
fn answer_to(bytes: &[u8]) -> String {
    let program = Program::new();
    let file = program.file("prompt.txt", bytes);
    let output = program
        .run(&["-q", "-r", "low", "--prompt", file])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn marks_carriage_returns_and_the_last_line_break_of_a_file_do_not_reach_the_model() {
    for content in [
        QUESTION.to_owned(),
        format!("{QUESTION}\n"),
        format!("{QUESTION}\r\n"),
        format!("\u{feff}{QUESTION}\n"),
    ] {
        assert_eq!(answer_to(content.as_bytes()), ANSWER, "{content:?}");
    }
}

#[test]
fn a_prompt_comes_from_standard_input_when_asked_for_or_when_there_is_no_other() {
    let program = Program::new();
    for args in [&["--prompt", "-"][..], &["-"], &[]] {
        let output = program
            .run(&["-q", "-r", "low"])
            .args(args)
            .write_stdin(format!("{QUESTION}\n"))
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            ANSWER,
            "{args:?}"
        );
    }
}

#[test]
fn an_argument_is_the_prompt_and_standard_input_is_not_read() {
    let program = Program::new();
    let output = program
        .run(&["-q", "-r", "low", QUESTION])
        .write_stdin("What is the capital of Spain?")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ANSWER);
}

#[test]
fn refuses_a_file_that_is_not_text() {
    let program = Program::new();
    let file = program.file("latin1.txt", b"caf\xe9");
    assert_transcript!(program.run(&["--prompt", file]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `latin1.txt` is not UTF-8: byte 0xe9 at offset 3

    hint: save it as UTF-8
    ");
    let file = program.file("utf16.txt", b"\xff\xfea\0");
    assert_transcript!(program.run(&["--prompt", file]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `utf16.txt` is not UTF-8: byte 0xff at offset 0

    hint: it begins like UTF-16: save it as UTF-8
    ");
    assert_transcript!(program.run(&["-"]).write_stdin(&b"ab\xc3"[..]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: standard input is not UTF-8: byte 0xc3 at offset 2

    hint: save it as UTF-8
    ");
}

#[test]
fn refuses_a_file_without_text() {
    let program = Program::new();
    let file = program.file("empty.txt", "\n");
    assert_transcript!(program.run(&["--prompt", file]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `empty.txt` is empty

    hint: put some text into it
    ");
    assert_transcript!(program.run(&["--prompt", "missing.txt"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot read `missing.txt`: No such file or directory (os error 2)

    hint: --prompt takes a file; give the text itself as an argument
    ");
    assert_transcript!(program.run(&["--prompt", "."]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot read `.`: Is a directory (os error 21)
    ");
    assert_transcript!(program.run(&[]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: standard input is empty

    hint: pipe some text in, or give it as an argument or with `--prompt FILE`
    ");
}

#[test]
fn instructions_come_from_a_file_too() {
    let program = Program::new();
    let system = program.file(
        "system.txt",
        "\u{feff}End every answer with the word meow.\r\n",
    );
    let with = |args: &[&str]| {
        let output = program
            .run(&["-q", "-r", "low", "--json", "What is the opposite of hot?"])
            .args(args)
            .output()
            .unwrap();
        let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        made["stats"]["prompt_tokens"].clone()
    };
    assert_eq!(
        with(&["--system-file", system]),
        with(&["--system", "End every answer with the word meow."])
    );
    assert_transcript!(
        program.run(&["--system-file", "-", "--prompt", "-"]).write_stdin("x"),
        @"
        exit code: 2
        ----- stdout -----
        ----- stderr -----
        error: the prompt and the system prompt cannot both be read from standard input

        hint: give one of them as a file or as text
        "
    );
}

#[test]
fn instructions_that_are_none_are_named_as_such() {
    let program = Program::new();
    assert_transcript!(program.run(&["--system", "", "Hello!"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: the system prompt is empty

    hint: give some text, or leave --system out
    ");
    assert_transcript!(program.run(&["--system-file", "Be brief.", "Hello!"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot read `Be brief.`: No such file or directory (os error 2)

    hint: --system-file takes a file; give the text itself with --system
    ");
    assert_transcript!(program.run(&["--system-file", "-", "Hello!"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: standard input is empty

    hint: pipe some text in, or give it with --system
    ");
}

#[test]
fn standard_input_is_read_for_one_thing() {
    let program = Program::new();
    assert_transcript!(program.run(&["--tools", "-"]).write_stdin("[]"), @"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the prompt and the list of tools cannot both be read from standard input

    hint: give one of them as a file or as text
    ");
    assert_transcript!(program.run(&["--raw", "--prompt-ids", "-"]).write_stdin("[]"), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: standard input is empty

    hint: pipe it in, or name a file
    ");
}

#[test]
fn refuses_tools_that_are_none() {
    let program = Program::new();
    let file = program.file(
        "tools.json",
        r#"[{"type": "function", "function": {"name": 5}}]"#,
    );
    assert_transcript!(program.run(&["--tools", file, "Hello!"]), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `tools.json`: tool 0: `function.name` must be a string of letters, digits, `_`, `-` and `.`, found 5

    hint: tools are a JSON list of {"type": "function", "function": {"name", "description", "parameters"}}
    "#);
    let file = program.file("tools.json", "no json");
    assert_transcript!(program.run(&["--tools", file, "Hello!"]), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `tools.json`: the tools are not valid JSON: expected ident at line 1 column 2

    hint: tools are a JSON list of {"type": "function", "function": {"name", "description", "parameters"}}
    "#);
}

#[test]
fn refuses_token_ids_that_are_none() {
    let program = Program::new();
    let file = program.file("ids.txt", "1, 2, three");
    assert_transcript!(program.run(&["--raw", "--prompt-ids", file]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `ids.txt`: entry 3 is `three`, not a token id

    hint: token ids are whole numbers, separated by commas or white space
    ");
    let file = program.file("ids.txt", "1 2 999999");
    assert_transcript!(program.run(&["--raw", "--prompt-ids", file, "-q"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: token id 999999 is outside the vocabulary, expected 0 to 2943
    ");
}

#[test]
fn the_answer_can_go_to_a_file() {
    let program = Program::new();
    program.file(
        "answer.txt",
        "an older answer, which is longer than the new one will be",
    );
    let output = program
        .run(&["-q", "-r", "low", "--output", "answer.txt", QUESTION])
        .output()
        .unwrap();
    assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
    assert_eq!(program.read("answer.txt"), ANSWER);
}

#[test]
fn a_dash_is_standard_output() {
    let program = Program::new();
    let output = program
        .run(&["-q", "-r", "low", "--output", "-", QUESTION])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ANSWER);
    assert!(!program.home.path().join("-").exists());
}

#[test]
fn a_file_that_cannot_be_written_is_known_before_the_model_is_looked_for() {
    let program = Program::new();
    // The 20b is not here: the first error is about the file.
    let args = ["run", "--output", "no/such/directory.txt", "Hello!"];
    assert_transcript!(program.command(&args), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot write `no/such/directory.txt`: No such file or directory (os error 2)
    ");
}

#[test]
fn a_run_that_fails_leaves_the_old_answer_and_no_new_file() {
    let program = Program::new();
    program.file("answer.txt", "old");
    for name in ["answer.txt", "new.txt"] {
        let args = ["--output", name, "--context", "3", "Hello!"];
        let output = program.run(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
    }
    assert_eq!(program.read("answer.txt"), "old");
    assert!(!program.home.path().join("new.txt").exists());
}

#[test]
fn no_escape_codes_reach_a_pipe() {
    let program = Program::new();
    let output = program
        .run(&["--show-thinking", "-r", "low", "Hello!"])
        .env("CLICOLOR_FORCE", "1")
        .output()
        .unwrap();
    assert!(!output.stdout.contains(&0x1b));
    assert!(!output.stderr.contains(&0x1b));
}

#[test]
fn a_closed_pipe_ends_quietly_and_stops_the_model() {
    let program = Program::new();
    // It would go on for 100,000 tokens.
    let args = ["--raw", "--max-tokens", "100000", "1, 2, 3,"];
    let template = program.run(&args);
    let mut command = std::process::Command::new(template.get_program());
    command.args(template.get_args()).env_clear();
    let mut child = command
        .current_dir(program.home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 8];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let stderr = String::from_utf8(output.stderr).unwrap();
    // The loop may have been noticed before the pipe closed.
    let other: Vec<&str> = stderr
        .lines()
        .filter(|line| !line.starts_with("warning: the output repeats itself"))
        .collect();
    assert_eq!(other, [""; 0]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let program = Program::new();
    assert_transcript!(program.run(&["-q", "--output", "/dev/full", "Hello!"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot write `/dev/full`: No space left on device (os error 28)
    ");
}
