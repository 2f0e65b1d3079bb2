//! Text to token ids and back, reading the checkpoint's tokenizer.json.

use std::path::PathBuf;

/// Why a tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{path}`: {reason}")]
    Unusable { path: PathBuf, reason: String },
}

/// The special tokens of harmony, by id. Looked up by name, never by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    pub start: u32,
    pub end: u32,
    pub message: u32,
    pub channel: u32,
    pub constrain: u32,
    pub return_: u32,
    pub call: u32,
    pub endoftext: Option<u32>,
}

/// The checkpoint's tokenizer. Cheap to share through an `Arc`.
pub struct Tokenizer {/* private */}

impl Tokenizer {
    /// `source` is for messages only.
    pub fn from_json(json: &[u8], source: &str) -> Result<Self, Error> {
        let _ = (json, source);
        todo!()
    }
    pub fn special(&self) -> Special {
        todo!()
    }
    /// Ordinary text: text that looks like a special token stays text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let _ = text;
        todo!()
    }
    /// The bytes of a token (ordinary or special, the latter by its name); `None` for an id without a string.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        let _ = id;
        todo!()
    }
    /// Lossy text of ids: unknown ids are left out, broken UTF-8 becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let _ = ids;
        todo!()
    }
}

/// Joins token bytes and gives out whole characters only.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {/* private */}

impl Utf8Stream {
    /// The text that became whole with these bytes; broken sequences become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let _ = bytes;
        todo!()
    }
    /// What is left at the end, U+FFFD for an unfinished character.
    pub fn finish(&mut self) -> String {
        todo!()
    }
}
