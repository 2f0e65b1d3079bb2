//! What memory the program takes, seen from outside (Linux).

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use safetensors::SafeTensors;
use serde_json::{Value, json};

use crate::program::{Program, environment};

/// So many experts in place of 8 make 200 MB of weights.
const EXPERTS: usize = 848;

/// The built-in model with many more experts. Returns the bytes of its weights.
fn many_experts(directory: &Path) -> u64 {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny");
    fs::create_dir(directory).unwrap();
    for name in ["tokenizer.json", "generation_config.json"] {
        fs::copy(assets.join(name), directory.join(name)).unwrap();
    }
    let config = fs::read(assets.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    let before = config["num_local_experts"].as_u64().unwrap() as usize;
    config["num_local_experts"] = json!(EXPERTS);
    fs::write(directory.join("config.json"), config.to_string()).unwrap();

    let bytes = fs::read(assets.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut header = serde_json::Map::new();
    let (mut contents, mut end) = (Vec::new(), 0);
    for (name, tensor) in tensors.iter() {
        let copies = if name.contains(".mlp.experts.") || name.contains(".mlp.router.") {
            EXPERTS / before
        } else {
            1
        };
        let mut shape = tensor.shape().to_vec();
        shape[0] *= copies;
        let begin = end;
        end += tensor.data().len() * copies;
        let entry = json!({
            "dtype": tensor.dtype().to_string(), "shape": shape, "data_offsets": [begin, end],
        });
        header.insert(name.to_owned(), entry);
        contents.push((name.to_owned(), tensor.data(), copies));
    }
    let header = Value::Object(header).to_string();
    let path = directory.join("model.safetensors");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    for (name, data, copies) in contents {
        for copy in 0..copies {
            if name.ends_with(".mlp.router.weight") {
                // Turned a little further each time, so that no two experts are chosen alike.
                let turn = 2 * copy % data.len();
                file.write_all(&data[turn..]).unwrap();
                file.write_all(&data[..turn]).unwrap();
            } else {
                file.write_all(data).unwrap();
            }
        }
    }
    file.flush().unwrap();
    fs::metadata(path).unwrap().len()
}

/// A line of `/proc/PID/status` in bytes; `None` once the process has ended.
fn status(process: u32, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line
        .trim_matches([':', '\t', ' '])
        .strip_suffix(" kB")?
        .parse()
        .ok()?;
    Some(kilobytes * 1024)
}

#[test]
fn the_peak_is_that_of_the_program_and_not_of_who_started_it() {
    const BALLAST: u64 = 600_000_000;
    let ballast = std::hint::black_box(vec![1_u8; BALLAST as usize]);
    let program = Program::new();
    let mut run = program.run(&["--device", "cpu", "--max-tokens", "2", "--json", "--quiet"]);
    let output = run.arg("Hello!").output().unwrap();
    drop(std::hint::black_box(ballast));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = report["stats"]["peak_rss_bytes"].as_u64().unwrap();
    assert!((1 << 20..BALLAST).contains(&peak), "{peak}");
}

#[test]
fn the_weights_stay_in_their_file_and_are_never_widened() {
    let program = Program::new();
    let weights = many_experts(&program.home.path().join("model"));
    assert!(weights > 190_000_000, "{weights}");
    program.file(
        "prompt.txt",
        "The quick brown fox jumps over the lazy dog. ".repeat(150),
    );
    let mut run = Command::new(assert_cmd::cargo::cargo_bin("gptoss"))
        .args([
            "run",
            "--model",
            "./model",
            "--raw",
            "--prompt",
            "prompt.txt",
            "--json",
            "--quiet",
        ])
        .args([
            "--temperature",
            "0",
            "--max-tokens",
            "8",
            "--context",
            "4096",
        ])
        // The libraries of a driver that is asked what there is would be counted too.
        .args(["--device", "cpu"])
        .current_dir(program.home.path())
        .env_clear()
        .envs(environment(program.home.path()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut anonymous, mut looks) = (0, 0);
    while run.try_wait().unwrap().is_none() {
        if let Some(now) = status(run.id(), "RssAnon") {
            anonymous = anonymous.max(now);
            looks += 1;
        }
        std::thread::yield_now();
    }
    let output = run.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(looks > 20, "it was over before anybody looked: {looks}");
    assert!(
        report["stats"]["prompt_tokens"].as_u64().unwrap() > 1000,
        "{report}"
    );
    // BF16 experts would take four times the file; one copy of it as it is, the whole file again.
    assert!(
        anonymous < weights / 3,
        "{anonymous} bytes besides {weights} of weights"
    );
    let peak = report["stats"]["peak_rss_bytes"].as_u64().unwrap();
    assert!(
        peak < weights * 13 / 10,
        "{peak} bytes for {weights} of weights"
    );
    // The weights were read at all.
    assert!(peak > weights / 2, "{peak} bytes for {weights} of weights");
}
