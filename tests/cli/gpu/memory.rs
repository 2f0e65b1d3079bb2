//! A GPU that has too little memory, or may take too little of it: what is refused, what stays on the CPU, and what `info`
//! says of it before.

use serde_json::Value;

use super::{LAVAPIPE, run, stderr};
use crate::program::{Program, transcript};

/// What `gptoss info` says of a device, with further flags.
fn facts(program: &Program, args: &[&str]) -> Value {
    let mut command = program.command(&["info", "--model", "tiny", "--kv-type", "f32", "--json"]);
    let output = command.args(args).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Flags that let so much of the device's memory be taken.
fn cap<'a>(device: &'a str, size: &'a str) -> [&'a str; 4] {
    ["--device", device, "--gpu-memory", size]
}

// The built-in model with a history of 8,192 tokens in f32 needs 64.4 MB, and 326 kB less for each layer of which the
// experts stay on the CPU.

#[test]
fn with_less_memory_it_answers_as_with_more() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let exact = ["--compute", "f32"];
    let cpu = run(&program, "cpu", &exact).output().unwrap().stdout;
    assert!(!cpu.is_empty());
    let whole = format!(
        "warning: the experts of {{}} of 6 layers stay on the CPU: the model needs 64.4 MB and `{device}` ("
    );
    for (size, stay, said) in [
        ("62.5 MB", Some(6), "62.5 MB"),
        ("63500000", Some(3), "63.5 MB"),
        ("1GiB", None, ""),
    ] {
        let mut command = run(&program, device, &exact);
        let output = command.args(["--gpu-memory", size]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert_eq!(output.stdout, cpu, "{size}");
        let Some(stay) = stay else {
            assert!(
                !stderr.contains("warning") && !stderr.contains("experts"),
                "{stderr}"
            );
            continue;
        };
        let begins = whole.replace("{}", &stay.to_string());
        assert!(stderr.starts_with(&begins), "{stderr}");
        let ends = format!(" may take {said} (`gpu-memory`)");
        assert!(stderr.lines().next().unwrap().ends_with(&ends), "{stderr}");
        let split = format!("; experts of {stay} of 6 layers on cpu (");
        assert!(stderr.contains(&split), "{stderr}");
    }
    // The variable and the file say the same.
    let mut command = run(&program, device, &exact);
    let said = stderr({
        command.env("GPTOSS_GPU_MEMORY", "63.5MB");
        command
    });
    assert!(said.contains("experts of 3 of 6 layers on cpu"), "{said}");
}

