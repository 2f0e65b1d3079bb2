//! Every command on a device that is not the CPU: lavapipe, where it is installed. The kernels themselves have tests of
//! their own; this is about what a person sees.
#![cfg(all(feature = "wgpu", target_os = "linux"))]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use gptoss::engine::devices::{self, Kind};
use serde_json::Value;

use crate::program::{GREEDY, Program, transcript};
use crate::pty::Terminal;

mod memory;

/// `--device` of lavapipe; `None` where there is no Mesa.
static LAVAPIPE: LazyLock<Option<String>> = LazyLock::new(|| {
    let mut devices = devices::list().into_iter();
    let software = devices.find(|device| device.kind == Kind::Software && device.usable.is_ok())?;
    Some(software.to_string())
});

fn run(program: &Program, device: &str, args: &[&str]) -> Command {
    let mut command = program.run(&["--device", device, "-r", "low"]);
    command.args(args).arg("Hello!");
    command
}

fn stderr(mut command: Command) -> String {
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn it_answers_as_the_cpu_does_and_says_where_it_ran() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let output = run(&program, device, &[]).output().unwrap();
    let cpu = run(&program, "cpu", &["--compute", "f32"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, cpu.stdout);
    let figures = String::from_utf8(output.stderr).unwrap();
    assert!(figures.contains(&format!(", {device} (")), "{figures}");
    assert!(
        figures.ends_with("compute f32, dense bf16, kv f32\n"),
        "{figures}"
    );
    assert!(!figures.contains("warning"), "{figures}");
}

#[test]
fn a_seed_gives_the_text_that_it_gives_on_the_cpu() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let text = |device: &str, seed: &str, more: &[&str]| {
        let mut command = program.command(&["run", "--model", "tiny", "-r", "low"]);
        command.args(["--current-date", "2025-06-28", "--kv-type", "f32"]);
        command.args(["--device", device, "--seed", seed, "--max-tokens", "40"]);
        let output = command
            .args(more)
            .args(["--json", "Hello!"])
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["token_ids"].to_string()
    };
    let mut texts = Vec::new();
    for (seed, more) in [
        ("7", &["--temperature", "1"][..]),
        ("8", &["--temperature", "12"]),
        ("9", &["--temperature", "12", "--min-p", "0.2"]),
    ] {
        let found = text(device, seed, more);
        let cpu = [more, &["--compute", "f32"]].concat();
        assert_eq!(found, text("cpu", seed, &cpu), "--seed {seed}");
        texts.push(found);
    }
    // The toy is sure of itself: at 1 it says what it always says.
    assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
}

#[test]
fn weights_and_history_may_be_kept_in_8_bits() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let mut command = run(&program, device, &["--dense", "q8", "--kv-type", "q8"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"Hello! How can I"), "{output:?}");
    assert!(output.stderr.ends_with(b"dense q8, kv q8\n"), "{output:?}");
}

#[test]
fn what_only_the_cpu_has_is_refused_by_flag_and_said_to_be_ignored_elsewhere() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    assert_transcript!(run(&program, "vulkan", &["--compute", "int8"]), @"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: --compute int8 rounds activations for CPU kernels and the device is `vulkan`, which computes in f32

    hint: leave --compute out, or take --device cpu
    ");
    assert_transcript!(run(&program, "vulkan", &["--kernels", "portable"]), @"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: --kernels portable chooses among CPU kernels and the device is `vulkan`

    hint: leave --kernels out, or take --device cpu
    ");
    let mut command = run(&program, device, &["--compute", "f32"]);
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    let mut command = run(&program, device, &[]);
    command.env("GPTOSS_COMPUTE", "int8");
    let said = stderr(command);
    let expected = format!(
        "warning: `compute int8` is for the CPU: `{device}` has kernels of its own, which compute in f32\n"
    );
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn what_the_cpu_has_is_for_the_experts_that_stay_there() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let args = [
        "--gpu-layers",
        "2",
        "--kernels",
        "portable",
        "--compute",
        "bf16",
    ];
    let output = run(&program, device, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"Hello! How can I"), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("warning"), "{said}");
    let split = "; experts of 4 of 6 layers on cpu (candle, portable, compute f32, ";
    assert!(said.contains(split), "{said}");

    let said = stderr(run(&program, "cpu", &["--gpu-layers", "2"]));
    let unused = "`gpu-layers 2` is for a GPU, and the model runs on the CPU";
    assert!(said.contains(unused), "{said}");
    let mut automatic = run(&program, device, &["--kernels", "auto"]);
    assert_eq!(automatic.output().unwrap().status.code(), Some(0));
}

