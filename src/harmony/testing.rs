//! What the tests of this module share: the tiny model's tokenizer, and token ids from text.

use crate::tokenizer::Tokenizer;
use std::sync::{Arc, OnceLock};

pub fn tiny() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let load = || {
        let json = include_bytes!("../../assets/tiny/tokenizer.json");
        Arc::new(Tokenizer::from_json(json, "tiny").unwrap())
    };
    Arc::clone(TOKENIZER.get_or_init(load))
}

/// The ids of a text in which the names of control tokens are control tokens.
pub fn ids(markup: &str) -> Vec<u32> {
    let tokenizer = tiny();
    let special = tokenizer.special();
    let controls = [
        ("<|start|>", special.start),
        ("<|end|>", special.end),
        ("<|message|>", special.message),
        ("<|channel|>", special.channel),
        ("<|constrain|>", special.constrain),
        ("<|return|>", special.return_),
        ("<|call|>", special.call),
        ("<|endoftext|>", special.endoftext.unwrap()),
    ];
    let mut ids = Vec::new();
    let mut rest = markup;
    while !rest.is_empty() {
        let next = controls
            .iter()
            .filter_map(|&(name, id)| Some((rest.find(name)?, name, id)))
            .min();
        let Some((at, name, id)) = next else {
            ids.extend(tokenizer.encode(rest));
            break;
        };
        ids.extend(tokenizer.encode(&rest[..at]));
        ids.push(id);
        rest = &rest[at + name.len()..];
    }
    ids
}
