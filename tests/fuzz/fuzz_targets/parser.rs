#![no_main]
//! Token ids to messages: no panic, and one token at a time gives what the whole list gives.

use gptoss::harmony::{Event, Parser, parse};
use gptoss::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    let json = include_bytes!("../../../assets/tiny/tokenizer.json");
    Arc::new(Tokenizer::from_json(json, "tiny").expect("the built-in tokenizer is sound"))
});

fuzz_target!(|ids: Vec<u16>| {
    // Modulo a little more than the vocabulary, so that unknown ids occur.
    let ids: Vec<u32> = ids.into_iter().map(|id| u32::from(id) % 2950).collect();
    let mut parser = Parser::new(Arc::clone(&TOKENIZER));
    let mut texts = Vec::new();
    let steps = ids
        .iter()
        .flat_map(|&id| parser.push(id))
        .collect::<Vec<_>>();
    for event in steps.into_iter().chain(parser.finish()) {
        match event {
            Event::Start(_) => texts.push(String::new()),
            Event::Text(delta) => texts
                .last_mut()
                .expect("a message is open")
                .push_str(&delta),
            Event::End(message) => {
                assert_eq!(*texts.last().expect("a message is open"), message.text())
            }
        }
    }
    assert_eq!(texts.len(), parse(&TOKENIZER, &ids).len());
});
