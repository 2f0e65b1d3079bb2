//! Token ids to messages. The input is text in which the names of control tokens are control tokens; the byte 0xFF
//! makes the next two an id, known or not, and what else is not UTF-8 becomes the tokens of its single bytes.

#![no_main]

use gptoss::harmony::{Content, Event, Message, Parser, parse};
use gptoss::{tiny, tokenizer::Special};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// More than the vocabulary, so that unknown ids occur.
const IDS: u32 = 2950;

fn control_token(text: &[u8], special: Special) -> Option<(usize, u32)> {
    let controls: [(&[u8], Option<u32>); 8] = [
        (b"<|start|>", Some(special.start)),
        (b"<|end|>", Some(special.end)),
        (b"<|message|>", Some(special.message)),
        (b"<|channel|>", Some(special.channel)),
        (b"<|constrain|>", Some(special.constrain)),
        (b"<|return|>", Some(special.return_)),
        (b"<|call|>", Some(special.call)),
        (b"<|endoftext|>", special.endoftext),
    ];
    let (name, id) = controls.into_iter().find(|(name, _)| text.starts_with(name))?;
    Some((name.len(), id?))
}

/// The token of each single byte.
static BYTE_IDS: LazyLock<Vec<Option<u32>>> = LazyLock::new(|| {
    let id_of = |byte: u8| (0..IDS).find(|&id| tiny().token_bytes(id) == Some(&[byte]));
    (0..=u8::MAX).map(id_of).collect()
});

/// The ids of plain text; of bytes that are no text, the tokens of each of them.
fn plain(bytes: &[u8], ids: &mut Vec<u32>) {
    let tokenizer = tiny();
    match std::str::from_utf8(bytes) {
        Ok(text) => ids.extend(tokenizer.encode(text)),
        Err(_) => ids.extend(bytes.iter().filter_map(|&byte| BYTE_IDS[usize::from(byte)])),
    }
}

fn ids_of(input: &[u8]) -> Vec<u32> {
    let special = tiny().special();
    let mut ids = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < input.len() {
        let raw = |id: &[u8]| (3, u32::from(u16::from_le_bytes([id[1], id[2]])) % IDS);
        let token = match &input[at..] {
            [0xFF, _, _, ..] => Some(raw(&input[at..])),
            rest => control_token(rest, special),
        };
        let Some((length, id)) = token else {
            at += 1;
            continue;
        };
        plain(&input[from..at], &mut ids);
        ids.push(id);
        at += length;
        from = at;
    }
    plain(&input[from..], &mut ids);
    ids
}

fn without_content(message: &Message) -> Message {
    Message { content: Vec::new(), ..message.clone() }
}

/// Start, deltas, End; again and again, and the deltas are the content. Gives the messages.
fn check(events: Vec<Event>) -> Vec<Message> {
    let mut open: Option<(Message, String)> = None;
    let mut messages = Vec::new();
    for event in events {
        match event {
            Event::Start(message) => {
                assert_eq!(message.content, []);
                assert_eq!(open.replace((message, String::new())), None);
            }
            Event::Text(delta) => {
                assert_ne!(delta, "");
                open.as_mut().expect("a message is open").1.push_str(&delta);
            }
            Event::End(message) => {
                let (start, text) = open.take().expect("a message is open");
                assert_eq!(start, without_content(&message));
                assert_eq!(message.content, [Content::Text(text)]);
                messages.push(message);
            }
        }
    }
    assert_eq!(open, None);
    messages
}

fuzz_target!(|input: &[u8]| {
    let tokenizer = tiny();
    let ids = ids_of(input);

    let mut parser = Parser::new(tiny());
    let mut events = Vec::new();
    for &id in &ids {
        events.extend(parser.push(id));
        let open = match events.last() {
            Some(Event::Start(message)) => Some(message.clone()),
            Some(Event::Text(_)) => events.iter().rev().find_map(|event| match event {
                Event::Start(message) => Some(message.clone()),
                _ => None,
            }),
            Some(Event::End(_)) | None => None,
        };
        assert_eq!(parser.current(), open.as_ref());
    }
    events.extend(parser.finish());
    assert_eq!(parser.finish(), []);
    assert_eq!(parser.current(), None);
    let messages = check(events);
    assert_eq!(parse(&tokenizer, &ids), messages);
    for message in &messages {
        let _ = (message.kind(), message.tool_name(), message.arguments());
    }

    // Whatever came before, a message with its header closed is read to its end.
    let special = tokenizer.special();
    let tail = "of it: 日本 👍";
    let closed = [&ids[..], &[special.message], &tokenizer.encode(tail), &[special.return_]].concat();
    let mut parser = Parser::new(tiny());
    let events: Vec<Event> = closed.iter().flat_map(|&id| parser.push(id)).collect();
    assert_eq!(parser.finish(), []);
    let messages = check(events);
    assert!(messages.last().is_some_and(|message| message.text().ends_with(tail)), "{messages:?}");
});