#[test]
fn too_little_memory_is_refused_by_name_with_the_way_out() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let refused = |args: &[&str]| {
        let said = transcript(&mut run(&program, "vulkan", args));
        // Which Mesa it is differs.
        let (begin, name) = (
            said.find(" (llvmpipe").unwrap(),
            said.find("may take").unwrap(),
        );
        format!("{} {}", &said[..begin], &said[name..]).replace(device, "[device]")
    };
    insta::assert_snapshot!(refused(&["--gpu-memory", "10MB"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: the model needs 64.4 MB and `[device]` may take 10.0 MB (`gpu-memory`)

    hint: a larger --gpu-memory gives it more, --device cpu takes any model that fits this machine
    ");
    insta::assert_snapshot!(refused(&["--gpu-memory", "40MB"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: the model needs 64.4 MB and `[device]` may take 40.0 MB (`gpu-memory`)

    hint: --context 4096 fits, a larger --gpu-memory gives it more, and --device cpu takes any
    ");
    insta::assert_snapshot!(refused(&["--gpu-memory", "63.5MB", "--gpu-layers", "5"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: the model needs 64.1 MB and `[device]` may take 63.5 MB (`gpu-memory`)

    hint: --gpu-layers 3 fits, a larger --gpu-memory gives it more, and --device cpu takes any
    ");
}

#[test]
fn a_cap_without_a_gpu_is_said_to_do_nothing() {
    let program = Program::new();
    let said = stderr(run(&program, "cpu", &["--gpu-memory", "8GB", "-n", "1"]));
    let unused = "warning: `gpu-memory 8.0 GB` is for a GPU, and the model runs on the CPU\n";
    assert!(said.starts_with(unused), "{said}");
    // `auto` takes no program that plays a GPU.
    if facts(&program, &[])["device"] == "cpu" {
        let said = stderr(run(&program, "auto", &["--gpu-memory", "8GB", "-n", "1"]));
        assert!(said.starts_with(unused), "{said}");
    }
}

#[test]
fn threads_beside_a_gpu_that_does_everything_are_said_to_be_unused() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let said = stderr(run(&program, device, &["--threads", "1", "-n", "1"]));
    let unused = format!("warning: `threads 1` is for the CPU: `{device}` does all of the work\n");
    assert!(said.starts_with(&unused), "{said}");
    let said = stderr(run(
        &program,
        device,
        &["--threads", "1", "--gpu-layers", "2", "-n", "1"],
    ));
    assert!(!said.contains("warning"), "{said}");
    // What may have to stay on the CPU is computed as asked for.
    let args = [
        "--gpu-memory",
        "63.5MB",
        "--compute",
        "bf16",
        "--kernels",
        "portable",
        "-n",
        "1",
    ];
    let said = stderr(run(&program, device, &args));
    assert!(said.contains("on cpu (candle, portable, "), "{said}");
}

#[test]
fn info_says_what_fits_the_device() {
    let Some(device) = LAVAPIPE.as_deref() else {
        return;
    };
    let program = Program::new();
    let of = |args: &[&str]| {
        let facts = facts(&program, args);
        let figures = ["device_needed_bytes", "device_fits", "gpu_layers"];
        figures.map(|key| facts[key].clone())
    };
    let all = facts(&program, &["--device", device]);
    assert_eq!(all["device"], device);
    assert!(all["device_name"].as_str().unwrap().contains("llvmpipe"));
    assert!(all["device_memory_bytes"].as_u64().unwrap() > 100 << 20);
    assert_eq!(all["device_context"], 8192);
    let expected = |needed: u64, fits: bool, layers: Option<usize>| {
        [Value::from(needed), fits.into(), layers.into()]
    };
    assert_eq!(
        of(&["--device", device]),
        expected(64_386_832, true, Some(6))
    );
    assert_eq!(
        of(&cap(device, "62.5MB")),
        expected(64_386_832, false, Some(0))
    );
    assert_eq!(
        of(&cap(device, "63.5MB")),
        expected(64_386_832, false, Some(3))
    );
    assert_eq!(of(&cap(device, "10MB")), expected(64_386_832, false, None));
    let two = [&cap(device, "63.5MB")[..], &["--gpu-layers", "2"]].concat();
    assert_eq!(of(&two), expected(63_083_440, true, Some(2)));
    assert_eq!(facts(&program, &two)["device_memory_bytes"], 63_500_000);

    let text = |args: &[&str]| {
        let mut command = program.command(&["info", "--model", "tiny", "--kv-type", "f32"]);
        let output = command.args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let rows = text.lines().skip_while(|line| !line.starts_with("device "));
        rows.take(2)
            .map(|row| row[14..].to_owned())
            .collect::<Vec<_>>()
    };
    let [name, fit] = &text(&["--device", device])[..] else {
        panic!("two rows");
    };
    assert!(name.starts_with(&format!("{device} (llvmpipe")), "{name}");
    assert_eq!(fit, "64.4 MB with a context of 8192: it fits");
    let [name, fit] = &text(&cap(device, "63.5MB"))[..] else {
        panic!("two rows");
    };
    assert!(
        name.ends_with("), 63.5 MB of its memory (`gpu-memory`)"),
        "{name}"
    );
    assert_eq!(
        fit,
        "64.4 MB with a context of 8192: the experts of 3 of 6 layers fit (--gpu-layers 3)"
    );
    assert_eq!(
        text(&cap(device, "40MB"))[1],
        "64.4 MB with a context of 8192: it does not fit, not even without experts, it would with --context 4096"
    );
    assert_eq!(
        text(&two)[1],
        "63.1 MB with a context of 8192: it fits with the experts of 2 of 6 layers"
    );
}
