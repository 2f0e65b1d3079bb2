//! Why a model cannot be had.

use std::io;
use std::path::{Path, PathBuf};

/// Why a model cannot be had. Each text names the thing, the value and the way out.
#[derive(Debug, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "each message says what its variant and its fields are"
)]
pub enum Error {
    #[error(
        "`{value}` names no model: {reason}; accepted are `20b`, `120b`, `tiny`, a directory with a \
         checkpoint, and `owner/name[@revision]`"
    )]
    Name { value: String, reason: String },

    #[error(
        "there is no place for the Hugging Face cache: none of HF_HOME, HF_HUB_CACHE, XDG_CACHE_HOME \
         and HOME is set; set HF_HOME to a directory"
    )]
    Home,

    #[error("HF_ENDPOINT is `{0}`, expected an address such as https://huggingface.co")]
    Endpoint(String),

    #[error(
        "the access token from {origin} has characters that no token has; copy it again from \
         the account's settings"
    )]
    Token { origin: String },

    #[error("SSL_CERT_FILE names `{path}`, which holds no certificate in PEM form: {reason}")]
    Certificates { path: PathBuf, reason: String },

    #[error(
        "`{revision}` begins several commits of `{id}` in the cache ({commits}); write more of it",
        commits = commits.join(", ")
    )]
    Ambiguous {
        id: String,
        revision: String,
        commits: Vec<String>,
    },

    #[error(
        "`{id}` cannot be fetched because HF_HUB_OFFLINE is set; not in `{directory}`: {missing}; \
         unset HF_HUB_OFFLINE, or copy the model there",
        directory = directory.display(), missing = missing.join(", ")
    )]
    Offline {
        id: String,
        missing: Vec<String>,
        directory: PathBuf,
    },

    #[error(
        "the hub refuses `{what}` ({status}): {reason}",
        reason = match (*gated, *with_token) {
            (true, _) => "the owner asks for consent first; give it on the model's page, then set \
                          HF_TOKEN to a token of that account",
            (false, true) => "the name is wrong, or the token in use may not read it; check both",
            (false, false) => "the name is wrong, or the model is not public and needs a token; \
                               check the name or set HF_TOKEN",
        }
    )]
    Denied {
        what: String,
        status: u16,
        gated: bool,
        with_token: bool,
    },

    #[error("there is no `{what}` at {endpoint}; check the name and the revision, or HF_ENDPOINT")]
    NotFound { what: String, endpoint: String },

    #[error("{url} answered with status {status}; try again later, or another HF_ENDPOINT")]
    Status { url: String, status: u16 },

    #[error(
        "no connection to {host}: {reason}; check the network, HF_ENDPOINT, HTTPS_PROXY and, behind \
         a proxy that inspects TLS, SSL_CERT_FILE"
    )]
    Connect { host: String, reason: String },

    #[error(
        "{url} answered with something that is not a hub's answer: {reason}; check HF_ENDPOINT"
    )]
    Reply { url: String, reason: String },

    #[error("`{id}` holds no gpt-oss that can be used here: {found}; `20b` and `120b` do")]
    Unsupported { id: String, found: String },

    #[error(
        "`{file}` broke off after {done} of {size} bytes: {reason}; what has arrived is kept, and the \
         same command goes on from there"
    )]
    BrokeOff {
        file: String,
        done: u64,
        size: u64,
        reason: String,
    },

    #[error(
        "`{file}` should have {expected} bytes, but the server sends {found}; try again later, \
         or another HF_ENDPOINT"
    )]
    Size {
        file: String,
        expected: u64,
        found: u64,
    },

    #[error(
        "`{file}` arrived damaged: its SHA-256 is {found}, expected {expected}; it was removed, \
         so the same command fetches it again"
    )]
    Hash {
        file: String,
        expected: String,
        found: String,
    },

    #[error(
        "`{id}` was fetched, but `{directory}` is still not complete: {missing}; remove that \
         directory and fetch it again",
        directory = directory.display(), missing = missing.join(", ")
    )]
    Incomplete {
        id: String,
        missing: Vec<String>,
        directory: PathBuf,
    },

    #[error(
        "`{directory}` is full: {needed} are needed{free}; free some space, or set HF_HUB_CACHE to \
         another disk",
        directory = directory.display(), needed = decimal_bytes(*needed),
        free = free.map(|free| format!(" and {} are free", decimal_bytes(free))).unwrap_or_default()
    )]
    Space {
        directory: PathBuf,
        needed: u64,
        free: Option<u64>,
    },

    #[error("another program is fetching `{file}`; wait for it to end")]
    Locked { file: String },

    #[error("`{path}`: {reason}", path = path.display())]
    Io { path: PathBuf, reason: io::Error },

    #[error(
        "the download was stopped; what has arrived is kept, and the same command goes on from there"
    )]
    Cancelled,
}

impl Error {
    pub(super) fn io(path: &Path, reason: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            reason,
        }
    }

    /// Whether asking again may bring the rest.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::BrokeOff { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..),
            _ => false,
        }
    }
}

/// A number of bytes as disks and networks are sold: `13.8 GB`.
pub fn decimal_bytes(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    let mut unit = "bytes";
    for larger in ["kB", "MB", "GB", "TB"] {
        // 999.95 would be printed as 1000.0.
        if scaled < 999.95 {
            break;
        }
        scaled /= 1000.0;
        unit = larger;
    }
    if unit == "bytes" {
        format!("{bytes} bytes")
    } else {
        format!("{scaled:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_once() {
        let error = anyhow::Error::new(Error::io(Path::new("/x"), io::Error::other("it broke")));
        assert_eq!(format!("{error:#}"), "`/x`: it broke");
    }

    #[test]
    fn bytes_are_shown_with_one_decimal_in_powers_of_a_thousand() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (13_761_264_768, "13.8 GB"),
            (65_248_815_744, "65.2 GB"),
            (5_000_000_000_000_000, "5000.0 TB"),
        ] {
            assert_eq!(decimal_bytes(bytes), text);
        }
    }
}
