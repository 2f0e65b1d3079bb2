//! Compiled kernels, kept for the next start.
//!
//! cubecl 0.10 keeps SPIR-V and PTX under the *name* of a kernel and what it was specialised for. A kernel that was
//! changed has the same name, so every build has a directory of its own.
//!
//! It appends to its files and trusts them: what was damaged stays and is compiled and appended again at every start, and
//! a lock that a killed process left stops it for half a minute. So it works on a copy that no other process has, made
//! of an [`archive`] that is taken whole or not at all, and [`keep`] puts a new archive in the place of that one.
//!
//! ```text
//! BUILD/kernels           the archive
//! BUILD/PID-TIME-N/       the copy of a process
//! BUILD/PID-TIME-N.lock   locked as long as that process runs
//! ```

mod archive;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use cubecl::config::autotune::AutotuneLevel;
use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

use super::attempt::attempt;

/// Directories of other builds are removed when nobody wrote to them for so long.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// An archive of more bytes is none: the kernels of a model on one device take half a megabyte.
const MOST: u64 = 64 << 20;
/// Bytes that must be free: cubecl panics where it cannot write.
const ROOM: usize = 4 << 20;
/// Names that are tried for a copy. Another process takes one away only in the instant in which it is made.
const NAMES: usize = 8;

/// What the first [`configure`] of the process came to.
static STATE: OnceLock<State> = OnceLock::new();

struct State {
    copy: Option<WorkingCopy>,
    fault: Mutex<Option<String>>,
}

/// Where cubecl reads and writes in this process.
struct WorkingCopy {
    directory: PathBuf,
    archive: PathBuf,
    /// Of the archive that was read or written last; 0: none was.
    checksum: Mutex<u64>,
    /// Who sweeps leaves the directory alone until this is closed, which the system does.
    _lock: File,
}

/// Sets cubecl up, which can be done once in a process and before any device is used: compiled kernels are kept below
/// `root`, where that can be written to. Later calls do nothing.
pub fn configure(root: Option<&Path>) {
    STATE.get_or_init(|| {
        let mut config = CubeClRuntimeConfig::default().override_from_env();
        // Nothing here is tuned: the kernels are ours.
        config.autotune.level = AutotuneLevel::Minimal;
        let (mut copy, fault) = match root.map(|root| (root, WorkingCopy::new(root))) {
            None => (None, None),
            Some((_, Ok(copy))) => (Some(copy), None),
            Some((root, Err(error))) => {
                let fault = format!("`{}` cannot be used: {error}", root.display());
                (None, Some(fault))
            }
        };
        if let Some(copy) = &copy {
            config.autotune.cache = CacheConfig::File(copy.directory.clone());
            config.compilation.cache = Some(CacheConfig::File(copy.directory.clone()));
        }
        // Something may have read it before; then it stays as it is, and kernels are compiled at each start.
        if attempt(|| CubeClRuntimeConfig::set(config)).is_err() {
            copy = None;
        }
        State {
            copy,
            fault: Mutex::new(fault),
        }
    });
}

/// Why nothing is kept, where that was wanted: the first time that it is asked for.
pub fn fault() -> Option<String> {
    let fault = &STATE.get()?.fault;
    fault.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Keeps what was compiled so far, for the next start. That it fails costs only time then.
pub fn keep() {
    if let Some(copy) = STATE.get().and_then(|state| state.copy.as_ref()) {
        let _ = copy.keep();
    }
}

impl WorkingCopy {
    /// A copy of what is kept for this build below `root`, in a directory of its own.
    fn new(root: &Path) -> io::Result<Self> {
        let build = root.join(name_of_this_build()?);
        remove_old(root, &build);
        if build.is_file() {
            fs::remove_file(&build)?;
        }
        fs::create_dir_all(&build)?;
        sweep(&build);
        let (directory, lock) = claim(&build)?;
        let archive = build.join("kernels");
        let filled = fill(&directory, &archive);
        if filled.is_err() {
            let _ = fs::remove_dir_all(&directory);
        }
        Ok(Self {
            checksum: Mutex::new(filled?),
            directory,
            archive,
            _lock: lock,
        })
    }

    /// Puts what is in the copy in the place of the archive, if that is something else.
    fn keep(&self) -> io::Result<()> {
        let mut kept = self.checksum.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(packed) = archive::pack(&self.directory)? else {
            return Ok(());
        };
        let checksum = archive::checksum(&packed);
        if checksum == *kept {
            return Ok(());
        }
        if packed.len() as u64 > MOST {
            // The next start begins anew.
            return fs::remove_file(&self.archive);
        }
        let new = self.directory.join("new");
        fs::write(&new, packed)?;
        if fs::rename(&new, &self.archive).is_err() {
            // A directory is there, where none should be.
            fs::remove_dir_all(&self.archive)?;
            fs::rename(&new, &self.archive)?;
        }
        *kept = checksum;
        Ok(())
    }
}

/// Puts the files of `archive` into `directory` and gives its checksum; one that is damaged counts as none.
fn fill(directory: &Path, archive: &Path) -> io::Result<u64> {
    let probe = directory.join("probe");
    fs::write(&probe, vec![0; ROOM])?;
    fs::remove_file(&probe)?;
    // What is no file, or of any size, is not for reading.
    let readable = fs::metadata(archive).is_ok_and(|file| file.is_file() && file.len() <= MOST);
    let Some(Ok(bytes)) = readable.then(|| fs::read(archive)) else {
        return Ok(0);
    };
    let Some(files) = archive::unpack(&bytes) else {
        return Ok(0);
    };
    for (name, content) in files {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    Ok(archive::checksum(&bytes))
}

/// What tells this build from all others.
fn name_of_this_build() -> io::Result<String> {
    let program = std::env::current_exe()?.metadata()?;
    let built = program.modified()?.duration_since(UNIX_EPOCH);
    Ok(format!(
        "{}-{:x}-{:x}",
        env!("CARGO_PKG_VERSION"),
        program.len(),
        built.map_err(io::Error::other)?.as_millis()
    ))
}

/// An empty directory below `build` for this process alone, and the lock that says so.
fn claim(build: &Path) -> io::Result<(PathBuf, File)> {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    for number in 0..NAMES {
        let directory = build.join(format!("{}-{now:x}-{number}", std::process::id()));
        let path = directory.with_extension("lock");
        let lock = File::options().write(true).create_new(true).open(&path)?;
        match lock.try_lock() {
            // Who sweeps may have been there between the two, and have removed it.
            Ok(()) if path.exists() => {
                fs::create_dir(&directory)?;
                return Ok((directory, lock));
            }
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                let _ = fs::remove_file(&path);
                return Err(error);
            }
        }
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy))
}

