//! What has to be fetched, known before a byte of the weights is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::cache::{
    CONFIG, GENERATION_CONFIG, INDEX, SINGLE, TOKENIZER, nothing_of, shards, whole,
};
use super::client::{Client, Metadata};
use super::{DEFAULT_REVISION, Error, Hub, Located, cache};

/// What a download would do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `owner/name`
    pub id: String,
    /// What was asked for: a branch, a tag or a commit.
    pub revision: String,
    /// The commit that this is now.
    pub commit: String,
    /// The files that are not yet in the snapshot. What is there already is not listed.
    pub files: Vec<PlannedFile>,
    /// Bytes still to be fetched.
    pub bytes: u64,
    /// Free space where they would go, if the system tells.
    pub free: Option<u64>,
}

/// A file to be fetched.
#[derive(Clone, Debug)]
pub struct PlannedFile {
    /// Its name in the repository.
    pub name: String,
    /// Bytes of the whole file.
    pub size: u64,
    /// Bytes of it that are on disk from an earlier attempt, or from another revision.
    pub done: u64,
    pub(super) metadata: Metadata,
    /// What was read of it to make the plan.
    pub(super) content: Option<Vec<u8>>,
}

impl Plan {
    /// Whether the disk has room for it.
    pub fn fits(&self) -> bool {
        self.free.is_none_or(|free| self.bytes <= free)
    }
}

impl Hub {
    /// Asks the hub what is needed of `id` at `revision` and not yet in the cache. Reads the list of
    /// files, config.json and the index; writes nothing.
    ///
    /// # Errors
    /// [`Error::Offline`] without a request if `HF_HUB_OFFLINE` is set; [`Error::Unsupported`] if the
    /// repository holds no gpt-oss in the published form; what can go wrong with a request.
    pub fn plan(&self, id: &str, revision: Option<&str>) -> Result<Plan, Error> {
        let asked = revision.unwrap_or(DEFAULT_REVISION);
        cache::check(id, asked)?;
        if self.offline {
            return Err(self.offline_error(id, revision)?);
        }
        let client = Client::new(self, id)?;
        let info = client.info(asked)?;
        let commit = info.sha;
        let present: BTreeSet<_> = info
            .siblings
            .into_iter()
            .map(|file| file.rfilename)
            .collect();
        let snapshot = self.cached(id, &commit).pointer_path(&commit);
        let unsupported = |found: String| Error::Unsupported {
            id: id.to_owned(),
            found,
        };

        let weights = weights(&present).map_err(unsupported)?;
        let read = |name: &str| match fs::read(snapshot.join(name)) {
            Ok(text) => Ok(text),
            Err(_) => client.small(&commit, name),
        };
        let config = read(CONFIG)?;
        check_config(&config).map_err(unsupported)?;
        let mut names = vec![CONFIG.to_owned(), TOKENIZER.to_owned(), weights.to_owned()];
        if present.contains(GENERATION_CONFIG) {
            names.insert(1, GENERATION_CONFIG.to_owned());
        }
        let mut contents = vec![(CONFIG, config)];
        if weights == INDEX {
            let index = read(INDEX)?;
            let shards =
                shards(&index).map_err(|reason| unsupported(format!("{INDEX}: {reason}")))?;
            contents.push((INDEX, index));
            names.extend(shards);
        }
        if let Some(name) = names.iter().find(|name| !present.contains(*name)) {
            return Err(unsupported(format!(
                "it has no {name}, which its {INDEX} names"
            )));
        }

        let mut files = Vec::new();
        for name in names {
            if whole(&snapshot.join(&name)).is_ok() {
                continue;
            }
            let metadata = client.metadata(&commit, &name)?;
            let blob = self.cached(id, &commit).blob_path(&metadata.etag);
            files.push(PlannedFile {
                size: metadata.size,
                done: on_disk(&blob, metadata.size),
                content: contents
                    .iter()
                    .find(|(read, text)| *read == name && text.len() as u64 == metadata.size)
                    .map(|(_, text)| text.clone()),
                name,
                metadata,
            });
        }
        Ok(Plan {
            id: id.to_owned(),
            revision: asked.to_owned(),
            commit,
            bytes: files.iter().map(|file| file.size - file.done).sum(),
            free: free_space(&self.cache),
            files,
        })
    }

    fn offline_error(&self, id: &str, revision: Option<&str>) -> Result<Error, Error> {
        let missing = match self.locate(id, revision)? {
            Located::Incomplete { missing } => missing,
            Located::Absent => nothing_of(),
            Located::Complete(_) => Vec::new(),
        };
        Ok(Error::Offline {
            id: id.to_owned(),
            missing,
            directory: self.repo_dir(id),
        })
    }
}

