//! The cache on disk: which snapshot a revision is, and whether it is whole.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::model_ref::{check_id, check_revision};
use super::{DEFAULT_REVISION, Error, Hub, Located, decimal_bytes};

pub(super) const CONFIG: &str = "config.json";
pub(super) const GENERATION_CONFIG: &str = "generation_config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const INDEX: &str = "model.safetensors.index.json";
pub(super) const SINGLE: &str = "model.safetensors";

/// A commit is forty hexadecimal digits; fewer than this many name none.
const MIN_COMMIT_DIGITS: usize = 4;

/// The format's own limit for the header of a safetensors file.
const MAX_SAFETENSORS_HEADER: u64 = 100_000_000;

impl Hub {
    /// What the cache holds of `id` at `revision` (a branch, a tag, a commit or its first digits;
    /// `main` where there is none). No network.
    ///
    /// # Errors
    /// [`Error::Name`] if the name could not be one, [`Error::Ambiguous`] if several commits begin
    /// with `revision`, [`Error::Io`] if the cache cannot be read.
    pub fn locate(&self, id: &str, revision: Option<&str>) -> Result<Located, Error> {
        let Some(commit) = self.commit(id, revision)? else {
            return Ok(Located::Absent);
        };
        let snapshot = self.cached(id, &commit).pointer_path(&commit);
        let missing = missing(&snapshot);
        Ok(if missing.is_empty() {
            Located::Complete(snapshot)
        } else {
            Located::Incomplete { missing }
        })
    }

    /// The directory that holds, or would hold, all that the cache has of `id`.
    pub fn repo_dir(&self, id: &str) -> PathBuf {
        self.cache.join(model(id, DEFAULT_REVISION).folder_name())
    }

    pub(super) fn cached(&self, id: &str, revision: &str) -> CacheRepo {
        Cache::new(self.cache.clone()).repo(model(id, revision))
    }

    /// The commit that `revision` is in the cache.
    fn commit(&self, id: &str, revision: Option<&str>) -> Result<Option<String>, Error> {
        let revision = revision.unwrap_or(DEFAULT_REVISION);
        check(id, revision)?;
        let directory = self.repo_dir(id);
        let reference = directory.join("refs").join(revision);
        match fs::read_to_string(&reference) {
            Ok(commit) if is_plain_name(commit.trim()) => {
                return Ok(Some(commit.trim().to_owned()));
            }
            // A directory is the first part of a longer name, such as `refs/pr` of `refs/pr/1`.
            Ok(_) => {}
            Err(_) if !reference.is_file() => {}
            Err(source) => return Err(Error::io(&reference, source)),
        }
        let commits = subdirectories(&directory.join("snapshots"))?;
        if commits.contains(revision) {
            return Ok(Some(revision.to_owned()));
        }
        if !may_be_commit(revision) {
            return Ok(None);
        }
        let mut matching: Vec<_> = commits
            .into_iter()
            .filter(|commit| commit.starts_with(revision))
            .collect();
        match matching.len() {
            0 | 1 => Ok(matching.pop()),
            _ => Err(Error::Ambiguous {
                id: id.to_owned(),
                revision: revision.to_owned(),
                commits: matching,
            }),
        }
    }
}

pub(super) fn model(id: &str, revision: &str) -> Repo {
    Repo::with_revision(id.to_owned(), RepoType::Model, revision.to_owned())
}

pub(super) fn check(id: &str, revision: &str) -> Result<(), Error> {
    check_id(id)
        .and_then(|()| check_revision(revision))
        .map_err(|reason| Error::Name {
            value: format!("{id}@{revision}"),
            reason: reason.to_owned(),
        })
}

