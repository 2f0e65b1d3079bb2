//! `gptoss devices` and `--device`.

use assert_cmd::Command;
use serde_json::Value;

use crate::program::Program;

/// Where no Vulkan driver is found, and no NVIDIA one either.
fn without_drivers(mut command: Command) -> Command {
    for name in ["VK_ICD_FILENAMES", "VK_DRIVER_FILES"] {
        command.env(name, "/nonexistent");
    }
    command.env("CUDA_VISIBLE_DEVICES", "");
    command
}

fn listed(mut command: Command) -> Value {
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn without_any_driver_there_is_the_cpu() {
    let program = Program::new();
    let all = listed(without_drivers(program.command(&["devices", "--json"])));
    assert_eq!(all["auto"], "cpu");
    let names: Vec<&Value> = all["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| &device["device"])
        .collect();
    assert_eq!(names, ["cpu"]);
    assert_eq!(all["devices"][0]["usable"], true);
    let mut command = without_drivers(program.command(&["devices"]));
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    insta::with_settings!({ filters => vec![(r"cpu     cpu .*", "cpu     cpu [machine]"), (r"kind  memory .*", "kind [columns]")] }, {
        insta::assert_snapshot!(text, @"
        device  kind [columns]
        cpu     cpu [machine]

        --device auto takes cpu for a model that fits
        ");
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_device_that_is_not_there_is_refused_before_anything_else() {
    let program = Program::new();
    let run = |device: &str| {
        let args = ["run", "--model", "tiny", "--device", device, "Hello!"];
        without_drivers(program.command(&args))
    };
    assert_transcript!(run("vulkan"), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: there is no device `vulkan` here, expected `cpu`: it needs a graphics card and its driver

    hint: `gptoss devices` lists what there is
    ");
    assert_transcript!(run("cuda"), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: there is no device `cuda` here, expected `cpu`: it needs an NVIDIA card and its driver

    hint: `gptoss devices` lists what there is
    ");
    assert_transcript!(run("metal:1"), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: there is no device `metal:1` here, expected `cpu`: it is on Macs only

    hint: `gptoss devices` lists what there is
    ");
}

#[test]
fn auto_and_cpu_answer_alike_where_there_is_no_card() {
    let program = Program::new();
    let answer = |args: &[&str]| {
        let mut command = without_drivers(program.run(&["--quiet"]));
        command.args(args).arg("Hello!").output().unwrap().stdout
    };
    let cpu = answer(&["--device", "cpu"]);
    assert!(!cpu.is_empty());
    assert_eq!(answer(&["--device", "auto"]), cpu);
    assert_eq!(answer(&[]), cpu);
}

#[test]
#[cfg(target_os = "linux")]
fn a_driver_on_the_cpu_is_listed_and_not_taken_by_itself() {
    let program = Program::new();
    let all = listed(program.command(&["devices", "--json"]));
    let devices = all["devices"].as_array().unwrap();
    let Some(lavapipe) = devices.iter().find(|device| device["kind"] == "software") else {
        // No Mesa here.
        return;
    };
    assert_ne!(all["auto"], lavapipe["device"]);
    assert!(
        lavapipe["name"].as_str().unwrap().contains("llvmpipe"),
        "{lavapipe}"
    );
    let megabytes = |key: &str| lavapipe[key].as_u64().unwrap() >> 20;
    assert!(megabytes("memory_bytes") > 100, "{lavapipe}");
    assert!(megabytes("largest_buffer_bytes") >= 128, "{lavapipe}");

    let mut missing = program.command(&["run", "--model", "tiny", "--device", "vulkan:70", "x"]);
    let output = missing.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let name = lavapipe["device"].as_str().unwrap();
    assert!(
        error.contains("no device `vulkan:70` here, expected `cpu`") && error.contains(name),
        "{error}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn the_environment_chooses_too() {
    let program = Program::new();
    let mut command = without_drivers(program.command(&["run", "--model", "tiny", "Hello!"]));
    command.env("GPTOSS_DEVICE", "cuda:3");
    let error = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(
        error.starts_with("error: there is no device `cuda:3` here"),
        "{error}"
    );
}

/// NVIDIA's driver as far as it is asked: two cards, of which one is part of the processor.
#[cfg(target_os = "linux")]
const DRIVER: &str = r#"
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int index) { *device = 40 + index; return 0; }
int cuDeviceGetName(char *name, int size, int device) {
    strncpy(name, device == 40 ? "Card \xc3\xa9" : "Part", size);
    return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = device == 40 ? 80000000000 : 1000000000;
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 18 && device == 41;
    return 0;
}
"#;

#[test]
#[cfg(target_os = "linux")]
fn cards_are_listed_as_the_driver_of_nvidia_has_them() {
    let program = Program::new();
    program.file("driver.c", DRIVER);
    let compiler = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c"])
        .current_dir(program.home.path())
        .status();
    if compiler.is_err() {
        // Without a C compiler this is left out.
        return;
    }
    let mut command = without_drivers(program.command(&["devices", "--json"]));
    command.env("LD_LIBRARY_PATH", program.home.path());
    let all = listed(command);
    let mut cards = all["devices"].as_array().unwrap()[1..].to_vec();
    for card in &mut cards {
        // What is missing to use them is another matter.
        let card = card.as_object_mut().unwrap();
        assert_eq!(card.remove("usable"), Some(Value::Bool(false)));
        assert!(card.remove("reason").is_some());
    }
    assert_eq!(
        Value::Array(cards),
        serde_json::json!([
            {
                "device": "cuda:0", "name": "Card \u{e9}", "kind": "discrete", "memory_bytes": 80_000_000_000_u64,
                "largest_buffer_bytes": 80_000_000_000_u64, "driver": "CUDA 12.4"
            },
            {
                "device": "cuda:1", "name": "Part", "kind": "integrated", "memory_bytes": 1_000_000_000,
                "largest_buffer_bytes": 1_000_000_000, "driver": "CUDA 12.4"
            }
        ])
    );
}