#[test]
fn a_context_that_the_model_does_not_have_is_refused_as_on_the_cpu() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let said = transcript(&mut run(&program, device, &["--context", "200000"]));
    assert!(
        said.contains("error: --context 200000 is more than the 131072 positions of this model"),
        "{said}"
    );
}

#[test]
fn a_bench_has_the_figures_of_the_device() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let args = [
        "bench",
        "--model",
        "tiny",
        "--device",
        device,
        "--prompt",
        "20",
        "--gen",
        "4",
        "--depth",
        "0,30",
        "--repetitions",
        "1",
    ];
    let mut json = program.command(&args);
    let output = json.arg("--json").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = report.as_object().unwrap().keys().map(String::as_str);
    let expected = "tests interrupted device bandwidth_bytes_per_second load_seconds peak_rss_bytes anonymous_bytes \
                    threads kernels compute dense kv_type launches_per_token crossed_bytes_per_token device_memory_bytes";
    assert_eq!(keys.collect::<Vec<_>>().join(" "), expected);
    assert_eq!(report["device"], device);
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["threads"], Value::Null);
    assert_eq!(report["kernels"], Value::Null);
    assert_eq!(report["compute"], "f32");
    // Six layers of eight; embedding, norm, output, and two for the likeliest.
    assert_eq!(report["launches_per_token"], 53.0);
    assert_eq!(report["crossed_bytes_per_token"], 16.0);
    assert!(
        report["device_memory_bytes"].as_u64().unwrap() > 6_000_000,
        "{report}"
    );
    assert!(
        report["bandwidth_bytes_per_second"].as_f64().unwrap() > 1e8,
        "{report}"
    );
    assert_eq!(report["tests"].as_array().unwrap().len(), 4);

    let text = String::from_utf8(program.command(&args).output().unwrap().stdout).unwrap();
    for expected in [
        format!("run         {device} ("),
        "device      ".to_owned(),
        " of its memory; 53 launches and 16 bytes to and fro for a decoded token".to_owned(),
        " GB/s before, ".to_owned(),
    ] {
        assert!(text.contains(&expected), "no `{expected}`:\n{text}");
    }
    assert!(!text.contains("threads"), "{text}");
}

#[test]
fn a_bench_of_a_split_model_counts_both_memories() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let args = [
        "bench",
        "--model",
        "tiny",
        "--json",
        "--prompt",
        "1",
        "--gen",
        "1",
        "--depth",
        "0",
        "--repetitions",
        "1",
    ];
    let mut command = program.command(&args);
    let output = command
        .args(["--gpu-layers", "2", "--threads", "1", "--device", device])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["gpu_layers"], 2);
    assert_eq!(report["threads"], 1);
    let number = |value: &Value| value.as_f64().unwrap();
    let host = number(&report["host_bandwidth_bytes_per_second"]);
    let of_device = number(&report["bandwidth_bytes_per_second"]);
    assert!(host > 1e8 && of_device > 1e8, "{report}");
    // The experts of four layers, and the rest of what `a_token` reads, with its first key and value.
    let experts = f64::from(4 * 4 * (3 * 192 * 128 / 32 * 17 + 2 * (2 * 128 + 192)));
    let rest = 3_893_904.0 + f64::from(6 * 2 * 64 * 2 * 2) - experts;
    let ceiling = number(&report["tests"][1]["ceiling_tokens_per_second"]);
    let seconds = rest / of_device + experts / host;
    assert!(
        (ceiling * seconds - 1.0).abs() < 1e-9,
        "{ceiling} of {report}"
    );
}