/// The name that a blob has while it is being fetched. hf-hub uses the same one.
pub(super) fn part(blob: &Path) -> PathBuf {
    let mut name = blob.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// How much of a blob is there, whole or in part.
fn on_disk(blob: &Path, size: u64) -> u64 {
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    if length(blob) == size {
        return size;
    }
    // More than the whole is something else; it will be fetched anew.
    Some(length(&part(blob)))
        .filter(|done| *done <= size)
        .unwrap_or(0)
}

/// The file that leads to the weights, or what the repository holds instead.
fn weights(present: &BTreeSet<String>) -> Result<&'static str, String> {
    let some = |is_it: &dyn Fn(&str) -> bool| present.iter().any(|name| is_it(name));
    let found = [INDEX, SINGLE]
        .into_iter()
        .find(|name| present.contains(*name));
    let Some(weights) = found else {
        return Err(
            if some(&|name| name.to_ascii_lowercase().ends_with(".gguf")) {
                "GGUF files, which this program does not read".to_owned()
            } else if some(&|name| name.starts_with("original/") || name.starts_with("metal/")) {
                "only original/ or metal/, and only the Hugging Face form is fetched".to_owned()
            } else {
                format!("neither {INDEX} nor {SINGLE}")
            },
        );
    };
    match [CONFIG, TOKENIZER]
        .into_iter()
        .find(|name| !present.contains(*name))
    {
        Some(name) => Err(format!("no {name}")),
        None => Ok(weights),
    }
}

/// Refuses another architecture, and MLX's own quantisation, before gigabytes of it are here.
fn check_config(text: &[u8]) -> Result<(), String> {
    let config: Value =
        serde_json::from_slice(text).map_err(|error| format!("{CONFIG} is not JSON: {error}"))?;
    if let Some(kind) = config.get("model_type").and_then(Value::as_str)
        && kind != "gpt_oss"
    {
        return Err(format!("a model of type `{kind}`, expected `gpt_oss`"));
    }
    let mlx = |key: &str| {
        config
            .get("quantization")
            .is_some_and(|group| group.get(key).is_some())
    };
    if mlx("group_size") && mlx("bits") {
        return Err("MLX's quantised form, which this program does not read".to_owned());
    }
    Ok(())
}

/// Free bytes on the disk that holds `directory`, which need not exist yet.
#[cfg(unix)]
#[allow(clippy::useless_conversion)] // The counts are 32 bits wide on some systems.
fn free_space(directory: &Path) -> Option<u64> {
    let existing = directory.ancestors().find(|path| path.exists())?;
    let disk = nix::sys::statvfs::statvfs(existing).ok()?;
    u64::from(disk.blocks_available()).checked_mul(u64::from(disk.fragment_size()))
}

#[cfg(not(unix))]
fn free_space(_directory: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights_among(names: &[&str]) -> Result<&'static str, String> {
        weights(&names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn the_weights_are_what_the_index_names_or_the_one_file() {
        assert_eq!(weights_among(&[CONFIG, TOKENIZER, SINGLE]), Ok(SINGLE));
        assert_eq!(
            weights_among(&[CONFIG, TOKENIZER, INDEX, SINGLE]),
            Ok(INDEX)
        );
        for (names, found) in [
            (
                vec![CONFIG, "gpt-oss.Q4.GGUF"],
                "GGUF files, which this program does not read",
            ),
            (
                vec![CONFIG, "original/model.safetensors"],
                "only original/ or metal/, and only the Hugging Face form is fetched",
            ),
            (
                vec![],
                "neither model.safetensors.index.json nor model.safetensors",
            ),
            (vec![TOKENIZER, SINGLE], "no config.json"),
            (vec![CONFIG, SINGLE], "no tokenizer.json"),
        ] {
            assert_eq!(weights_among(&names), Err(found.to_owned()));
        }
    }

    #[test]
    fn refuses_another_architecture_and_mlx_before_the_weights_are_fetched() {
        for (config, expected) in [
            (
                r#"{"model_type": "gpt_oss", "quantization_config": {"bits": 4}}"#,
                Ok(()),
            ),
            ("{}", Ok(())),
            (
                r#"{"model_type": "llama"}"#,
                Err("a model of type `llama`, expected `gpt_oss`"),
            ),
            (
                r#"{"model_type": "gpt_oss", "quantization": {"group_size": 64, "bits": 8}}"#,
                Err("MLX's quantised form, which this program does not read"),
            ),
            (
                "<html>",
                Err("config.json is not JSON: expected value at line 1 column 1"),
            ),
        ] {
            assert_eq!(
                check_config(config.as_bytes()),
                expected.map_err(str::to_owned)
            );
        }
    }

    #[test]
    fn free_space_is_that_of_the_nearest_directory_that_exists() {
        let directory = tempfile::tempdir().unwrap();
        let here = free_space(directory.path());
        let below = free_space(&directory.path().join("not/yet"));
        assert_eq!(here.is_some(), cfg!(unix));
        assert_eq!(below.is_some(), cfg!(unix));
    }
}
