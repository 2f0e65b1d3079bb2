//! Carrying out a [`Plan`]: one file after the other, each going on where an earlier attempt ended.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::digest::{Context, SHA256};

use super::cache::{may_be_commit, missing};
use super::client::Client;
use super::plan::part;
use super::{Error, Hub, OnProgress, Plan, PlannedFile, Progress};

const BUFFER: usize = 256 * 1024;
/// How often a wait looks whether it should end.
const WAIT_STEP: Duration = Duration::from_millis(50);

impl Hub {
    /// Fetches the files of `plan` into the cache and gives the snapshot directory.
    ///
    /// A file becomes visible only when its length, and where the hub gives one its hash, is right. A
    /// revision that pointed to a complete snapshot goes on doing so until the new one is complete.
    ///
    /// # Errors
    /// [`Error::Space`] before the first request if the disk is too small, [`Error::Cancelled`] if
    /// `on_progress` says so, and what can go wrong with a request or a disk.
    pub fn fetch(&self, plan: &Plan, on_progress: &mut OnProgress) -> Result<PathBuf, Error> {
        if let Some(free) = plan.free.filter(|_| !plan.fits()) {
            return Err(Error::Space {
                directory: self.cache.clone(),
                needed: plan.bytes,
                free: Some(free),
            });
        }
        let snapshot = self
            .cached(&plan.id, &plan.commit)
            .pointer_path(&plan.commit);
        fs::create_dir_all(&snapshot).map_err(|source| Error::io(&snapshot, source))?;
        let reference = self.repo_dir(&plan.id).join("refs").join(&plan.revision);
        if !reference.exists() {
            self.point(plan, &reference)?;
        }
        let mut transfer = Transfer {
            hub: self,
            plan,
            client: Client::new(self, &plan.id)?,
            on_progress,
            others: plan.files.iter().map(|file| file.done).sum(),
            total: plan.files.iter().map(|file| file.size).sum(),
        };
        for file in &plan.files {
            transfer.others -= file.done;
            let blob = transfer.file(file)?;
            transfer.others += file.size;
            link(&blob, &snapshot.join(&file.name))?;
        }
        self.point(plan, &reference)?;
        let missing = missing(&snapshot);
        if missing.is_empty() {
            return Ok(snapshot);
        }
        Err(Error::Incomplete {
            id: plan.id.clone(),
            missing,
            directory: snapshot,
        })
    }

    /// Lets the revision point to the commit. A commit points to itself.
    fn point(&self, plan: &Plan, reference: &Path) -> Result<(), Error> {
        if may_be_commit(&plan.revision) && plan.commit.starts_with(&plan.revision) {
            return Ok(());
        }
        self.cached(&plan.id, &plan.revision)
            .create_ref(&plan.commit)
            .map_err(|source| Error::io(reference, source))
    }
}

/// A download under way.
struct Transfer<'a, 'p> {
    hub: &'a Hub,
    plan: &'a Plan,
    client: Client<'a>,
    on_progress: &'a mut OnProgress<'p>,
    /// Bytes on disk of all files but the current one.
    others: u64,
    total: u64,
}

/// A file that grows, and the hash of what is in it.
struct Part {
    path: PathBuf,
    file: File,
    length: u64,
    hash: Option<Context>,
}

impl Transfer<'_, '_> {
    /// Brings one file into the blobs and gives its path there.
    fn file(&mut self, planned: &PlannedFile) -> Result<PathBuf, Error> {
        let blob = self
            .hub
            .cached(&self.plan.id, &self.plan.commit)
            .blob_path(&planned.metadata.etag);
        let blobs = self.hub.repo_dir(&self.plan.id).join("blobs");
        fs::create_dir_all(&blobs).map_err(|source| Error::io(&blobs, source))?;
        let is_done = || fs::metadata(&blob).is_ok_and(|file| file.len() == planned.size);
        if is_done() {
            return Ok(blob);
        }
        let mut part = Part::open(&part(&blob), planned)?;
        if is_done() {
            // Another process finished it between the look above and our lock.
            return Ok(blob);
        }
        self.report(planned, &part)?;
        if let Some(content) = &planned.content {
            part.restart()?;
            part.append(content, self.plan.bytes)?;
        } else {
            self.fill(planned, &mut part)?;
        }
        part.finish(planned, &blob)?;
        Ok(blob)
    }

