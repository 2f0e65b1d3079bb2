//! Compiled kernels are kept on the disk: the second start compiles nothing.
#![cfg(all(feature = "wgpu", target_os = "linux"))]
// Helpers stand outside the functions that clippy knows as tests.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use cubecl::prelude::*;
use gptoss::engine::devices::{self, Kind};

const DIRECTORY: &str = "KERNEL_CACHE_OF_THE_TEST";

#[cube(launch)]
fn doubled(x: &mut Array<f32>) {
    if ABSOLUTE_POS < x.len() {
        x[ABSOLUTE_POS] *= 2.0;
    }
}

/// One start: opens a device on the CPU, runs a kernel and looks at what it gives.
fn start(cache: &Path) {
    let mut devices = devices::list().into_iter();
    let Some(device) = devices.find(|device| device.kind == Kind::Software) else {
        return;
    };
    let open = devices::open_wgpu(&device, Some(cache)).unwrap();
    let client = open.client();
    let handle = client.create_from_slice(f32::as_bytes(&[1.0, 2.5, -3.0]));
    // SAFETY: three values were put there.
    #[allow(unsafe_code)]
    let x = unsafe { ArrayArg::from_raw_parts(handle.clone(), 3) };
    doubled::launch(&client, CubeCount::Static(1, 1, 1), CubeDim::new_1d(32), x);
    let bytes = client.read_one(handle).unwrap();
    assert_eq!(f32::from_bytes(&bytes), [2.0, 5.0, -6.0]);
    assert_eq!(open.check(), Ok(()));
}

/// Runs this test again as a process of its own, and gives what was compiled meanwhile.
fn compiled(directory: &Path, log: &str) -> String {
    let log = directory.join(log);
    let status = Command::new(std::env::current_exe().unwrap())
        .arg("--nocapture")
        .env(DIRECTORY, directory.join("kernels"))
        .env("CUBECL_DEBUG_LOG", &log)
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::read_to_string(log).unwrap_or_default()
}

#[test]
fn the_second_start_compiles_nothing() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return start(Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    let first = compiled(directory.path(), "first.log");
    if std::fs::read_dir(directory.path().join("kernels")).is_err() {
        // No Mesa here.
        return;
    }
    assert!(first.contains("doubled"), "{first}");
    let second = compiled(directory.path(), "second.log");
    assert!(!second.contains("doubled"), "{second}");
}
