//! Text to ids and back, and ids that no text gives. Nothing is lost, and no text becomes a control token.

#![no_main]

use gptoss::tokenizer::Utf8Stream;
use gptoss::{is_special, tiny};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let tokenizer = tiny();

    let text = String::from_utf8_lossy(input);
    let ids = tokenizer.encode(&text);
    assert!(!ids.iter().any(|&id| is_special(id)), "{ids:?}");
    assert_eq!(tokenizer.decode(&ids), text);
    let mut stream = Utf8Stream::default();
    let mut streamed = String::new();
    for &id in &ids {
        streamed += &stream.push(tokenizer.token_bytes(id).expect("an encoded id is known"));
    }
    assert_eq!(stream.finish(), "");
    assert_eq!(streamed, text);

    // Half of these ids are known to the vocabulary.
    let words = input.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let ids: Vec<u32> = words.map(|word| if word % 2 == 0 { word % 3000 } else { word }).collect();
    let bytes: Vec<u8> = ids.iter().filter_map(|&id| tokenizer.token_bytes(id)).flatten().copied().collect();
    assert_eq!(tokenizer.decode(&ids), String::from_utf8_lossy(&bytes));

    // The bytes in two pieces, cut wherever the first of them says.
    let cut = input.first().map_or(0, |&byte| usize::from(byte)).min(input.len());
    let mut stream = Utf8Stream::default();
    let streamed = [stream.push(&input[..cut]), stream.push(&input[cut..]), stream.finish()].concat();
    assert_eq!(streamed, text);
});
