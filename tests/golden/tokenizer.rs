//! The real vocabulary against tiktoken.

use gptoss::tokenizer::Tokenizer;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The o200k_harmony tokenizer, read once for all tests.
pub fn o200k() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let load = || {
        let packed: &[u8] = include_bytes!("../fixtures/o200k_harmony_tokenizer.json.gz");
        let mut json = Vec::new();
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut json)
            .unwrap();
        Arc::new(Tokenizer::from_json(&json, "o200k_harmony").unwrap())
    };
    Arc::clone(TOKENIZER.get_or_init(load))
}

#[derive(Deserialize)]
struct Goldens {
    strings: Vec<Text>,
    decode: Vec<Decode>,
    special: BTreeMap<u32, String>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ordinary: Vec<u32>,
}

#[derive(Deserialize)]
struct Decode {
    ids: Vec<u32>,
    bytes_hex: String,
    lossy: String,
}

fn goldens() -> Goldens {
    serde_json::from_str(include_str!("../goldens/tokenizer/tokenizer_goldens.json")).unwrap()
}

#[test]
fn encodes_every_string_to_the_ids_of_tiktoken() {
    let tokenizer = o200k();
    let goldens = goldens();
    assert_eq!(goldens.strings.len(), 251);
    for Text { text, ordinary } in goldens.strings {
        assert_eq!(tokenizer.encode(&text), ordinary, "{text:?}");
        assert_eq!(tokenizer.decode(&ordinary), text);
    }
}

#[test]
fn decodes_ids_to_the_same_bytes_and_text() {
    let tokenizer = o200k();
    let goldens = goldens();
    assert_eq!(goldens.decode.len(), 30);
    for Decode {
        ids,
        bytes_hex,
        lossy,
    } in goldens.decode
    {
        let hex: String = ids
            .iter()
            .flat_map(|&id| tokenizer.token_bytes(id).unwrap())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, bytes_hex, "{ids:?}");
        assert_eq!(tokenizer.decode(&ids), lossy, "{ids:?}");
    }
}

#[test]
fn a_special_token_is_its_name() {
    let tokenizer = o200k();
    for (id, name) in goldens().special {
        assert_eq!(tokenizer.token_bytes(id), Some(name.as_bytes()), "{id}");
    }
    assert_eq!(tokenizer.token_bytes(201_088), None);
}

#[test]
fn the_control_tokens_are_those_of_the_harmony_encoding() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../goldens/harmony/encoding.json")).unwrap();
    let special = o200k().special();
    for (name, id) in [
        ("<|start|>", special.start),
        ("<|end|>", special.end),
        ("<|message|>", special.message),
        ("<|channel|>", special.channel),
        ("<|constrain|>", special.constrain),
        ("<|return|>", special.return_),
        ("<|call|>", special.call),
        ("<|endoftext|>", special.endoftext.unwrap()),
    ] {
        assert_eq!(golden["special_tokens"][name], id, "{name}");
    }
    let stops = &golden["stop_tokens_for_assistant_actions"];
    assert_eq!(stops, &serde_json::json!(&special.stops()[..2]));
}

#[test]
fn long_texts_and_long_runs_encode_in_reasonable_time() {
    let tokenizer = o200k();
    let prose = "The quick brown fox jumps over the lazy dog, 1234 times; naïve café 日本語.\n";
    let runs = ["a", "A", "1", " ", "\n", "!", "é", "日", "\0", " \n", "aA"];
    for text in std::iter::once(prose).chain(runs) {
        let text = text.repeat((1 << 20) / text.len());
        let start = Instant::now();
        let ids = tokenizer.encode(&text);
        let took = start.elapsed();
        assert_eq!(tokenizer.decode(&ids), text);
        assert!(
            took < Duration::from_secs(30),
            "{:?}…: {took:?}",
            text.chars().take(8).collect::<String>()
        );
    }
}
