//! Compiled kernels, kept for the next start.
//!
//! cubecl 0.10 keeps SPIR-V and PTX under the *name* of a kernel and what it was specialised for. A kernel that was
//! changed has the same name, so every build has a directory of its own.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, UNIX_EPOCH};

use cubecl::config::autotune::AutotuneLevel;
use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

use super::attempt::attempt;

/// Directories of other builds are removed when nobody wrote to them for so long.
const KEPT: Duration = Duration::from_hours(30 * 24);

/// Sets cubecl up, which can be done once in a process and before any device is used: compiled kernels go to
/// `directory`, where that can be written to. Later calls do nothing.
pub fn configure(directory: Option<&Path>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut config = CubeClRuntimeConfig::default().override_from_env();
        // Nothing here is tuned: the kernels are ours.
        config.autotune.level = AutotuneLevel::Minimal;
        if let Some(directory) = directory.and_then(of_this_build) {
            config.autotune.cache = CacheConfig::File(directory.clone());
            config.compilation.cache = Some(CacheConfig::File(directory));
        }
        // Something may have read it before; then it stays as it is, and kernels are compiled at each start.
        let _ = attempt(|| CubeClRuntimeConfig::set(config));
    });
}

/// The directory of this build below `root`, made and found writable, else nothing: cubecl would panic.
fn of_this_build(root: &Path) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.metadata().ok()?;
    let built = program.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let name = format!(
        "{}-{:x}-{:x}",
        env!("CARGO_PKG_VERSION"),
        program.len(),
        built.as_millis()
    );
    remove_old(root, &name);
    let directory = root.join(name);
    std::fs::create_dir_all(&directory).ok()?;
    let probe = directory.join(format!(".{}", std::process::id()));
    std::fs::write(&probe, "").ok()?;
    std::fs::remove_file(&probe).ok()?;
    Some(directory)
}

/// Removes what builds that are no longer used left below `root`; that it fails hurts nobody.
fn remove_old(root: &Path, current: &str) {
    let Ok(entries) = std::fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let old = entry.file_name() != *current
            && entry
                .metadata()
                .and_then(|entry| entry.modified())
                .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEPT));
        if old {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
