//! Writing a session: one line per record, whole or not at all.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use super::record::{Header, Line};
use super::{Error, Record};

/// Where a session's file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// After the last whole line.
    pub at: u64,
    /// That line lacks its line break.
    pub open: bool,
    /// There is a torn line behind it.
    pub torn: bool,
}

/// The open file of a session. It is locked as long as this lives.
#[derive(Debug)]
pub struct Log {
    id: String,
    path: PathBuf,
    file: File,
    end: End,
}

impl Log {
    /// A new file, written at once with what is first in it.
    pub(super) fn begin(
        id: String,
        path: PathBuf,
        file: File,
        created: SystemTime,
        first: &[Record],
    ) -> Result<Self, Error> {
        lock(&file, &id, &path)?;
        let end = End {
            at: 0,
            open: false,
            torn: false,
        };
        let mut log = Self::resume(id, path, file, &end);
        let mut bytes = log.line(&Header::new(created))?;
        for record in first {
            bytes.extend(log.line(&Line::from(record))?);
        }
        log.write(&bytes, true)?;
        // The name of the file is to survive a crash too; some systems cannot flush a directory.
        if let Some(directory) = log.path.parent().and_then(|path| File::open(path).ok()) {
            let _ = directory.sync_all();
        }
        Ok(log)
    }

    /// A file that was read up to `end`.
    pub(super) fn resume(id: String, path: PathBuf, file: File, end: &End) -> Self {
        Self {
            id,
            path,
            file,
            end: *end,
        }
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The session's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds records, all of them or none, and waits until they are on the disk. The cost does not depend on what is
    /// there already. A [`Record::Partial`] alone is not waited for: it outlives the program, and the turn follows.
    ///
    /// # Errors
    /// [`Error::Io`]: the records are then not in the file, and may be tried again. [`Error::Lost`]: the file is not
    /// the one that was opened, so what is in it is no longer known.
    pub fn append(&mut self, records: &[Record]) -> Result<(), Error> {
        self.check_place()?;
        let mut bytes = Vec::new();
        if self.end.open {
            bytes.push(b'\n');
        }
        for record in records {
            bytes.extend(self.line(&Line::from(record))?);
        }
        let is_partial = |record: &Record| matches!(record, Record::Partial(_));
        self.write(&bytes, !records.iter().all(is_partial))
    }

    fn line(&self, line: &impl Serialize) -> Result<Vec<u8>, Error> {
        let mut bytes = serde_json::to_vec(line)
            .map_err(|error| Error::io("write", &self.path)(error.into()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The file under the path is the open one, and as this program left it.
    fn check_place(&self) -> Result<(), Error> {
        let lost = |how| Error::Lost {
            path: self.path.clone(),
            how,
        };
        let there = match fs::metadata(&self.path) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(lost("deleted"));
            }
            there => there,
        };
        // What cannot be looked at is not known to be lost.
        let (Ok(there), Ok(open)) = (there, self.file.metadata()) else {
            return Ok(());
        };
        if !is_same(&there, &open) {
            return Err(lost("replaced"));
        }
        let length = open.len();
        if length < self.end.at || (length > self.end.at && !self.end.torn) {
            return Err(lost("changed"));
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], waits: bool) -> Result<(), Error> {
        let failed = |error| Error::io("write", &self.path)(error);
        if self.end.torn {
            self.file.set_len(self.end.at).map_err(failed)?;
        }
        // Whatever happens from here on, there may be something behind the end.
        self.end.torn = true;
        self.file
            .seek(SeekFrom::Start(self.end.at))
            .and_then(|_| self.file.write_all(bytes))
            .and_then(|()| if waits { self.file.sync_data() } else { Ok(()) })
            .map_err(failed)?;
        self.end = End {
            at: self.end.at + bytes.len() as u64,
            open: false,
            torn: false,
        };
        Ok(())
    }
}

#[cfg(unix)]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Elsewhere a file that is open cannot be replaced.
#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// Keeps other programs out. A file system without locks keeps nobody out.
pub(super) fn lock(file: &File, id: &str, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::Busy(id.to_owned())),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}
