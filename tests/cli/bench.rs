//! `gptoss bench` on the built-in model: what it measures, in every form, and what it refuses.

use serde_json::{Value, json};

use crate::program::{Program, transcript};
#[cfg(unix)]
use crate::pty::Terminal;

/// A bench of a moment.
fn bench(args: &[&str]) -> Vec<String> {
    let quick = [
        "bench", "--model", "tiny", "--prompt", "16,600", "--gen", "4",
    ];
    let all = quick.iter().chain(["--depth", "200,0"].iter()).chain(args);
    all.map(|arg| (*arg).to_owned()).collect()
}

/// Standard output of a bench that has nothing else to say.
fn stdout(program: &Program, args: &[String]) -> String {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = program.command(&args).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""));
    String::from_utf8(output.stdout).unwrap()
}

fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap_or_else(|| panic!("{value}"));
    assert!(number > 0.0 && number.is_finite(), "{number}");
    number
}

#[test]
fn json_has_every_figure_under_its_name() {
    let program = Program::new();
    let args = [
        "--json",
        "--repetitions",
        "2",
        "--compute",
        "f32",
        "--dense",
        "q8",
        "--device",
        "cpu",
        "--kernels",
        "portable",
        "--kv-type",
        "f32",
        "--threads",
        "1",
    ];
    let report: Value = serde_json::from_str(&stdout(&program, &bench(&args))).unwrap();
    let keys: Vec<&str> = report
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = "tests interrupted device bandwidth_bytes_per_second load_seconds peak_rss_bytes anonymous_bytes \
                    threads kernels compute dense kv_type";
    assert_eq!(keys.join(" "), expected);
    assert_eq!(
        json!([report["interrupted"], report["device"]]),
        json!([false, "cpu"])
    );
    let choices = ["threads", "kernels", "compute", "dense", "kv_type"].map(|key| &report[key]);
    assert_eq!(json!(choices), json!([1, "portable", "f32", "q8", "f32"]));
    positive(&report["load_seconds"]);
    assert!(positive(&report["bandwidth_bytes_per_second"]) > 1e8);
    if cfg!(target_os = "linux") {
        // 4 MB of weights in 8 bits are its own, the others are mapped.
        let (peak, anonymous) = (&report["peak_rss_bytes"], &report["anonymous_bytes"]);
        assert!(positive(anonymous) > 2e6, "{report}");
        assert!(positive(peak) > positive(anonymous), "{report}");
    }

    let tests = report["tests"].as_array().unwrap();
    let seen: Vec<Value> = tests
        .iter()
        .map(|test| json!([test["kind"], test["tokens"], test["depth"]]))
        .collect();
    let expected = json!([
        ["prefill", 16, 0],
        ["prefill", 600, 0],
        ["decode", 4, 0],
        ["prefill", 16, 200],
        ["prefill", 600, 200],
        ["decode", 4, 200],
    ]);
    assert_eq!(json!(seen), expected);
    for test in tests {
        let keys: Vec<&str> = test
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let expected = "kind tokens depth tokens_per_second spread ceiling_tokens_per_second";
        assert_eq!(keys.join(" "), expected);
        let rate = positive(&test["tokens_per_second"]);
        let spread = test["spread"].as_f64().unwrap();
        assert!((0.0..rate).contains(&spread), "{test}");
        if test["kind"] == "prefill" {
            assert_eq!(test["ceiling_tokens_per_second"], Value::Null);
        }
    }
    // Deeper, a token reads more history.
    let ceiling = |test: &Value| positive(&test["ceiling_tokens_per_second"]);
    assert!(ceiling(&tests[2]) > ceiling(&tests[5]), "{report}");
}

