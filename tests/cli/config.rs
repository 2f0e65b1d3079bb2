//! `gptoss config`, and what the other commands make of flags, environment and configuration file.

use serde_json::Value;

use crate::program::{Program, transcript};

/// Writes the configuration where it is looked for.
fn configure(program: &Program, text: &str) {
    let directory = program.home.path().join(".config/gptoss");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), text).unwrap();
}

/// `gptoss run --json` without any flag that the configuration could mean, and `args`.
fn run(program: &Program, variables: &[(&str, &str)], args: &[&str]) -> Value {
    let mut command =
        program.command(&["run", "--json", "--quiet", "--current-date", "2025-06-28"]);
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.args(args).arg("Hello!").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// The transcript of `gptoss info` with the home directory taken out.
fn info(program: &Program, variables: &[(&str, &str)]) -> String {
    let mut command = program.command(&["info"]);
    for (name, value) in variables {
        command.env(name, value);
    }
    let home = program.home.path().display().to_string();
    transcript(&mut command).replace(&home, "[home]")
}

#[test]
fn says_where_files_are() {
    let program = Program::new();
    configure(&program, "this is no TOML");
    let home = program.home.path().display().to_string();
    let text = transcript(&mut program.command(&["config", "--paths"])).replace(&home, "[home]");
    insta::assert_snapshot!(text, @"
    exit code: 0
    ----- stdout -----
    configuration  [home]/.config/gptoss/config.toml
    sessions       [home]/.local/state/gptoss/sessions (not there)
    cache          [home]/.cache/gptoss (not there)
    ----- stderr -----
    ");
    let mut command = program.command(&["config", "--paths"]);
    command.env("GPTOSS_CONFIG", "/my/gptoss.toml");
    command.env("GPTOSS_STATE_DIR", "/my/state");
    command.env("GPTOSS_CACHE_DIR", "/my/cache");
    insta::assert_snapshot!(transcript(&mut command), @"
    exit code: 0
    ----- stdout -----
    configuration  /my/gptoss.toml (not there)
    sessions       /my/state/sessions (not there)
    cache          /my/cache (not there)
    ----- stderr -----
    ");
}

#[test]
fn what_it_prints_is_a_configuration_that_changes_nothing() {
    let program = Program::new();
    let output = program.command(&["config"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("# Paths in use:\n#   configuration  /"),
        "{text}"
    );
    assert!(
        text.ends_with(include_str!("../../assets/config.toml")),
        "{text}"
    );
    let args = ["--model", "tiny", "--temperature", "0"];
    let ids = |answer: Value| answer["token_ids"].clone();
    let before = ids(run(&program, &[], &args));
    configure(&program, &text);
    assert_eq!(ids(run(&program, &[], &args)), before);
}

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let program = Program::new();
    configure(
        &program,
        "model = \"tiny\"\nseed = 1\nmax-tokens = 3\nreasoning = \"low\"\ncontext = 2000\n",
    );
    let seed = |answer: &Value| answer["stats"]["seed"].as_u64();
    let tokens = |answer: &Value| answer["stats"]["generated_tokens"].as_u64();
    let file = run(&program, &[], &[]);
    assert_eq!((seed(&file), tokens(&file)), (Some(1), Some(3)));
    let variables = [("GPTOSS_SEED", "2"), ("GPTOSS_MAX_TOKENS", "")];
    let environment = run(&program, &variables, &[]);
    assert_eq!(
        (seed(&environment), tokens(&environment)),
        (Some(2), Some(3))
    );
    let flags = run(&program, &variables, &["--seed", "3", "--max-tokens", "4"]);
    assert_eq!((seed(&flags), tokens(&flags)), (Some(3), Some(4)));
}

#[test]
fn configured_instructions_are_those_of_the_flag() {
    let program = Program::new();
    let base = ["--model", "tiny", "--temperature", "0"];
    let flag = [&base[..], &["--system", "Be brief."]].concat();
    let prompt = |answer: &Value| answer["stats"]["prompt_tokens"].clone();
    let without = run(&program, &[], &base);
    let with = run(&program, &[], &flag);
    assert_ne!(prompt(&with), prompt(&without));

    configure(&program, "system = \"Be brief.\"\n");
    let configured = run(&program, &[], &base);
    assert_eq!(prompt(&configured), prompt(&with));
    assert_eq!(configured["token_ids"], with["token_ids"]);
    let other = "Be as long-winded as you can.";
    let flag = [&base[..], &["--system", other]].concat();
    assert_ne!(prompt(&run(&program, &[], &flag)), prompt(&with));
    // Without the chat format there are no instructions; that they are configured is no conflict.
    let raw = run(&program, &[], &[&base[..], &["--raw", "-n", "2"]].concat());
    assert_eq!(raw["stats"]["generated_tokens"], 2);
}

#[test]
fn info_follows_the_configuration() {
    let program = Program::new();
    configure(
        &program,
        "model = \"tiny\"\ncontext = 512\nkv-type = \"f32\"\n",
    );
    let facts = |args: &[&str]| -> Value {
        let output = program.command(args).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let configured = facts(&["info", "--json"]);
    let flags = facts(&[
        "info",
        "--json",
        "--model",
        "tiny",
        "--context",
        "512",
        "--kv-type",
        "f32",
    ]);
    assert_eq!(configured["context"], 512);
    assert_eq!(configured["history_bytes"], flags["history_bytes"]);
    assert_eq!(
        facts(&["info", "--json", "--context", "100"])["context"],
        100
    );
}

#[test]
fn a_wrong_configuration_is_an_error_that_says_where() {
    let program = Program::new();
    configure(
        &program,
        "model = \"tiny\"\nmaxtokens = 3\ntop-k = \"all\"\n",
    );
    insta::assert_snapshot!(info(&program, &[]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[home]/.config/gptoss/config.toml`, line 2: there is no setting `maxtokens`: expected model, system, reasoning, temperature, top-k, top-p, min-p, repetition-penalty, seed, max-tokens, context, kv-type, device, gpu-layers, gpu-memory, compute, dense, kernels, threads, theme, mouse, save or show-thinking

    hint: `gptoss config` prints every setting with its default
    ");
    configure(&program, "");
    insta::assert_snapshot!(info(&program, &[("GPTOSS_CONTEXT", "8k")]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the environment variable GPTOSS_CONTEXT: `context` is `8k`, expected a whole number from 1 on

    hint: `gptoss config` prints every setting with its default
    ");
    insta::assert_snapshot!(info(&program, &[("GPTOSS_MODEL", "20x")]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the `model` that is configured cannot be used: `20x` names no model: no such directory, and a name on the hub has an owner; accepted are `20b`, `120b`, `tiny`, a directory with a checkpoint, and `owner/name[@revision]`
    ");
    let context = [("GPTOSS_MODEL", "tiny"), ("GPTOSS_CONTEXT", "200000")];
    insta::assert_snapshot!(info(&program, &context), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: GPTOSS_CONTEXT=200000 is more than the 131072 positions of this model

    hint: give at most 131072, or leave GPTOSS_CONTEXT out
    ");
    configure(&program, "context = 200000\n");
    insta::assert_snapshot!(info(&program, &context[..1]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `context = 200000` in the configuration is more than the 131072 positions of this model

    hint: give at most 131072, or leave `context` out
    ");
}

#[test]
fn a_configuration_that_cannot_be_read_is_an_error() {
    let program = Program::new();
    let path = program.home.path().join("missing.toml");
    let missing = info(&program, &[("GPTOSS_CONFIG", path.to_str().unwrap())]);
    insta::assert_snapshot!(missing, @r"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot read the configuration `[home]/missing.toml`: No such file or directory (os error 2)

    hint: `gptoss config --paths` says where it is looked for
    ");
    std::fs::create_dir_all(program.home.path().join(".config/gptoss/config.toml")).unwrap();
    assert!(info(&program, &[]).contains("cannot read the configuration"));
}

#[test]
fn info_counts_the_8_bit_weights_that_are_configured() {
    let program = Program::new();
    let info = |dense: &str| -> Value {
        let mut command =
            program.command(&["info", "--model", "tiny", "--context", "4096", "--json"]);
        let output = command.env("GPTOSS_DENSE", dense).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // Rows of 192 are six blocks of 34 bytes, those of 256, of the output of attention, eight.
    let copy = (6 * (256 + 2 * 128) + 2 * 2944) * 6 * 34 + 6 * 192 * 8 * 34;
    assert_eq!(info("q8")["dense_copy_bytes"], copy);
    assert_eq!(info("bf16").get("dense_copy_bytes"), None);
    let needed = |facts: &Value| facts["needed_bytes"].as_u64().unwrap();
    assert_eq!(needed(&info("q8")), needed(&info("bf16")) + copy);
}
