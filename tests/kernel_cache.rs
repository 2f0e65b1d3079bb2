//! Compiled kernels are kept on the disk: the second start compiles nothing, whatever became of what was kept before it.
#![cfg(all(feature = "wgpu", target_os = "linux"))]
// Helpers stand outside the functions that clippy knows as tests.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use cubecl::prelude::*;
use gptoss::engine::devices::{self, Device, Kind};
use tempfile::TempDir;

const DIRECTORY: &str = "KERNEL_CACHE_OF_THE_TEST";
/// Where it is set, a start ends by a signal before anything is kept.
const KILLED: &str = "KERNEL_CACHE_OF_THE_TEST_IS_KILLED";

#[cube(launch)]
fn doubled(x: &mut Array<f32>) {
    if ABSOLUTE_POS < x.len() {
        x[ABSOLUTE_POS] *= 2.0;
    }
}

/// Lavapipe, where it is installed.
fn software() -> Option<Device> {
    let mut devices = devices::list().into_iter();
    devices.find(|device| device.kind == Kind::Software)
}

/// Not a test, but what the tests run as processes of their own: opens a device on the CPU, runs a kernel, looks at what it
/// gives and keeps what was compiled.
#[test]
fn start() {
    let Some(cache) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let open = devices::open_wgpu(&software().unwrap(), Some(Path::new(&cache))).unwrap();
    let client = open.client();
    let handle = client.create_from_slice(f32::as_bytes(&[1.0, 2.5, -3.0]));
    // SAFETY: three values were put there.
    #[allow(unsafe_code)]
    let x = unsafe { ArrayArg::from_raw_parts(handle.clone(), 3) };
    doubled::launch(&client, CubeCount::Static(1, 1, 1), CubeDim::new_1d(32), x);
    let bytes = client.read_one(handle).unwrap();
    assert_eq!(f32::from_bytes(&bytes), [2.0, 5.0, -6.0]);
    assert_eq!(open.check(), Ok(()));
    if std::env::var_os(KILLED).is_some() {
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    devices::keep_kernels();
}

/// A cache, and what is compiled by starts that use it.
struct Cache {
    directory: TempDir,
}

impl Cache {
    /// `None` where there is no Mesa.
    fn new() -> Option<Self> {
        software()?;
        Some(Self {
            directory: tempfile::tempdir().unwrap(),
        })
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("kernels")
    }

    fn log(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.log"))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "start", "--nocapture"])
            .env(DIRECTORY, self.root())
            .env("CUBECL_DEBUG_LOG", self.log(name));
        command
    }

    fn has_compiled(&self, name: &str) -> bool {
        let log = fs::read_to_string(self.log(name)).unwrap_or_default();
        fs::remove_file(self.log(name)).unwrap_or_default();
        log.contains("doubled")
    }

    /// Whether a start compiles the kernel.
    fn compiles(&self) -> bool {
        assert!(self.command("alone").status().unwrap().success());
        self.has_compiled("alone")
    }

    /// The directory of this build.
    fn build(&self) -> PathBuf {
        let mut builds = fs::read_dir(self.root()).unwrap();
        builds.next().unwrap().unwrap().path()
    }

    fn archive(&self) -> PathBuf {
        self.build().join("kernels")
    }

    fn entries(&self) -> usize {
        fs::read_dir(self.build()).unwrap().count()
    }
}

#[test]
fn the_second_start_compiles_nothing() {
    let Some(cache) = Cache::new() else { return };
    assert!(cache.compiles());
    assert!(!cache.compiles());
}

#[test]
fn what_is_damaged_is_replaced_by_the_next_start() {
    type Damage = fn(&Path, Vec<u8>);
    const DAMAGES: [(&str, Damage); 8] = [
        ("cut off", |path, bytes| {
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("a byte of a kernel", |path, mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x40;
            fs::write(path, bytes).unwrap();
        }),
        ("garbage within", |path, mut bytes| {
            let middle = bytes.len() / 2;
            bytes.splice(middle..middle, *b"garbage");
            fs::write(path, bytes).unwrap();
        }),
        ("garbage at the end", |path, bytes| {
            fs::write(path, [bytes, b"garbage".to_vec()].concat()).unwrap();
        }),
        ("empty", |path, _| fs::write(path, "").unwrap()),
        ("a directory", |path, _| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
            fs::write(path.join("file"), "").unwrap();
        }),
        ("unreadable", |path, _| {
            use std::os::unix::fs::{PermissionsExt, symlink};
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
            // The superuser reads it all the same, and no link to itself.
            if fs::read(path).is_ok() {
                fs::remove_file(path).unwrap();
                symlink(path, path).unwrap();
            }
        }),
        ("a pipe that nobody writes to", |path, _| {
            fs::remove_file(path).unwrap();
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
    ];
    let Some(cache) = Cache::new() else { return };
    assert!(cache.compiles());
    let whole = fs::read(cache.archive()).unwrap();
    for (name, damage) in DAMAGES {
        damage(&cache.archive(), whole.clone());
        assert!(cache.compiles(), "{name}");
        assert_eq!(
            fs::read(cache.archive()).unwrap().len(),
            whole.len(),
            "{name}"
        );
        assert!(!cache.compiles(), "{name}");
    }
    // The archive, and the copy of the last start with its lock.
    assert_eq!(cache.entries(), 3);
}

#[test]
fn a_start_that_is_killed_harms_no_other() {
    let Some(cache) = Cache::new() else { return };
    for _ in 0..2 {
        let status = cache.command("alone").env(KILLED, "1").status().unwrap();
        assert!(!status.success());
        assert!(cache.has_compiled("alone"));
    }
    // What the last one left, as it would be in the middle of writing: half a record, and the lock of cubecl.
    for entry in fs::read_dir(cache.build()).unwrap() {
        let written = entry.unwrap().path().join("vulkan/0.10.0/spirv");
        if written.is_dir() {
            let chunk = fs::read(written.join("chunk0.cbor")).unwrap();
            fs::write(written.join("chunk0.cbor"), &chunk[..chunk.len() / 2]).unwrap();
            fs::write(written.join("toc.json.log.lock"), "").unwrap();
        }
    }
    let start = std::time::Instant::now();
    assert!(cache.compiles());
    assert!(!cache.compiles());
    // A lock of cubecl holds for half a minute.
    assert!(start.elapsed().as_secs() < 25);
    assert_eq!(cache.entries(), 3);
}

#[test]
fn starts_at_the_same_time_do_each_other_no_harm() {
    let Some(cache) = Cache::new() else { return };
    for _ in 0..2 {
        let names = ["one", "two", "three"];
        let starts: Vec<Child> = names
            .iter()
            .map(|name| cache.command(name).spawn().unwrap())
            .collect();
        for mut start in starts {
            assert!(start.wait().unwrap().success());
        }
        assert!(!cache.compiles());
        fs::write(cache.archive(), "damaged").unwrap();
    }
}

/// `gptoss run` on lavapipe, and what it compiled.
#[test]
fn the_program_compiles_nothing_at_the_second_start_after_damage() {
    let Some(cache) = Cache::new() else { return };
    let run = || {
        let log = cache.log("run");
        let output = Command::new(env!("CARGO_BIN_EXE_gptoss"))
            .args(["run", "--model", "tiny", "--device"])
            .arg(software().unwrap().to_string())
            .args(["--max-tokens", "2", "--quiet", "Hello!"])
            .env("HOME", cache.directory.path())
            .env("GPTOSS_CACHE_DIR", cache.directory.path())
            .env("CUBECL_DEBUG_LOG", &log)
            .output()
            .unwrap();
        // It may think no further than that.
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let compiled = fs::read_to_string(&log).unwrap_or_default();
        fs::remove_file(&log).unwrap_or_default();
        compiled.matches("cubecl").count()
    };
    assert!(run() > 10);
    let whole = fs::read(cache.archive()).unwrap();
    assert_eq!(run(), 0);
    fs::write(cache.archive(), &whole[..whole.len() / 2]).unwrap();
    assert!(run() > 10);
    assert_eq!(run(), 0);
    // The same kernels, though not in all bytes the same.
    let again = fs::read(cache.archive()).unwrap().len();
    assert!(again < whole.len() + whole.len() / 10);
}
