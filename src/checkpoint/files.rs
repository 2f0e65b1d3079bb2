//! Finding the files of a checkpoint and mapping them, before anything is known of what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::bytes::Bytes;
use super::error::Error;

const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const CONFIG: &str = "config.json";
const ORIGINAL: &str = "original";

const CONFIG_LIMIT: u64 = 16 << 20;
const INDEX_LIMIT: u64 = 64 << 20;
// The published one has 28 MB.
const TOKENIZER_LIMIT: u64 = 512 << 20;

/// A file with its name, which the errors need.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub path: PathBuf,
    pub bytes: Bytes,
}

/// model.safetensors.index.json: tensor to shard.
#[derive(Debug)]
pub(super) struct Index {
    pub path: PathBuf,
    pub weight_map: BTreeMap<String, String>,
}

/// All files of one checkpoint.
#[derive(Debug)]
pub(super) struct Files {
    /// Where the weights are; for messages.
    pub directory: PathBuf,
    pub config: Named,
    pub generation_config: Option<Named>,
    pub tokenizer: Option<Named>,
    pub weights: Vec<Named>,
    pub index: Option<Index>,
}

impl Files {
    /// Finds the files in `directory`, or in its `original/` where only that has weights.
    pub fn find(directory: &Path) -> Result<Self, Error> {
        Self::read(Self::place(directory)?)
    }

    /// The config.json that [`Files::find`] would read.
    pub fn config(directory: &Path) -> Result<Named, Error> {
        let directory = Self::place(directory)?;
        read(&directory.join(CONFIG), CONFIG_LIMIT)?.ok_or_else(|| no_config(directory))
    }

    /// Where the weights are.
    fn place(directory: &Path) -> Result<PathBuf, Error> {
        let metadata = fs::metadata(directory).map_err(|reason| match reason.kind() {
            io::ErrorKind::NotFound => Error::NoDirectory {
                path: directory.to_owned(),
            },
            _ => unreadable(directory, reason),
        })?;
        if !metadata.is_dir() {
            return Err(match directory.extension() {
                Some(extension) if extension.eq_ignore_ascii_case("gguf") => {
                    Error::UnsupportedForm {
                        path: directory.to_owned(),
                        form: "GGUF",
                    }
                }
                _ => Error::NotADirectory {
                    path: directory.to_owned(),
                },
            });
        }
        let original = directory.join(ORIGINAL);
        if holds_weights(directory)? {
            Ok(directory.to_owned())
        } else if original.is_dir() && holds_weights(&original)? {
            Ok(original)
        } else {
            Err(no_weights(directory)?)
        }
    }

    fn read(directory: PathBuf) -> Result<Self, Error> {
        let config = read(&directory.join(CONFIG), CONFIG_LIMIT)?
            .ok_or_else(|| no_config(directory.clone()))?;
        // `original/` holds weights and config.json only; the rest is published beside it. Absolute, for the sake of `.`.
        let absolute = std::path::absolute(&directory).ok();
        let parent = absolute
            .as_deref()
            .filter(|path| path.ends_with(ORIGINAL))
            .and_then(Path::parent);
        let beside = |name: &str, limit| match (read(&directory.join(name), limit)?, parent) {
            (None, Some(parent)) => read(&parent.join(name), limit),
            (found, _) => Ok(found),
        };
        let generation_config = beside("generation_config.json", CONFIG_LIMIT)?;
        let tokenizer = beside("tokenizer.json", TOKENIZER_LIMIT)?;

        let (weights, index) = find_weights(&directory)?;
        Ok(Self {
            directory,
            config,
            generation_config,
            tokenizer,
            weights,
            index,
        })
    }
}

