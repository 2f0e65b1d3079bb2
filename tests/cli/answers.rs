//! `gptoss run`: what it answers, against the goldens of the built-in model.

use serde_json::{Value, json};

use crate::program::{Program, transcript};

/// A golden of the model: prompt, greedy continuation up to the stop.
struct Golden {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
}

fn golden(name: &str) -> Golden {
    let goldens: Value =
        serde_json::from_str(include_str!("../goldens/model/model_goldens.json")).unwrap();
    let items = goldens["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["name"] == name).unwrap();
    let ids = |key: &str| serde_json::from_value::<Vec<u32>>(item[key].clone()).unwrap();
    let mut greedy = ids("greedy");
    greedy.truncate(item["stop_at"].as_u64().unwrap() as usize);
    Golden {
        prompt: ids("ids"),
        greedy,
    }
}

fn json(program: &Program, args: &[&str]) -> Value {
    let output = program
        .run(args)
        .args(["--json", "--quiet"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_answer_goes_to_stdout_and_the_figures_to_stderr() {
    let program = Program::new();
    assert_transcript!(program.run(&["--reasoning", "low", "--seed", "1234567", "Hello!"]), @"
    exit code: 0
    ----- stdout -----
    Hello! How can I help you today?
    ----- stderr -----
    prompt   68 tokens: 0 reused, 68 read at [rate] tok/s
    output   25 tokens at [rate] tok/s (stop)
    time     load [time] s, first token after [time] s, peak memory [size]
    run      seed [seed], cpu ([kernels])
    ");
}

#[test]
fn quiet_leaves_nothing_but_the_answer() {
    let program = Program::new();
    assert_transcript!(program.run(&["--quiet", "-r", "low", "Hello!"]), @"
    exit code: 0
    ----- stdout -----
    Hello! How can I help you today?
    ----- stderr -----
    ");
}

#[test]
fn thinking_is_shown_on_stderr_when_asked_for() {
    let program = Program::new();
    assert_transcript!(program.run(&["--show-thinking", "-r", "low", "--quiet", "Hello!"]), @"
    exit code: 0
    ----- stdout -----
    Hello! How can I help you today?
    ----- stderr -----
    thinking: The user sends a greeting.
    ");
}

#[test]
fn answers_are_those_of_the_reference() {
    let program = Program::new();
    let cases: [(&str, &[&str]); 6] = [
        ("hello", &["-r", "low", "Hello!"]),
        (
            "capital_low",
            &["-r", "low", "What is the capital of France?"],
        ),
        (
            "capital_high",
            &["-r", "high", "What is the capital of Japan?"],
        ),
        ("arith_medium", &["What is 7 + 5?"]),
        ("chinese", &["-r", "low", "你好"]),
        (
            "developer",
            &[
                "-r",
                "low",
                "--system",
                "End every answer with the word meow.",
                "What is the opposite of hot?",
            ],
        ),
    ];
    for (name, args) in cases {
        let golden = golden(name);
        let made = json(&program, args);
        assert_eq!(made["token_ids"], json!(golden.greedy), "{name}");
        assert_eq!(
            made["stats"]["prompt_tokens"],
            json!(golden.prompt.len()),
            "{name}"
        );
    }
}

#[test]
fn token_ids_can_be_given_instead_of_text() {
    let program = Program::new();
    for name in ["hello", "len_129", "recall_300"] {
        let golden = golden(name);
        let listed: Vec<String> = golden.prompt.iter().map(u32::to_string).collect();
        let file = program.file("ids.txt", listed.join(", "));
        let made = json(&program, &["--raw", "--prompt-ids", file]);
        assert_eq!(made["token_ids"], json!(golden.greedy), "{name}");
        assert_eq!(made["thinking"], json!(""));
    }
    // A JSON list is what `--json` gives; standard input will do.
    let golden = golden("hello");
    let output = program
        .run(&["--raw", "--prompt-ids", "-", "--json", "--quiet"])
        .write_stdin(json!(golden.prompt).to_string())
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["token_ids"], json!(golden.greedy));
}

#[test]
fn json_has_exactly_these_fields() {
    let program = Program::new();
    let made = json(&program, &["-r", "low", "--seed", "7", "Hello!"]);
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        keys(&made),
        [
            "text",
            "thinking",
            "tool_calls",
            "finish_reason",
            "token_ids",
            "stats"
        ]
    );
    assert_eq!(
        keys(&made["stats"]),
        [
            "load_seconds",
            "prompt_tokens",
            "cached_tokens",
            "prefill_tokens_per_second",
            "ttft_seconds",
            "generated_tokens",
            "decode_tokens_per_second",
            "peak_rss_bytes",
            "seed",
            "device"
        ]
    );
    assert_eq!(made["text"], "Hello! How can I help you today?");
    assert_eq!(made["thinking"], "The user sends a greeting.");
    assert_eq!(made["tool_calls"], json!([]));
    assert_eq!(made["finish_reason"], "stop");
    assert_eq!(made["stats"]["seed"], 7);
    assert_eq!(made["stats"]["cached_tokens"], 0);
    let greedy = golden("hello").greedy.len();
    assert_eq!(made["stats"]["generated_tokens"], json!(greedy));
    for figure in [
        "load_seconds",
        "prefill_tokens_per_second",
        "ttft_seconds",
        "decode_tokens_per_second",
        "peak_rss_bytes",
    ] {
        assert!(made["stats"][figure].as_f64().unwrap() > 0.0, "{figure}");
    }
}

#[test]
fn raw_completes_the_text_as_it_is() {
    let program = Program::new();
    assert_transcript!(
        program.run(&["--raw", "--quiet", "--max-tokens", "12", "1, 2, 3, 4,"]),
        @"
        exit code: 0
        ----- stdout -----
         1, 2, 2, 4,----- stderr -----
        "
    );
    // What looks like a control token is text: the prompt is longer than one token for each.
    let made = json(&program, &["--raw", "-n", "1", "<|start|>user<|message|>"]);
    assert!(
        made["stats"]["prompt_tokens"].as_u64().unwrap() > 10,
        "{made}"
    );
}

const TOOLS: &str = r#"[
  {"type": "function", "function": {
    "name": "get_weather",
    "description": "Gets the current weather in the provided location.",
    "parameters": {"type": "object", "properties": {
      "location": {"type": "string", "description": "The city"}}, "required": ["location"]}}},
  {"type": "function", "function": {
    "name": "get_time",
    "description": "Gets the current time in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
]"#;

#[test]
fn a_tool_call_is_printed_as_json_and_ends_the_run() {
    let program = Program::new();
    let tools = program.file("tools.json", TOOLS);
    let args = [
        "-r",
        "low",
        "--tools",
        tools,
        "What is the weather in Tokyo?",
    ];
    assert_transcript!(program.run(&args).arg("--quiet"), @r#"
    exit code: 0
    ----- stdout -----
    {"name":"get_weather","arguments":{"location":"Tokyo"}}
    ----- stderr -----
    "#);

    let golden = golden("tool_call");
    let made = json(&program, &args);
    assert_eq!(made["token_ids"], json!(golden.greedy));
    assert_eq!(made["stats"]["prompt_tokens"], json!(golden.prompt.len()));
    assert_eq!(made["finish_reason"], "tool_call");
    let call = json!({"name": "get_weather", "arguments": {"location": "Tokyo"}});
    assert_eq!(made["tool_calls"], json!([call]));
}

#[test]
fn a_tool_call_that_is_cut_off_is_reported() {
    let program = Program::new();
    let tools = program.file("tools.json", TOOLS);
    let args = [
        "-r",
        "low",
        "--tools",
        tools,
        "-n",
        "27",
        "What is the weather in Tokyo?",
    ];
    assert_transcript!(program.run(&args).arg("--quiet"), @r#"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: the arguments of the call to `get_weather` are not valid JSON (EOF while parsing a string at line 1 column 14): `{"location": "`; a call that was cut off needs more tokens

    hint: raise --max-tokens, or think less with --reasoning low
    "#);
}

#[test]
fn stopping_inside_the_thinking_says_so() {
    let program = Program::new();
    assert_transcript!(program.run(&["-n", "5", "-q", "Hello!"]), @"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: stopped while thinking (5 tokens): --max-tokens is reached

    hint: raise --max-tokens, or think less with --reasoning low
    ");
    let made = json(&program, &["-n", "5", "Hello!"]);
    assert_eq!(made["text"], "");
    assert_eq!(made["finish_reason"], "length");
}

#[test]
fn a_full_context_ends_the_answer() {
    let program = Program::new();
    let prompt = golden("hello").prompt.len();
    let context = (prompt + 4).to_string();
    assert_transcript!(
        program.run(&["-r", "low", "--context", &context, "-q", "Hello!"]),
        @"
        exit code: 3
        ----- stdout -----
        ----- stderr -----
        error: stopped while thinking (5 tokens): the context of 72 tokens is full

        hint: raise --context, shorten the prompt, or think less with --reasoning low
        "
    );
    let context = (prompt - 1).to_string();
    assert_transcript!(
        program.run(&["-r", "low", "--context", &context, "-q", "Hello!"]),
        @"
        exit code: 1
        ----- stdout -----
        ----- stderr -----
        error: the prompt has 68 tokens and the context holds 67

        hint: shorten it, or give more with --context (at most 131072)
        "
    );
}

#[test]
fn the_same_seed_gives_the_same_text_and_another_one_does_not() {
    let program = Program::new();
    let text = |seed: &str| {
        let args = ["-t", "1.5", "--seed", seed, "-n", "60", "--json", "-q"];
        let mut command = program.command(&["run", "--model", "tiny"]);
        let output = command.args(args).arg("Tell me a story.").output().unwrap();
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        made["token_ids"].clone()
    };
    assert_eq!(text("1"), text("1"));
    assert_ne!(text("1"), text("2"));
    // Without a seed one is drawn, and repeating the run with it repeats the text.
    let args = [
        "run",
        "--model",
        "tiny",
        "-t",
        "1.5",
        "-n",
        "60",
        "--json",
        "-q",
        "Tell me a story.",
    ];
    let output = program.command(&args).output().unwrap();
    let drawn: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        text(&drawn["stats"]["seed"].to_string()),
        drawn["token_ids"]
    );
}

#[test]
fn the_history_may_be_kept_in_either_type() {
    let program = Program::new();
    let args = [
        "run",
        "-m",
        "tiny",
        "-t",
        "0",
        "-r",
        "low",
        "-q",
        "--kv-type",
    ];
    for kv_type in ["bf16", "f32"] {
        let output = transcript(program.command(&args).args([kv_type, "Hello!"]));
        assert!(
            output.contains("Hello! How can I help you today?\n"),
            "{output}"
        );
    }
}

#[test]
fn one_token_is_not_tokens() {
    let program = Program::new();
    assert_transcript!(program.run(&["--raw", "--context", "1", "a"]), @"
    exit code: 0
    ----- stdout -----
    ,----- stderr -----
    prompt   1 token: 0 reused, 1 read at [rate] tok/s
    output   1 token (context)
    time     load [time] s, first token after [time] s, peak memory [size]
    run      seed [seed], cpu ([kernels])
    ");
    assert_transcript!(program.run(&["-q", "-n", "1", "Hello!"]), @"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: stopped while thinking (1 token): --max-tokens is reached

    hint: raise --max-tokens, or think less with --reasoning low
    ");
}

#[test]
fn a_loop_is_warned_about() {
    let program = Program::new();
    let mut command = program.run(&["--raw", "-n", "300", "--output", "out.txt", "a a a a"]);
    assert_transcript!(command, @"
    exit code: 0
    ----- stdout -----
    ----- stderr -----
    warning: the output repeats itself: the same token, 128 times in a row; Ctrl-C stops it, --max-tokens and --repetition-penalty keep it from going on
    prompt   4 tokens: 0 reused, 4 read at [rate] tok/s
    output   300 tokens at [rate] tok/s (length)
    time     load [time] s, first token after [time] s, peak memory [size]
    run      seed [seed], cpu ([kernels])
    ");
}