#[test]
fn the_ceiling_is_the_bandwidth_over_the_bytes_of_a_token() {
    let program = Program::new();
    let args = [
        "bench", "--model", "tiny", "--json", "--prompt", "1", "--gen", "1",
    ];
    let args = args
        .iter()
        .chain(["--depth", "0", "--repetitions", "1"].iter());
    let args: Vec<String> = args.map(|arg| (*arg).to_owned()).collect();
    let report: Value = serde_json::from_str(&stdout(&program, &args)).unwrap();
    let bandwidth = positive(&report["bandwidth_bytes_per_second"]);
    let ceiling = positive(&report["tests"][1]["ceiling_tokens_per_second"]);
    // One repetition has no spread.
    assert_eq!(report["tests"][1]["spread"], Value::Null);
    // What `gptoss info` says of the weights, and one key and value in 6 layers of 2 heads of 64 in BF16.
    let bytes = 3_893_904.0 + f64::from(6 * 2 * 64 * 2 * 2);
    let error = bandwidth / ceiling / bytes - 1.0;
    assert!(error.abs() < 1e-9, "{bandwidth} / {ceiling} is not {bytes}");
}

#[test]
fn markdown_is_a_table_with_percentages() {
    let program = Program::new();
    let text = stdout(&program, &bench(&["--markdown", "--routing", "text"]));
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 2 + 6, "{text}");
    assert!(rows.iter().all(|row| row.len() == 8), "{text}");
    assert_eq!(rows[0][..4], ["test", "depth", "tokens/s", "spread"]);
    assert!(
        rows[1]
            .iter()
            .all(|cell| cell.trim_end_matches(':') == "---"),
        "{text}"
    );
    for row in &rows[2..] {
        assert!(row[2].parse::<f64>().unwrap() > 0.0, "{text}");
        let [reads, ceiling, reached, arithmetic] = row[4..] else {
            panic!("{text}")
        };
        if row[0].starts_with("decode") {
            assert!(reads.ends_with(" MB") && arithmetic.is_empty(), "{text}");
            assert!(ceiling.parse::<f64>().unwrap() > 0.0, "{text}");
            let percent = reached.strip_suffix(" %").unwrap();
            assert!(percent.parse::<f64>().unwrap() >= 0.0, "{text}");
        } else {
            assert_eq!([reads, ceiling, reached], [""; 3], "{text}");
            let operations = arithmetic.strip_suffix(" Gop/s").unwrap();
            assert!(operations.parse::<f64>().unwrap() > 0.0, "{text}");
        }
    }
    assert!(text.contains("Random token ids (text)"), "{text}");
}

#[test]
fn the_table_says_what_ran_and_what_is_left_out() {
    let program = Program::new();
    let text = stdout(&program, &bench(&[]));
    for expected in [
        "model       tiny (built in)",
        "run         cpu (candle, ",
        "to the first token after a prompt of 16 tokens",
        " GB/s before, ",
        " GB/s after",
        "tokenisation, sampling and stop tokens are left out",
    ] {
        assert!(text.contains(expected), "no `{expected}`:\n{text}");
    }
    if cfg!(target_os = "linux") {
        assert!(text.contains(" MB mapped, "), "{text}");
        assert!(text.contains(" MB anonymous"), "{text}");
    }
}

#[test]
fn the_defaults_are_cut_down_to_the_context() {
    let program = Program::new();
    let args = ["bench", "--model", "tiny", "--context", "150", "--json"];
    let output = program.command(&args).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "note: left out, the context holds 150 tokens: --prompt 512, --depth 2048\n"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["tests"].as_array().unwrap().len(), 2);
}

