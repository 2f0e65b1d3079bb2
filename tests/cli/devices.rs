//! `gptoss devices` and `--device`.

use assert_cmd::Command;
use serde_json::Value;

use crate::program::{Program, transcript};

/// Where no Vulkan driver is installed, and no card of NVIDIA can be seen.
fn without_drivers(mut command: Command) -> Command {
    for name in ["VK_ICD_FILENAMES", "VK_DRIVER_FILES"] {
        // A directory without manifests.
        command.env(name, "/proc/self/fd");
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
    if all["faults"] != serde_json::json!([]) {
        // NVIDIA's driver is here, and finds nothing.
        return;
    }
    let mut command = without_drivers(program.command(&["devices"]));
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    insta::with_settings!({ filters => vec![(r"cpu     cpu .*", "cpu     cpu [machine]"), (r"kind  memory .*", "kind [columns]")] }, {
        insta::assert_snapshot!(text, @"
        device  kind [columns]
        cpu     cpu [machine]

        no driver of a graphics card is found: NVIDIA's cards need NVIDIA's, and the CUDA toolkit where Vulkan is not to do; others need one of Vulkan (Debian: mesa-vulkan-drivers)

        --device auto takes cpu for a model that fits
        ");
    });
}

/// What `gptoss devices` says below its table, with the home directory taken out.
#[cfg(target_os = "linux")]
fn said(program: &Program, mut command: Command) -> String {
    let home = program.home.path().display().to_string();
    let text = transcript(&mut command).replace(&home, "[home]");
    assert!(text.ends_with("----- stderr -----\n"), "{text}");
    let (table, below) = text.split_once("\n\n").unwrap();
    assert!(table.contains("\ncpu"), "{table}");
    // NVIDIA's driver may be here.
    below
        .replace("cuda: libcuda.so.1: it finds no card\n\n", "")
        .replace("----- stderr -----\n", "")
}

#[test]
#[cfg(all(feature = "wgpu", target_os = "linux"))]
fn a_driver_that_does_not_load_is_named_with_what_the_system_says() {
    let program = Program::new();
    program.file("no.json", r#"{"ICD": {"library_path": "./libnone.so"}}"#);
    program.file("text.json", r#"{"ICD": {"library_path": "./text.so"}}"#);
    program.file("text.so", "no library");
    program.file("broken.json", "{");
    program.file("libcuda.so.1", "no library");
    let command = |args: &[&str]| {
        let mut command = without_drivers(program.command(args));
        let manifests = ["no.json", "text.json", "broken.json", "gone.json"];
        let paths = manifests.map(|name| program.home.path().join(name));
        command
            .env("VK_DRIVER_FILES", std::env::join_paths(paths).unwrap())
            .env("LD_LIBRARY_PATH", program.home.path());
        command
    };
    insta::assert_snapshot!(said(&program, command(&["devices"])), @"
    cuda: libcuda.so.1: it does not load: [home]/libcuda.so.1: file too short

    vulkan: [home]/no.json: it names `[home]/libnone.so`, which does not load: [home]/libnone.so: cannot open shared object file: No such file or directory

    vulkan: [home]/text.json: it names `[home]/text.so`, which does not load: [home]/text.so: file too short

    vulkan: [home]/broken.json: it is no manifest of a Vulkan driver: EOF while parsing an object at line 1 column 1

    vulkan: [home]/gone.json: it cannot be read: No such file or directory (os error 2)

    --device auto takes cpu for a model that fits
    ");
    let all = listed(command(&["devices", "--json"]));
    let faults: Vec<(&str, &str)> = all["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| {
            assert!(fault["reason"].as_str().unwrap().len() > 10, "{fault}");
            let file = fault["file"].as_str().unwrap();
            let name = std::path::Path::new(file).file_name().unwrap();
            (fault["api"].as_str().unwrap(), name.to_str().unwrap())
        })
        .collect();
    assert_eq!(
        faults,
        [
            ("cuda", "libcuda.so.1"),
            ("vulkan", "no.json"),
            ("vulkan", "text.json"),
            ("vulkan", "broken.json"),
            ("vulkan", "gone.json"),
        ]
    );
}

#[test]
#[cfg(all(feature = "wgpu", target_os = "linux"))]
fn one_broken_driver_hides_no_other() {
    let program = Program::new();
    let before = listed(program.command(&["devices", "--json"]));
    let devices = before["devices"].as_array().unwrap();
    if !devices.iter().any(|device| device["kind"] == "software") {
        // No Mesa here.
        return;
    }
    program.file("no.json", r#"{"ICD": {"library_path": "libnone.so.7"}}"#);
    let mut command = program.command(&["devices", "--json"]);
    command.env("VK_ADD_DRIVER_FILES", program.home.path().join("no.json"));
    let after = listed(command);
    assert_eq!(after["devices"], before["devices"]);
    let faults = |all: &Value| all["faults"].as_array().unwrap().len();
    assert_eq!(faults(&after), faults(&before) + 1);
}

#[test]
#[cfg(all(feature = "wgpu", target_os = "linux"))]
fn drivers_that_load_and_find_nothing_are_named() {
    let program = Program::new();
    program.file(
        "driver.c",
        "void *vk_icdGetInstanceProcAddr(void *instance, const char *name) { return 0; }",
    );
    if !compile(&program, "driver.c", "driver.so") {
        return;
    }
    program.file(
        "driver.json",
        r#"{"ICD": {"library_path": "./driver.so", "api_version": "1.1.0"}}"#,
    );
    let mut command = without_drivers(program.command(&["devices"]));
    command.env("VK_DRIVER_FILES", program.home.path().join("driver.json"));
    insta::assert_snapshot!(said(&program, command), @"
    vulkan: the driver of driver.json finds no device: Entry::create_instance() failed: Unable to find a Vulkan driver

    --device auto takes cpu for a model that fits
    ");
}

#[test]
#[cfg(target_os = "linux")]
fn a_driver_of_nvidia_that_does_not_start_says_why() {
    let program = Program::new();
    program.file(
        "driver.c",
        DRIVER.replace("return flags;", "return 803;")
            + "int cuGetErrorName(int error, const char **name) {
                *name = \"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\";
                return error != 803;
            }",
    );
    if !compile(&program, "driver.c", "libcuda.so.1") {
        return;
    }
    let mut command = without_drivers(program.command(&["devices"]));
    command.env("LD_LIBRARY_PATH", program.home.path());
    insta::assert_snapshot!(said(&program, command), @"
    cuda: libcuda.so.1: it does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)

    --device auto takes cpu for a model that fits
    ");
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_configured_is_read_as_by_every_command() {
    let program = Program::new();
    let with = |name: &str, value: &str| {
        let mut command = without_drivers(program.command(&["devices"]));
        command.env(name, value);
        command
    };
    assert_transcript!(with("GPTOSS_DEVICE", "gpu"), @"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the environment variable GPTOSS_DEVICE: `device` is `gpu`, expected auto, cpu, vulkan, metal or cuda; a number chooses among several: vulkan:1

    hint: `gptoss config` prints every setting with its default
    ");
    assert_transcript!(with("GPTOSS_DEVISE", "cpu"), @"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the environment variable GPTOSS_DEVISE: there is no such setting; GPTOSS_DEVICE is the nearest

    hint: `gptoss config` prints every setting with its default
    ");
    program.file("config.toml", "device = cpu");
    let config = program.home.path().join("config.toml");
    let mut broken = with("GPTOSS_CONFIG", config.to_str().unwrap());
    let error = String::from_utf8(broken.output().unwrap().stderr).unwrap();
    assert_eq!(broken.output().unwrap().status.code(), Some(2));
    assert!(error.contains("config.toml"), "{error}");

    let last = |command| {
        let text = said(&program, command);
        text.lines().last().unwrap().to_owned()
    };
    let automatic = "--device auto takes cpu for a model that fits";
    assert_eq!(last(with("GPTOSS_DEVICE", "")), automatic);
    assert_eq!(last(with("GPTOSS_DEVICE", "auto")), automatic);
    assert_eq!(
        last(with("GPTOSS_DEVICE", "cpu")),
        "--device cpu is configured"
    );
    program.file("config.toml", "device = \"metal:1\"");
    assert_eq!(
        last(with("GPTOSS_CONFIG", config.to_str().unwrap())),
        "--device metal:1 is configured: there is no device `metal:1` here, expected `cpu`: it is on Macs only"
    );
    let configured = |value| {
        let mut command = without_drivers(program.command(&["devices", "--json"]));
        command.env("GPTOSS_DEVICE", value);
        listed(command)["configured"].clone()
    };
    assert_eq!(configured("cpu"), "cpu");
    assert_eq!(configured("auto"), Value::Null);
}

#[test]
#[cfg(all(feature = "wgpu", target_os = "linux"))]
fn a_cache_that_cannot_be_used_is_said_and_it_runs_all_the_same() {
    let program = Program::new();
    let all = listed(program.command(&["devices", "--json"]));
    let devices = all["devices"].as_array().unwrap();
    let Some(lavapipe) = devices.iter().find(|device| device["kind"] == "software") else {
        // No Mesa here.
        return;
    };
    program.file("file", "");
    let cache = program.home.path().join("file");
    let mut command = program.run(&["--device", lavapipe["device"].as_str().unwrap()]);
    let output = command
        .args(["-r", "low", "Hello!"])
        .env("GPTOSS_CACHE_DIR", &cache)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"Hello! How can I"), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = format!(
        "warning: kernels are compiled at every start: `{}/kernels` cannot be used: Not a directory (os error 20); \
         GPTOSS_CACHE_DIR names another place\n",
        cache.display()
    );
    assert!(error.starts_with(&expected), "{error}");
    assert_eq!(error.matches("compiled").count(), 1, "{error}");
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

/// Makes a library of C; `false` where there is no C compiler.
#[cfg(target_os = "linux")]
fn compile(program: &Program, source: &str, library: &str) -> bool {
    let compiler = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o", library, source])
        .current_dir(program.home.path())
        .status();
    compiler.is_ok_and(|status| {
        assert!(status.success());
        true
    })
}

#[test]
#[cfg(target_os = "linux")]
fn cards_are_listed_as_the_driver_of_nvidia_has_them() {
    let program = Program::new();
    program.file("driver.c", DRIVER);
    if !compile(&program, "driver.c", "libcuda.so.1") {
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
