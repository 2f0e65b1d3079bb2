#![no_main]
//! Token ids to messages: no panic, and the deltas of a message are its text.

use gptoss::harmony::{Event, Parser};
use gptoss::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    let json = include_bytes!("../../../assets/tiny/tokenizer.json");
    Arc::new(Tokenizer::from_json(json, "tiny").expect("the built-in tokenizer is sound"))
});

fuzz_target!(|ids: Vec<u16>| {
    let mut parser = Parser::new(Arc::clone(&TOKENIZER));
    // Modulo a little more than the vocabulary, so that unknown ids occur.
    let ids = ids.into_iter().map(|id| u32::from(id) % 2950);
    let mut events: Vec<Event> = ids.flat_map(|id| parser.push(id)).collect();
    events.extend(parser.finish());
    let mut open: Option<String> = None;
    for event in events {
        match event {
            Event::Start(_) => assert_eq!(open.replace(String::new()), None),
            Event::Text(delta) => open.as_mut().expect("a message is open").push_str(&delta),
            Event::End(message) => assert_eq!(open.take(), Some(message.text().into_owned())),
        }
    }
    assert_eq!(open, None);
});