/// Standard error of a command line that is refused as one.
fn refused(args: &[&str]) -> String {
    let program = Program::new();
    let args: Vec<&str> = ["bench", "--model", "tiny"]
        .iter()
        .chain(args)
        .copied()
        .collect();
    let output = program.command(&args).output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(2), 0),
        "{args:?}"
    );
    let stderr = String::from_utf8(output.stderr).unwrap();
    stderr.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn refuses_what_cannot_be_measured_with_flag_value_and_range() {
    let refusals = [
        refused(&["--prompt", ""]),
        refused(&["--prompt", "128,,512"]),
        refused(&["--prompt", "128,0"]),
        refused(&["--gen", "0"]),
        refused(&["--gen", "many"]),
        refused(&["--depth", "-1"]),
        refused(&["--depth", "1.5"]),
        refused(&["--repetitions", "0"]),
        refused(&["--prompt", "131073"]),
        refused(&["--gen", "5000", "--context", "4096"]),
        refused(&["--depth", "131072"]),
        refused(&["--depth", "0,4000", "--prompt", "512", "--context", "4096"]),
        refused(&["--compute", "fp16"]),
        refused(&["--dense", "q4"]),
        refused(&["--markdown", "--json"]),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @r"
    error: invalid value '' for '--prompt <N,...>': expected a whole number from 1 on
    error: invalid value '' for '--prompt <N,...>': expected a whole number from 1 on
    error: invalid value '0' for '--prompt <N,...>': expected a whole number from 1 on
    error: invalid value '0' for '--gen <N,...>': expected a whole number from 1 on
    error: invalid value 'many' for '--gen <N,...>': expected a whole number from 1 on
    error: invalid value '-1' for '--depth <N,...>': expected a whole number from 0 on
    error: invalid value '1.5' for '--depth <N,...>': expected a whole number from 0 on
    error: invalid value '0' for '--repetitions <N>': expected a whole number from 1 to 10000
    error: --prompt 131073 is more than the context of 131072 tokens holds, expected 1 to 131072
    error: --gen 5000 is more than the context of 4096 tokens holds, expected 1 to 4096
    error: --depth 131072 is more than the context of 131072 tokens holds, expected 0 to 131071
    error: --prompt 512 is more than the context of 4096 tokens holds, expected 1 to 96 after --depth 4000
    error: invalid value 'fp16' for '--compute <TYPE>'
    error: invalid value 'q4' for '--dense <TYPE>'
    error: the argument '--markdown' cannot be used with '--json'
    ");
    // Which sets there are depends on the CPU; the portable one is there everywhere.
    let kernels = refused(&["--kernels", "sse9"]);
    let expected = "error: this CPU cannot run the `sse9` kernels, expected one of ";
    assert!(kernels.starts_with(expected), "{kernels}");
    assert!(kernels.ends_with("portable"), "{kernels}");
}

#[test]
fn every_command_that_runs_a_model_takes_the_choices() {
    let program = Program::new();
    for kernels in ["portable", "auto"] {
        let mut command =
            program.run(&["-r", "low", "--dense", "q8", "--kernels", kernels, "Hello!"]);
        let said = transcript(command.env("GPTOSS_COMPUTE", "f32"));
        assert!(said.contains("compute f32, dense q8, kv f32, "), "{said}");
        assert_eq!(
            said.contains("(candle, portable, "),
            kernels == "portable",
            "{said}"
        );
    }
    let mut command = program.run(&["--kernels", "sse9", "Hello!"]);
    let said = transcript(&mut command);
    assert!(said.starts_with("exit code: 2"), "{said}");
    assert!(
        said.contains("hint: --kernels auto takes the fastest of them"),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_with_what_was_measured_so_far() {
    let program = Program::new();
    let args = ["bench", "--model", "tiny", "--prompt", "16", "--gen", "8"];
    let args: Vec<&str> = args
        .into_iter()
        .chain(["--depth", "0,120000", "--repetitions", "2", "--json"])
        .collect();
    let mut terminal = Terminal::start(program.home.path(), &args, &[]);
    terminal.wait_for_text("reading up to depth 120000");
    terminal.send("\x03");
    assert_eq!(terminal.wait(), 130);
    let contents = terminal.contents();
    // Both tests at depth 0 are there, and nothing of the bar.
    let log = String::from_utf8_lossy(&terminal.log);
    assert_eq!(
        log.matches("\"tokens_per_second\"").count(),
        2,
        "{contents}"
    );
    assert!(contents.trim_end().ends_with('}'), "{contents}");
    assert!(log.contains("\"interrupted\": true"), "{log}");
    assert!(!contents.contains("reading up to"), "{contents}");
}
