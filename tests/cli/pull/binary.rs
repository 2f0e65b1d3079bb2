//! `gptoss pull` itself.

use std::process::Output;

use assert_cmd::Command;

use super::*;

fn pull(fixture: &Fixture, name: &str, more: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::cargo_bin("gptoss").unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .env_clear()
        .envs(fixture.vars())
        .envs(more.iter().copied())
        .args(["pull", name])
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn pull_prints_the_snapshot_and_one_line_for_each_file() {
    let fixture = Fixture::new();
    let (code, stdout, stderr) = pull(&fixture, "20b", &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, format!("{}\n", fixture.snapshot(COMMIT).display()));
    assert_eq!(
        stderr,
        "fetching config.json (25 bytes)\n\
         fetching generation_config.json (19 bytes)\n\
         fetching tokenizer.json (18 bytes)\n\
         fetching model.safetensors.index.json (182 bytes)\n\
         fetching model-00000-of-00002.safetensors (300.1 kB)\n\
         fetching model-00001-of-00002.safetensors (200.1 kB)\n\
         fetching model-00002-of-00002.safetensors (100.1 kB)\n"
    );
    fixture.assert_complete(COMMIT);
}

#[test]
fn a_second_pull_says_so_and_asks_nobody() {
    let fixture = Fixture::new();
    fixture.download().unwrap();
    fixture.server.take_log();
    let (code, stdout, stderr) = pull(&fixture, "20b", &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, format!("{}\n", fixture.snapshot(COMMIT).display()));
    assert_eq!(stderr, "openai/gpt-oss-20b is already complete\n");
    assert_eq!(fixture.server.take_log(), Vec::<String>::new());
}

#[test]
fn a_pull_that_broke_off_says_from_where_it_goes_on() {
    let fixture = Fixture::new();
    fixture.server.set(|hub| hub.budget = Some(180_000));
    fixture.download().unwrap_err();
    fixture.server.set(|hub| hub.budget = None);
    let (code, _, stderr) = pull(&fixture, "20b", &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.starts_with(
            "fetching model-00000-of-00002.safetensors (300.1 kB, from byte 180000)\n"
        ),
        "{stderr}"
    );
}

#[test]
fn a_pull_that_fails_exits_with_the_reason_and_prints_no_path() {
    let fixture = Fixture::new();
    let (code, stdout, stderr) = pull(&fixture, "openai/gpt-oss-21b", &[]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(
        stderr.contains("there is no `openai/gpt-oss-21b@main` at http://"),
        "{stderr}"
    );

    let (code, stdout, stderr) = pull(&fixture, "21b", &[]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("`21b` names no model"), "{stderr}");

    let (code, stdout, stderr) = pull(&fixture, "./here", &[]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("`./here` is a path"), "{stderr}");
}

#[test]
fn the_toy_needs_no_pull() {
    let fixture = Fixture::new();
    let (code, stdout, stderr) = pull(&fixture, "tiny", &[]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert_eq!(
        stderr,
        "tiny is part of the program; there is nothing to fetch\n"
    );
    assert_eq!(fixture.server.take_log(), Vec::<String>::new());
}