#[test]
fn ctrl_c_in_a_bench_does_not_wait_for_the_device() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    // A prompt of 512 takes lavapipe two seconds on one thread, without a look at anything once it is launched.
    let args = [
        "bench",
        "--model",
        "tiny",
        "--device",
        device,
        "--json",
        "--prompt",
        "512",
        "--gen",
        "1",
        "--depth",
        "0,4096",
        "--repetitions",
        "2",
    ];
    let mut terminal = Terminal::start(program.home.path(), &args, &[("LP_NUM_THREADS", "1")]);
    terminal.wait_for_text("reading up to depth 4096: 513");
    std::thread::sleep(Duration::from_millis(150));
    let start = Instant::now();
    terminal.send("\x03");
    assert_eq!(terminal.wait(), 130);
    let time = start.elapsed();
    assert!(time < Duration::from_secs(1), "{time:?}");
    // More lines than the screen has.
    let contents = String::from_utf8_lossy(&terminal.log);
    assert!(contents.contains("\"interrupted\": true"), "{contents}");
    assert_eq!(
        contents.matches("\"tokens_per_second\"").count(),
        2,
        "{contents}"
    );
}

#[test]
fn the_first_start_says_that_it_compiles_and_can_be_stopped_in_it() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let args: Vec<&str> = ["run"]
        .into_iter()
        .chain(GREEDY)
        .chain(["--device", device, "Hello!"])
        .collect();
    let mut terminal = Terminal::start(program.home.path(), &args, &[]);
    terminal.wait_for_text("loading tiny: compiling kernels");
    terminal.send("\x03");
    assert_eq!(terminal.wait(), 130);
    assert!(
        !terminal.contents().contains("compiling"),
        "{}",
        terminal.contents()
    );
}

#[test]
fn a_chat_compiles_stops_answers_and_changes_models() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let args = [
        "chat",
        "--model",
        "tiny",
        "--temperature",
        "0",
        "--reasoning",
        "low",
        "--current-date",
        "2025-06-28",
        "--device",
        device,
    ];
    let idle = |terminal: &mut Terminal| {
        terminal.wait_for("the end of what goes on", |screen| {
            let contents = screen.contents();
            contents.contains("Enter send") && !contents.contains("tok/s")
        });
    };
    let mut terminal = Terminal::start(program.home.path(), &args, &[]);
    terminal.wait_for_text("compiling kernels");
    // Esc stops a load between two steps; what was compiled is kept.
    terminal.send("\x1b");
    terminal.wait_for_text("loading was stopped");
    terminal.send("/model tiny\r");
    terminal.wait_for_text("/131,072");
    terminal.send("Hello!");
    terminal.wait_for_text("› Hello!");
    terminal.send("\r");
    terminal.wait_for_text("How can I help you today?");
    idle(&mut terminal);

    // The one in use goes on where another cannot be loaded, though it had to make room.
    terminal.send("/model ./nothing\r");
    terminal.wait_for_text("`tiny` goes on");
    terminal.send("What is the capital of France?");
    terminal.wait_for_text("capital of France?");
    terminal.send("\r");
    terminal.wait_for_text("Paris");
    idle(&mut terminal);

    terminal.send("/model tiny\r");
    terminal.wait_for_text("`tiny` is loaded");
    terminal.send("What is the capital of Norway?");
    terminal.wait_for_text("capital of Norway?");
    terminal.send("\r");
    terminal.wait_for_text("Oslo");
    idle(&mut terminal);
    terminal.send("\x04");
    assert_eq!(terminal.wait(), 0);
}