/// `model.safetensors` before the index, as transformers looks for them. Without either all .safetensors files, as
/// `gpt_oss/torch/weights.py` reads them.
fn find_weights(directory: &Path) -> Result<(Vec<Named>, Option<Index>), Error> {
    let whole = directory.join(WEIGHTS);
    if whole.is_file() {
        return Ok((vec![map(whole)?], None));
    }
    let Some(text) = read(&directory.join(INDEX), INDEX_LIMIT)? else {
        let names = safetensors_files(directory)?;
        let weights = names.into_iter().map(map).collect::<Result<_, _>>()?;
        return Ok((weights, None));
    };
    let index = Index::parse(text)?;
    let shards: BTreeSet<&String> = index.weight_map.values().collect();
    let weights = shards
        .into_iter()
        .map(|shard| {
            let path = directory.join(shard);
            if path.is_file() {
                map(path)
            } else {
                Err(Error::MissingShard {
                    index: index.path.clone(),
                    shard: shard.clone(),
                })
            }
        })
        .collect::<Result<_, _>>()?;
    Ok((weights, Some(index)))
}

impl Index {
    fn parse(file: Named) -> Result<Self, Error> {
        #[derive(serde::Deserialize)]
        struct Structure {
            weight_map: BTreeMap<String, String>,
        }

        let Structure { weight_map } =
            serde_json::from_slice(&file.bytes).map_err(|reason| Error::Json {
                path: file.path.clone(),
                reason,
            })?;
        // A shard elsewhere would be a file that nobody meant to open.
        let plain = |shard: &str| {
            Path::new(shard)
                .file_name()
                .is_some_and(|name| name == shard)
                && !shard.contains('\\')
        };
        match weight_map.values().find(|shard| !plain(shard)) {
            Some(shard) => Err(Error::ShardName {
                index: file.path,
                shard: shard.clone(),
            }),
            None => Ok(Self {
                path: file.path,
                weight_map,
            }),
        }
    }
}

fn unreadable(path: &Path, reason: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        reason,
    }
}

/// The paths in `directory`, sorted.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = fs::read_dir(directory)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()
        })
        .map_err(|reason| unreadable(directory, reason))?;
    paths.sort_unstable();
    Ok(paths)
}

fn safetensors_files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = entries(directory)?;
    paths.retain(|path| has_extension(path, "safetensors") && path.is_file());
    Ok(paths)
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

fn holds_weights(directory: &Path) -> Result<bool, Error> {
    Ok(directory.join(INDEX).is_file() || !safetensors_files(directory)?.is_empty())
}

/// What to say of a directory without a config.json that can be read.
fn no_config(directory: PathBuf) -> Error {
    let path = directory.join(CONFIG);
    if path.symlink_metadata().is_ok() {
        Error::NotAFile { path }
    } else {
        Error::NoConfig { directory }
    }
}

/// What to say of a directory without weights that this program can read.
fn no_weights(directory: &Path) -> Result<Error, Error> {
    let form = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        if has_extension(path, "gguf") {
            Some("GGUF")
        } else if name == "metal" || name == "model.bin" {
            Some("Metal (`metal/` of the published repository)")
        } else if name.starts_with("pytorch_model") || has_extension(path, "pt") {
            Some("PyTorch")
        } else {
            None
        }
    };
    let unsupported = entries(directory)?
        .into_iter()
        .find_map(|path| form(&path).map(|form| Error::UnsupportedForm { form, path }));
    let not_a_file = entries(directory)?
        .into_iter()
        .find(|path| has_extension(path, "safetensors") || path.ends_with(INDEX))
        .map(|path| Error::NotAFile { path });
    Ok(unsupported.or(not_a_file).unwrap_or_else(|| {
        let directory = directory.to_owned();
        if directory.join(CONFIG).is_file() {
            Error::NoWeights { directory }
        } else {
            no_config(directory)
        }
    }))
}

fn map(path: PathBuf) -> Result<Named, Error> {
    let bytes = File::open(&path)
        .and_then(|file| Bytes::map(&file))
        .map_err(|reason| unreadable(&path, reason))?;
    Ok(Named { path, bytes })
}

/// Maps a file of bounded size; `None` if there is none.
fn read(path: &Path, limit: u64) -> Result<Option<Named>, Error> {
    // Not opened unless it is a regular file: opening a pipe would wait for its other end.
    if !path.is_file() {
        return Ok(None);
    }
    let file = map(path.to_owned())?;
    if file.bytes.len() as u64 > limit {
        return Err(Error::TooLarge {
            path: file.path,
            limit,
        });
    }
    Ok(Some(file))
}
