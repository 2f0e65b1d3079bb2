#![no_main]
//! Text to ids and back: nothing is lost, and no text becomes a control token.

use gptoss::tokenizer::{Tokenizer, Utf8Stream};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let json = include_bytes!("../../../assets/tiny/tokenizer.json");
    Tokenizer::from_json(json, "tiny").expect("the built-in tokenizer is sound")
});

fuzz_target!(|text: &str| {
    let ids = TOKENIZER.encode(text);
    // The tiny vocabulary's special tokens are its last ids.
    assert!(ids.iter().all(|&id| id < 2880), "{ids:?}");
    assert_eq!(TOKENIZER.decode(&ids), text);
    let mut stream = Utf8Stream::default();
    let pieces = ids.iter().filter_map(|&id| TOKENIZER.token_bytes(id));
    let streamed: String = pieces.map(|bytes| stream.push(bytes)).collect();
    assert_eq!(streamed + &stream.finish(), text);
});