/// Whether `revision` can be a commit or its first digits, and so needs no file in `refs/`.
pub(super) fn may_be_commit(revision: &str) -> bool {
    revision.len() >= MIN_COMMIT_DIGITS && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a text from the network or a file can be a file name and nothing else.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn subdirectories(directory: &Path) -> Result<BTreeSet<String>, Error> {
    let failed = |source| Error::io(directory, source);
    match fs::read_dir(directory) {
        Ok(entries) => entries
            .filter(|entry| {
                entry.as_ref().is_ok_and(|entry| entry.path().is_dir()) || entry.is_err()
            })
            .map(|entry| {
                Ok(entry
                    .map_err(failed)?
                    .file_name()
                    .to_string_lossy()
                    .into_owned())
            })
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(failed(error)),
    }
}

/// What [`missing`] says of an empty snapshot.
pub(super) fn nothing_of() -> Vec<String> {
    vec![
        format!("{INDEX} or {SINGLE}"),
        CONFIG.to_owned(),
        TOKENIZER.to_owned(),
    ]
}

/// What of a usable checkpoint `snapshot` lacks, each with the reason where the name does not say it.
pub(super) fn missing(snapshot: &Path) -> Vec<String> {
    let mut names = vec![CONFIG.to_owned(), TOKENIZER.to_owned()];
    let mut missing = Vec::new();
    match fs::read(snapshot.join(INDEX)) {
        Ok(text) => match shards(&text) {
            Ok(shards) => names.extend(shards),
            Err(reason) => missing.push(format!("{INDEX} ({reason})")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if snapshot.join(SINGLE).exists() {
                names.push(SINGLE.to_owned());
            } else {
                missing.push(format!("{INDEX} or {SINGLE}"));
            }
        }
        Err(error) => missing.push(format!("{INDEX} ({error})")),
    }
    missing.extend(
        names
            .iter()
            .filter_map(|name| match whole(&snapshot.join(name)) {
                Ok(()) => None,
                Err(Flaw::Absent) => Some(name.clone()),
                Err(flaw) => Some(format!("{name} ({flaw})")),
            }),
    );
    missing
}

/// The files that an index names, in order. The published ones are numbered from 0, others from 1: only
/// the index knows.
pub(super) fn shards(index: &[u8]) -> Result<BTreeSet<String>, String> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    let index: Index = serde_json::from_slice(index).map_err(|error| error.to_string())?;
    let shards: BTreeSet<_> = index.weight_map.into_values().collect();
    if shards.is_empty() {
        return Err("it names no file".to_owned());
    }
    match shards.iter().find(|name| !is_plain_name(name)) {
        Some(name) => Err(format!("it names `{name}`, which is not a file name")),
        None => Ok(shards),
    }
}

/// What is wrong with a file of a snapshot.
#[derive(Debug, thiserror::Error)]
pub(super) enum Flaw {
    #[error("not there")]
    Absent,
    #[error("empty")]
    Empty,
    #[error("{} of {}", decimal_bytes(*found), decimal_bytes(*expected))]
    Short { found: u64, expected: u64 },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Whether a file can be read and, for weights, has all its bytes. What the bytes mean is the
/// checkpoint's to judge: a file that is no safetensors passes here and is refused there.
pub(super) fn whole(path: &Path) -> Result<(), Flaw> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Flaw::Absent),
        Err(error) => return Err(error.into()),
    };
    let found = file.metadata()?.len();
    if found == 0 {
        return Err(Flaw::Empty);
    }
    if path.extension().is_some_and(|end| end == "safetensors")
        && let Some(expected) = safetensors_length(&file)?
        && found < expected
    {
        return Err(Flaw::Short { found, expected });
    }
    Ok(())
}

/// The length that a safetensors file says it has: eight bytes, the header whose length they give, and
/// the tensors' bytes. Nothing if this is no safetensors file.
fn safetensors_length(mut file: &File) -> io::Result<Option<u64>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Tensor { data_offsets: (u64, u64) },
        Other(IgnoredAny),
    }
    let mut length = [0; 8];
    if file.read(&mut length)? < length.len() {
        return Ok(None);
    }
    let header_length = u64::from_le_bytes(length);
    if header_length > MAX_SAFETENSORS_HEADER {
        return Ok(None);
    }
    let mut header = Vec::new();
    file.take(header_length).read_to_end(&mut header)?;
    if header.first() != Some(&b'{') {
        return Ok(None);
    }
    let data = 8 + header_length;
    if (header.len() as u64) < header_length {
        return Ok(Some(data));
    }
    let Ok(entries) = serde_json::from_slice::<HashMap<String, Entry>>(&header) else {
        return Ok(None);
    };
    let end = entries.values().filter_map(|entry| match entry {
        Entry::Tensor { data_offsets } => Some(data_offsets.1),
        Entry::Other(_) => None,
    });
    Ok(end.max().and_then(|end| data.checked_add(end)))
}

#[cfg(test)]
mod tests;
