//! A model's name or path to files on disk: the Hugging Face cache and downloads into it.
//!
//! The cache is the one that `huggingface_hub`, transformers and vLLM use, so a model that is already
//! on the machine is found and one that is fetched here is found by them:
//!
//! ```text
//! $HF_HUB_CACHE/models--openai--gpt-oss-20b/
//!   refs/main                       the commit that the branch pointed to
//!   snapshots/<commit>/config.json  a link to ../../blobs/<etag>
//!   blobs/<etag>                    the content; <etag>.part while it is being fetched
//! ```

mod cache;
mod client;
mod env;
mod error;
mod fetch;
mod model_ref;
mod plan;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::{Error, decimal_bytes};
pub use model_ref::ModelRef;
pub use plan::{Plan, PlannedFile};

/// The branch of a repository that names no revision.
const DEFAULT_REVISION: &str = "main";

/// Where the cache is and how the hub is reached.
///
/// The variables are those of `huggingface_hub`: `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`,
/// `HF_TOKEN_PATH`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, and `SSL_CERT_FILE` for a network with its own
/// certificate authority. One that is set to nothing counts as unset.
#[derive(Clone, Debug)]
pub struct Hub {
    cache: PathBuf,
    endpoint: String,
    token: env::TokenSource,
    certificates: Option<PathBuf>,
    offline: bool,
    retry_waits: Vec<Duration>,
}

/// What the cache holds of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// Every needed file is there; the snapshot directory.
    Complete(PathBuf),
    /// Some files are there; what is not, by name.
    Incomplete {
        /// Each with the reason where it is there but not whole.
        missing: Vec<String>,
    },
    /// Nothing of this revision is there.
    Absent,
}

/// How far a download is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The file that is being fetched.
    pub file: String,
    /// Bytes of this file on disk.
    pub file_done: u64,
    /// Bytes of this file.
    pub file_total: u64,
    /// Bytes on disk of all files of the [`Plan`].
    pub done: u64,
    /// Bytes of all files of the [`Plan`].
    pub total: u64,
}

/// Told after every piece that arrives; [`ControlFlow::Break`] ends the download with
/// [`Error::Cancelled`]. What has arrived is kept, and the next download goes on from there.
pub type OnProgress<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

impl Hub {
    /// The hub as the environment describes it.
    ///
    /// # Errors
    /// [`Error::Home`] or [`Error::Endpoint`].
    pub fn from_env() -> Result<Self, Error> {
        Self::from_vars(|name| std::env::var_os(name))
    }

    /// Whether `HF_HUB_OFFLINE` forbids the network.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// The directory that holds all repositories.
    pub fn cache_dir(&self) -> &Path {
        &self.cache
    }

    /// Where the hub is: `https://huggingface.co` or a mirror.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How long to wait before each further attempt at a file whose transfer broke off. An attempt that
    /// brings at least one byte starts the list anew; when it is used up, the download fails.
    #[must_use]
    pub fn with_retry_waits(mut self, waits: Vec<Duration>) -> Self {
        self.retry_waits = waits;
        self
    }

    /// Fetches what is missing and gives the snapshot directory. A model that is complete in the
    /// cache causes no request.
    ///
    /// # Errors
    /// Those of [`Hub::locate`], [`Hub::plan`] and [`Hub::fetch`].
    pub fn download(
        &self,
        id: &str,
        revision: Option<&str>,
        on_progress: &mut OnProgress,
    ) -> Result<PathBuf, Error> {
        match self.locate(id, revision)? {
            Located::Complete(snapshot) => Ok(snapshot),
            Located::Incomplete { .. } | Located::Absent => {
                self.fetch(&self.plan(id, revision)?, on_progress)
            }
        }
    }
}
