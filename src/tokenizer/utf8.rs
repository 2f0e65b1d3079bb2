//! Whole characters out of bytes that arrive in pieces.

/// Joins token bytes and gives out whole characters only.
///
/// The texts of all [`push`](Self::push)es and of [`finish`](Self::finish) together are what
/// `String::from_utf8_lossy` makes of all the bytes, wherever they were cut.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The beginning of a character that is not complete: at most three bytes between calls.
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// The text that became whole with these bytes; broken sequences become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(valid).expect("valid up to here"));
                    rest = broken;
                    let Some(length) = error.error_len() else {
                        break; // more bytes may complete it
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
            }
        }
        let kept = rest.len();
        self.pending.drain(..self.pending.len() - kept);
        text
    }

    /// What is left at the end: U+FFFD for an unfinished character.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Utf8Stream;
    use proptest::prelude::*;

    fn in_pieces(bytes: &[u8], cuts: &[usize]) -> (Vec<String>, String) {
        let mut stream = Utf8Stream::default();
        let mut deltas = Vec::new();
        let mut from = 0;
        for &to in cuts.iter().chain([&bytes.len()]) {
            deltas.push(stream.push(&bytes[from..to]));
            from = to;
        }
        (deltas, stream.finish())
    }

    #[test]
    fn holds_a_character_back_until_it_is_whole() {
        let (deltas, end) = in_pieces("a你".as_bytes(), &[1, 2, 3]);
        assert_eq!(deltas, ["a", "", "", "你"]);
        assert_eq!(end, "");
    }

    #[test]
    fn gives_a_replacement_for_a_character_cut_off_at_the_end() {
        let (deltas, end) = in_pieces(&"😀".as_bytes()[..3], &[1]);
        assert_eq!(deltas, ["", ""]);
        assert_eq!(end, "\u{fffd}");
    }

    #[test]
    fn loses_no_text_after_a_broken_sequence() {
        let (deltas, _) = in_pieces(b"\xe4\xbdabc", &[1, 2]);
        assert_eq!(deltas, ["", "", "\u{fffd}abc"]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_text_of_the_whole(
            // Mostly bytes that begin or continue characters: random ones rarely do.
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), 0x80..=0xbfu8, 0xc2..=0xf4u8, Just(b'a')], 0..40),
            mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            cuts.sort_by_key(|cut| cut.index(bytes.len() + 1));
            let cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            let (deltas, end) = in_pieces(&bytes, &cuts);
            prop_assert_eq!(deltas.concat() + &end, String::from_utf8_lossy(&bytes));
        }
    }
}