/// Removes the copies of processes that are gone; that it fails hurts nobody.
fn sweep(build: &Path) {
    let Ok(entries) = fs::read_dir(build) else {
        return;
    };
    let locks = entries.flatten().map(|entry| entry.path());
    for lock in locks.filter(|path| path.extension().is_some_and(|end| end == "lock")) {
        let Ok(file) = File::open(&lock) else {
            continue;
        };
        if file.try_lock().is_ok() {
            let directory = lock.with_extension("");
            // The lock goes last, so that another sweep finds what this one leaves.
            if fs::remove_dir_all(&directory).is_ok() || !directory.exists() {
                let _ = fs::remove_file(&lock);
            }
        }
    }
}

/// Removes what builds that are no longer used left below `root`; that it fails hurts nobody.
fn remove_old(root: &Path, current: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let old = entry.path() != current
            && entry
                .metadata()
                .and_then(|entry| entry.modified())
                .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEPT));
        if old {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as cubecl writes it: the pair of an integer and a text.
    const RECORD: &[u8] = b"\x82\x07\x63abc";

    fn write(copy: &WorkingCopy, content: &[u8]) {
        let directory = copy.directory.join("vulkan/0.10.0/spirv");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("chunk0.cbor"), content).unwrap();
    }

    fn read(copy: &WorkingCopy) -> Option<Vec<u8>> {
        fs::read(copy.directory.join("vulkan/0.10.0/spirv/chunk0.cbor")).ok()
    }

    #[test]
    fn copies_of_processes_that_are_gone_are_removed_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (
            WorkingCopy::new(root.path()).unwrap(),
            WorkingCopy::new(root.path()).unwrap(),
        );
        assert!(one.directory.is_dir() && two.directory.is_dir());
        let gone = one.directory.clone();
        drop(one);
        let _three = WorkingCopy::new(root.path()).unwrap();
        assert!(!gone.exists() && !gone.with_extension("lock").exists());
        assert!(two.directory.is_dir());
    }

    #[test]
    fn who_runs_at_the_same_time_loses_at_most_what_was_compiled() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (
            WorkingCopy::new(root.path()).unwrap(),
            WorkingCopy::new(root.path()).unwrap(),
        );
        write(&one, RECORD);
        write(&two, &RECORD.repeat(2));
        one.keep().unwrap();
        assert_eq!(
            read(&WorkingCopy::new(root.path()).unwrap()),
            Some(RECORD.to_vec())
        );
        two.keep().unwrap();
        assert_eq!(
            read(&WorkingCopy::new(root.path()).unwrap()),
            Some(RECORD.repeat(2))
        );
        // What a process kept is not written again by it, also where another one came between.
        one.keep().unwrap();
        assert_eq!(
            read(&WorkingCopy::new(root.path()).unwrap()),
            Some(RECORD.repeat(2))
        );
    }

    #[test]
    fn half_a_record_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let copy = WorkingCopy::new(root.path()).unwrap();
        write(&copy, &RECORD[..RECORD.len() - 1]);
        copy.keep().unwrap();
        assert!(!copy.archive.exists());
        write(&copy, RECORD);
        copy.keep().unwrap();
        assert!(copy.archive.exists());
    }

    #[test]
    fn an_archive_that_became_too_large_is_begun_anew() {
        let root = tempfile::tempdir().unwrap();
        let copy = WorkingCopy::new(root.path()).unwrap();
        write(&copy, RECORD);
        copy.keep().unwrap();
        write(&copy, &vec![0; MOST as usize]);
        copy.keep().unwrap();
        assert!(!copy.archive.exists());
    }

    #[test]
    fn what_cannot_be_written_to_is_a_fault_that_says_why() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = WorkingCopy::new(&file.path().join("kernels"))
            .err()
            .unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }
}
