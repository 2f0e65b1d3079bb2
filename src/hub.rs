//! A model's name or path to files on disk: the Hugging Face cache and downloads into it.

use std::path::PathBuf;
use std::str::FromStr;

/// What `--model` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelRef {
    /// The built-in toy.
    Tiny,
    /// A directory with a checkpoint.
    Directory(PathBuf),
    /// `owner/name[@revision]`; `20b` and `120b` are `openai/gpt-oss-20b` and `-120b`.
    Repo {
        id: String,
        revision: Option<String>,
    },
}

/// Why a model cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not a model name")]
    Name(String),
}

impl FromStr for ModelRef {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let _ = text;
        todo!()
    }
}

/// Where the cache is and how the hub is reached: HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_TOKEN_PATH, HF_ENDPOINT, HF_HUB_OFFLINE.
#[derive(Clone, Debug)]
pub struct Hub {/* private */}

/// How far a download is.
#[derive(Clone, Debug)]
pub struct Progress {
    pub file: String,
    pub done: u64,
    pub total: u64,
}

impl Hub {
    pub fn from_env() -> Result<Self, Error> {
        todo!()
    }
    pub fn is_offline(&self) -> bool {
        todo!()
    }
    /// The snapshot directory, if every file that is needed is in the cache. No network.
    pub fn locate(&self, id: &str, revision: Option<&str>) -> Result<Option<PathBuf>, Error> {
        let _ = (id, revision);
        todo!()
    }
    /// Fetches what is missing (only the files that are needed) and gives the snapshot directory.
    pub fn download(
        &self,
        id: &str,
        revision: Option<&str>,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<PathBuf, Error> {
        let _ = (id, revision, on_progress);
        todo!()
    }
}
