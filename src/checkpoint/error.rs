use std::fmt;
use std::io;
use std::path::PathBuf;

use safetensors::Dtype;

/// What can be wrong with a checkpoint. Every text names the file, the value, what was expected and the way out.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error(
        "`{path}` does not exist; name the directory that holds config.json and the .safetensors files"
    )]
    NoDirectory { path: PathBuf },

    #[error(
        "`{path}` is a file; name the directory that holds config.json and the .safetensors files"
    )]
    NotADirectory { path: PathBuf },

    #[error("cannot read `{path}`: {reason}")]
    Io { path: PathBuf, reason: io::Error },

    #[error(
        "`{directory}` has no config.json; name the directory of a gpt-oss checkpoint, or fetch config.json too"
    )]
    NoConfig { directory: PathBuf },

    #[error(
        "`{path}` is neither a file nor a link to one that is there; put the file itself in its place"
    )]
    NotAFile { path: PathBuf },

    #[error(
        "`{directory}` holds no weights; expected model.safetensors, or model.safetensors.index.json and its shards"
    )]
    NoWeights { directory: PathBuf },

    #[error(
        "`{path}` is a checkpoint in {form} form, which is not supported; get the published safetensors files \
         (config.json, model.safetensors.index.json and its shards of openai/gpt-oss-20b or -120b)"
    )]
    UnsupportedForm { path: PathBuf, form: &'static str },

    #[error("`{path}` has more than the {limit} bytes that such a file may have")]
    TooLarge { path: PathBuf, limit: u64 },

    /// Not JSON, or JSON of another structure. `reason` says line and column.
    #[error("`{path}` cannot be used: {reason}; fetch the file again")]
    Json {
        path: PathBuf,
        reason: serde_json::Error,
    },

    #[error("`{path}` describes the architecture `{found}`; this program runs gpt-oss only")]
    Architecture { path: PathBuf, found: String },

    #[error("`{path}`: `{key}` is {found}, expected {expected}")]
    Config {
        path: PathBuf,
        key: String,
        found: String,
        expected: String,
    },

    #[error(
        "`{index}` names the shard `{shard}`, which is not there; the checkpoint is incomplete: fetch that file too"
    )]
    MissingShard { index: PathBuf, shard: String },

    #[error(
        "`{index}` names the shard `{shard}`, expected the plain name of a file in the same directory"
    )]
    ShardName { index: PathBuf, shard: String },

    #[error(
        "`{index}` and its shards do not belong together; fetch them again:{}",
        list(tensors.iter().map(|(tensor, shard)| format!("`{tensor}` should be in `{shard}`, but is not")))
    )]
    NotInShard {
        index: PathBuf,
        /// Tensor and the shard that the index names for it.
        tensors: Vec<(String, String)>,
    },

    #[error("`{path}` is not a usable safetensors file: {fault}; fetch it again")]
    Safetensors {
        path: PathBuf,
        fault: SafetensorsFault,
    },

    #[error(
        "the weights in `{directory}` do not fit config.json; get both from the same checkpoint:{}",
        list(faults)
    )]
    Tensors {
        directory: PathBuf,
        faults: Vec<TensorFault>,
    },
}

/// Each on a line of its own.
fn list(lines: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str("\n  ");
        text.push_str(&line.to_string());
    }
    text
}

/// What can be wrong with one safetensors file, whatever its tensors are for.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum SafetensorsFault {
    #[error("it is a Git LFS pointer, and `git lfs pull` gets the file itself")]
    GitLfsPointer,

    #[error("it has {bytes} bytes, and 8 are needed for the length of its header")]
    TooShort { bytes: usize },

    #[error("its header claims {claimed} bytes, the format allows {limit}")]
    HeaderTooLong { claimed: u64, limit: u64 },

    #[error("its header claims {claimed} bytes, the file has {available} more")]
    HeaderPastEnd { claimed: u64, available: usize },

    /// `reason` says line and column within the header.
    #[error("its header cannot be read: {reason}")]
    Header { reason: serde_json::Error },

    #[error("its header names `{name}` twice")]
    DuplicateName { name: String },

    #[error(
        "`{name}` is {found} and occupies bytes {begin} to {end}; that type and shape do not take that many"
    )]
    Size {
        name: String,
        found: TensorType,
        begin: usize,
        end: usize,
    },

    #[error("`{name}` begins at byte {begin}, inside `{other}`, which ends at {end}")]
    Overlap {
        name: String,
        begin: usize,
        other: String,
        end: usize,
    },

    #[error("bytes {begin} to {end} belong to no tensor")]
    Hole { begin: usize, end: usize },

    #[error("it is cut short: `{name}` ends at byte {end} of the data, the file holds {available}")]
    Truncated {
        name: String,
        end: usize,
        available: usize,
    },
}

/// Type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// As the safetensors header names it.
    pub dtype: Dtype,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

/// One tensor that is not as the configuration says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum TensorFault {
    #[error("`{name}` is missing, expected {expected}")]
    Missing { name: String, expected: TensorType },

    #[error("`{name}` in `{file}` is {found}, expected {expected}")]
    Wrong {
        name: String,
        file: PathBuf,
        found: TensorType,
        expected: TensorType,
    },

    #[error("`{name}` in `{file}` ({found}) is unexpected")]
    Unexpected {
        name: String,
        file: PathBuf,
        found: TensorType,
    },

    #[error("`{name}` is in `{first}` and in `{second}`, expected once")]
    Twice {
        name: String,
        first: PathBuf,
        second: PathBuf,
    },
}
