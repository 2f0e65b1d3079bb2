//! What a `tokenizer.json` must say before the library may read it.
//!
//! The library reads tokenizers of every kind, panics on some files, and renumbers added tokens
//! whose ids are not the next ones. Here are the parts that decide whether encoding keeps all text.

use super::Error;
use serde::Deserialize;
use serde_json::Value;

/// The parts of the file that are checked; the vocabulary is the library's to read.
#[derive(Deserialize)]
pub(super) struct File {
    model: Model,
    normalizer: Option<Value>,
    pre_tokenizer: Option<PreTokenizer>,
    #[serde(default)]
    pub added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    dropout: Option<f64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

#[derive(Deserialize)]
struct PreTokenizer {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    pretokenizers: Vec<Self>,
    behavior: Option<String>,
    #[serde(default)]
    add_prefix_space: bool,
}

/// A token above the vocabulary.
#[derive(Deserialize)]
pub(super) struct Added {
    pub id: u32,
    pub content: String,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

impl File {
    /// Reads the parts and checks them.
    pub fn from_json(json: &[u8], source: &str) -> Result<Self, Error> {
        let file: Self = serde_json::from_slice(json).map_err(|error| Error::Unreadable {
            file: source.to_owned(),
            reason: error.to_string(),
        })?;
        match file.foreign_part() {
            None => Ok(file),
            Some(found) => Err(Error::NotByteLevelBpe {
                file: source.to_owned(),
                found,
            }),
        }
    }

    /// What byte-level BPE does not have.
    fn foreign_part(&self) -> Option<String> {
        let model = &self.model;
        match model.kind.as_deref() {
            Some("BPE") => {}
            Some(kind) => return Some(format!("a {kind} model")),
            None => return Some("a model without a type".to_owned()),
        }
        let affix = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        for (field, set) in [
            ("dropout", model.dropout.is_some_and(|p| p != 0.0)),
            (
                "continuing_subword_prefix",
                affix(&model.continuing_subword_prefix),
            ),
            ("end_of_word_suffix", affix(&model.end_of_word_suffix)),
        ] {
            if set {
                return Some(format!("a model with `{field}`"));
            }
        }
        if let Some(normalizer) = &self.normalizer {
            let kind = normalizer.get("type").and_then(Value::as_str);
            let kind = kind.unwrap_or("unknown");
            return Some(format!("a normalizer ({kind}), which changes text"));
        }
        if !self.pre_tokenizer.as_ref().is_some_and(is_byte_level) {
            return Some("a pre-tokenizer that does not split text into bytes alone".to_owned());
        }
        let strips = |token: &&Added| token.lstrip || token.rstrip;
        let token = &self.added_tokens.iter().find(strips)?.content;
        Some(format!("the token `{token}`, which takes white space away"))
    }
}

/// Cuts between characters, then bytes to characters; nothing is added or removed.
fn is_byte_level(pre_tokenizer: &PreTokenizer) -> bool {
    let to_bytes = |step: &PreTokenizer| step.kind == "ByteLevel" && !step.add_prefix_space;
    let cuts =
        |step: &PreTokenizer| step.kind == "Split" && step.behavior.as_deref() != Some("Removed");
    match (pre_tokenizer.kind.as_str(), &*pre_tokenizer.pretokenizers) {
        ("Sequence", [first @ .., last]) => first.iter().all(cuts) && to_bytes(last),
        _ => to_bytes(pre_tokenizer),
    }
}