    fn report(&mut self, planned: &PlannedFile, part: &Part) -> Result<(), Error> {
        let progress = Progress {
            file: planned.name.clone(),
            file_done: part.length,
            file_total: planned.size,
            done: self.others + part.length,
            total: self.total,
        };
        match (self.on_progress)(&progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }

    /// Requests what is missing until nothing is. A transfer that breaks off is taken up again as long as
    /// the attempts bring something, or the waits last.
    fn fill(&mut self, planned: &PlannedFile, part: &mut Part) -> Result<(), Error> {
        let mut waits = self.hub.retry_waits.iter();
        let mut anything_came = false;
        while part.length < planned.size {
            let before = part.length;
            let error = match self.attempt(planned, part) {
                Ok(()) => continue,
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            if part.length > before {
                anything_came = true;
                waits = self.hub.retry_waits.iter();
            }
            // A host that gave nothing at all is not a transfer that broke off.
            let wait = waits.next().filter(|_| anything_came).ok_or(error)?;
            self.wait(*wait, planned, part)?;
        }
        Ok(())
    }

    fn wait(&mut self, wait: Duration, planned: &PlannedFile, part: &Part) -> Result<(), Error> {
        let mut left = wait;
        while !left.is_zero() {
            let step = left.min(WAIT_STEP);
            std::thread::sleep(step);
            left -= step;
            self.report(planned, part)?;
        }
        Ok(())
    }

    /// One request.
    fn attempt(&mut self, planned: &PlannedFile, part: &mut Part) -> Result<(), Error> {
        let mut tail =
            self.client
                .tail(&self.plan.commit, &planned.name, part.length, planned.size)?;
        if tail.start < part.length {
            part.restart()?;
        }
        let broke_off = |part: &Part, reason: String| Error::BrokeOff {
            file: planned.name.clone(),
            done: part.length,
            size: planned.size,
            reason,
        };
        let mut buffer = vec![0; BUFFER];
        while part.length < planned.size {
            let wanted = (planned.size - part.length).min(BUFFER as u64) as usize;
            let read = match tail.reader.read(&mut buffer[..wanted]) {
                Ok(0) => return Err(broke_off(part, "the server ended it".to_owned())),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broke_off(part, error.to_string())),
            };
            part.append(&buffer[..read], planned.size - part.length)?;
            self.report(planned, part)?;
        }
        Ok(())
    }
}

impl Part {
    /// Opens what an earlier attempt left, or a new file, for this process alone.
    fn open(path: &Path, planned: &PlannedFile) -> Result<Self, Error> {
        let failed = |source| Error::io(path, source);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked {
                    file: planned.name.clone(),
                });
            }
            // A file system without locks is no reason not to write to it.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut length = file.metadata().map_err(failed)?.len();
        if length > planned.size {
            file.set_len(0).map_err(failed)?;
            length = 0;
        }
        let hash = match &planned.metadata.sha256 {
            Some(_) => Some(hash(&mut file).map_err(failed)?),
            None => None,
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            length,
            hash,
        })
    }

    fn restart(&mut self) -> Result<(), Error> {
        self.file
            .set_len(0)
            .map_err(|source| Error::io(&self.path, source))?;
        self.length = 0;
        if self.hash.is_some() {
            self.hash = Some(Context::new(&SHA256));
        }
        Ok(())
    }

    /// Adds `bytes`; `needed` is what the message says if the disk is full.
    fn append(&mut self, bytes: &[u8], needed: u64) -> Result<(), Error> {
        self.file
            .write_all(bytes)
            .map_err(|source| match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Space {
                    directory: self.path.parent().unwrap_or(&self.path).to_owned(),
                    needed,
                    free: None,
                },
                _ => Error::io(&self.path, source),
            })?;
        self.length += bytes.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        Ok(())
    }

    /// Checks the hash and gives the file its final name.
    fn finish(self, planned: &PlannedFile, blob: &Path) -> Result<(), Error> {
        if let (Some(expected), Some(hash)) = (&planned.metadata.sha256, self.hash) {
            let found = hex(hash.finish().as_ref());
            if found != *expected {
                fs::remove_file(&self.path).map_err(|source| Error::io(&self.path, source))?;
                return Err(Error::Hash {
                    file: planned.name.clone(),
                    expected: expected.clone(),
                    found,
                });
            }
        }
        self.file
            .sync_data()
            .map_err(|source| Error::io(&self.path, source))?;
        fs::rename(&self.path, blob).map_err(|source| Error::io(&self.path, source))
    }
}

fn hash(file: &mut File) -> io::Result<Context> {
    let mut hash = Context::new(&SHA256);
    let mut buffer = vec![0; BUFFER];
    file.seek(SeekFrom::Start(0))?;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).fold(
        String::with_capacity(bytes.len() * 2),
        |mut text, digit| {
            text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
            text
        },
    )
}

/// Lets `pointer` in the snapshot be `blob`, by a relative link as `huggingface_hub` makes them.
fn link(blob: &Path, pointer: &Path) -> Result<(), Error> {
    let failed = |source| Error::io(pointer, source);
    match fs::remove_file(pointer) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(failed(source)),
    }
    let name = blob.file_name().expect("a blob's path ends in its etag");
    let target = Path::new("../../blobs").join(name);
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, pointer).map_err(failed);
    // Links need a privilege there; the file itself does as well.
    #[cfg(windows)]
    return std::os::windows::fs::symlink_file(target, pointer)
        .or_else(|_| fs::rename(blob, pointer))
        .map_err(failed);
}
