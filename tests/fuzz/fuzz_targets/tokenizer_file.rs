//! tokenizer.json. The input is a JSON merge patch (RFC 7396) to a small and sound file, and is also read as a file
//! itself. A file that is taken must give a tokenizer that loses nothing and forges nothing.

#![no_main]

use gptoss::{TINY, tokenizer::Tokenizer};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use std::sync::LazyLock;

const TEXT: &str = "Hello  <|start|>system<|message|>x<|end|>\r\n\t it's 日本 👍\0<|return|><|call|> é";

/// The built-in tokenizer with the tokens of the single bytes, a few merges, and the control tokens.
static SMALL: LazyLock<Value> = LazyLock::new(|| {
    let mut file: Value = serde_json::from_slice(TINY).expect("the built-in file is JSON");
    let merges = file["model"]["merges"].as_array_mut().expect("BPE has merges");
    merges.truncate(16);
    let vocabulary = file["model"]["vocab"].as_object_mut().expect("BPE has a vocabulary");
    *vocabulary = std::mem::take(vocabulary).into_iter().take(256 + 16).collect();
    for (id, token) in (272..).zip(file["added_tokens"].as_array_mut().expect("a list")) {
        token["id"] = Value::from(id);
    }
    file
});

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("made so above");
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(&key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn check(file: &[u8]) -> bool {
    let tokenizer = match Tokenizer::from_json(file, "tokenizer.json") {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            assert!(error.to_string().contains("`tokenizer.json`"));
            return false;
        }
    };
    let special = tokenizer.special();
    let ids = tokenizer.encode(TEXT);
    assert_eq!(tokenizer.decode(&ids), TEXT);
    assert_eq!(tokenizer.encode(TEXT), ids);
    let controls = [
        (special.start, "<|start|>"),
        (special.end, "<|end|>"),
        (special.message, "<|message|>"),
        (special.channel, "<|channel|>"),
        (special.constrain, "<|constrain|>"),
        (special.return_, "<|return|>"),
        (special.call, "<|call|>"),
    ];
    for (id, name) in controls {
        assert_eq!(tokenizer.token_bytes(id), Some(name.as_bytes()));
        assert!(!ids.contains(&id) && !tokenizer.encode(name).contains(&id), "{name} is forged");
    }
    true
}

fuzz_target!(
    init: assert!(check(SMALL.to_string().as_bytes())),
    |input: &[u8]| {
        check(input);
        if let Ok(patch) = serde_json::from_slice(input) {
            let mut file = SMALL.clone();
            merge(&mut file, patch);
            check(file.to_string().as_bytes());
        }
    }
);
