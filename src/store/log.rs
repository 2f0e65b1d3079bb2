//! Writing a session: one line per record, whole or not at all.

use std::fs::{File, TryLockError};
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
    /// A new file.
    pub(super) fn begin(
        id: String,
        path: PathBuf,
        file: File,
        created: SystemTime,
    ) -> Result<Self, Error> {
        lock(&file, &id, &path)?;
        let end = End {
            at: 0,
            open: false,
            torn: false,
        };
        let mut log = Self::resume(id, path, file, &end);
        log.write(&Header::new(created))?;
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

    /// Adds a record and waits until it is on the disk. Its cost does not depend on what is there already.
    ///
    /// # Errors
    /// [`Error::Io`]: the record is then not in the file, and the next one may be tried.
    pub fn append(&mut self, record: &Record) -> Result<(), Error> {
        self.write(&Line::from(record))
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let failed = |error| Error::io("write", &self.path)(error);
        let mut bytes = Vec::new();
        if self.end.open {
            bytes.push(b'\n');
        }
        serde_json::to_writer(&mut bytes, line).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        if self.end.torn {
            self.file.set_len(self.end.at).map_err(failed)?;
        }
        // Whatever happens from here on, there may be something behind the end.
        self.end.torn = true;
        self.file
            .seek(SeekFrom::Start(self.end.at))
            .and_then(|_| self.file.write_all(&bytes))
            .and_then(|()| self.file.sync_data())
            .map_err(failed)?;
        self.end = End {
            at: self.end.at + bytes.len() as u64,
            open: false,
            torn: false,
        };
        Ok(())
    }
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
