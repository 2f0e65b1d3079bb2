//! Text from outside, made safe for a terminal.

use std::borrow::Cow;

/// Characters that command a terminal, hide text or turn it around: C0 but line feed and tab, DEL, C1, the bidirectional
/// overrides and isolates, and the byte order mark.
pub fn is_unsafe(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => true,
        _ => character.is_control(),
    }
}

/// `text` without the characters of [`is_unsafe`] and without whole escape sequences; a carriage return becomes a line feed.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    Sanitizer::default().push(text)
}

/// [`sanitize`] on one line: whatever white space there is between words becomes one space.
pub fn one_line(text: &str) -> String {
    let text = sanitize(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A message without the numbers that the system has for its errors, ` (os error 2)`.
pub fn without_code(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(" (os error ") {
        let (before, code) = rest.split_at(at);
        out.push_str(before);
        let digits = &code[" (os error ".len()..];
        let number = digits.find(|digit: char| !digit.is_ascii_digit());
        match number {
            Some(end) if end > 0 && digits[end..].starts_with(')') => rest = &digits[end + 1..],
            _ => {
                out.push_str(" (os error ");
                rest = digits;
            }
        }
    }
    out + rest
}

/// Letters to insert, delete, replace or swap to make `a` into `b` (optimal string alignment).
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// [`sanitize`] for text that comes in pieces: a sequence may begin in one and end in another.
#[derive(Clone, Debug, Default)]
pub struct Sanitizer {
    state: State,
}

/// Where in a sequence of ECMA-48 the text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// A carriage return was given out as a line feed; one that follows belongs to it.
    Return,
    /// After ESC.
    Escape,
    /// After ESC `[`: parameters, intermediates, one final character.
    Csi,
    /// OSC, DCS, SOS, PM or APC: everything up to its terminator.
    String,
    /// ESC inside of a string: the first half of its terminator.
    StringEscape,
}

impl Sanitizer {
    /// What may be shown of `text`, which follows what was pushed before.
    pub fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.state == State::Text && !text.contains(is_unsafe) {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        for character in text.chars() {
            clean.extend(self.next(character));
        }
        Cow::Owned(clean)
    }

    fn next(&mut self, character: char) -> Option<char> {
        match self.state {
            State::Return if character == '\n' => {
                self.state = State::Text;
                None
            }
            State::Text | State::Return => self.text(character),
            State::Csi => match character {
                ' '..='?' => None,
                '@'..='~' => {
                    self.state = State::Text;
                    None
                }
                _ => self.text(character),
            },
            State::String => match character {
                '\x07' | '\x18' | '\x1a' | '\u{9c}' => {
                    self.state = State::Text;
                    None
                }
                '\x1b' => {
                    self.state = State::StringEscape;
                    None
                }
                // An unterminated one must not hide the rest of the text.
                '\n' | '\r' => self.text(character),
                _ => None,
            },
            State::StringEscape if character == '\\' => {
                self.state = State::Text;
                None
            }
            State::Escape | State::StringEscape => self.escape(character),
        }
    }

    fn text(&mut self, character: char) -> Option<char> {
        let (state, shown) = match character {
            '\r' => (State::Return, Some('\n')),
            '\x1b' => (State::Escape, None),
            '\u{9b}' => (State::Csi, None),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => (State::String, None),
            _ => (State::Text, Some(character).filter(|c| !is_unsafe(*c))),
        };
        self.state = state;
        shown
    }

    fn escape(&mut self, character: char) -> Option<char> {
        self.state = match character {
            '[' => State::Csi,
            ']' | 'P' | 'X' | '^' | '_' => State::String,
            // Intermediates, as in `ESC ( B`.
            ' '..='/' => State::Escape,
            '0'..='~' => State::Text,
            _ => return self.text(character),
        };
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_numbers_of_errors_are_left_out() {
        assert_eq!(
            without_code("no `x`: Not found (os error 2), and (os error x) stays (os error 13)"),
            "no `x`: Not found, and (os error x) stays"
        );
    }

    #[test]
    fn sequences_are_swallowed_whole() {
        for (hostile, shown) in [
            ("a\x1b[31mb\x1b[0m", "ab"),
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]52;c;cGF5bG9hZA==\x1b\\b", "ab"),
            ("a\x1bPq#0\x1b\\b", "ab"),
            ("a\u{9b}2Jb\u{9d}8;;x\u{9c}c", "abc"),
            ("a\x1b(Bb\x1bcd", "abd"),
            ("a\x1b]unterminated\nb", "a\nb"),
            ("a\x1b[3\nb", "a\nb"),
            ("a\x1b\x1b[1mb\x1b", "ab"),
            ("a\x07\x08\x7fb\0", "ab"),
            ("a\u{202e}b\u{2066}c\u{feff}d", "abcd"),
            ("a\r\nb\rc\r\r\nd", "a\nb\nc\n\nd"),
            ("\ta 👩‍👩‍👧 日本語\n", "\ta 👩‍👩‍👧 日本語\n"),
        ] {
            assert_eq!(sanitize(hostile), shown, "{hostile:?}");
        }
    }

    #[test]
    fn safe_text_is_not_copied() {
        assert!(matches!(sanitize("a\tb\nü"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_left(text in "(?s:[ -~\\x00-\\x20\\x1b\\[\\]m;\u{80}-\u{9f}\u{202a}-\u{202e}é日]|.){0,60}") {
            prop_assert!(!sanitize(&text).contains(is_unsafe));
        }

        #[test]
        fn pieces_give_what_the_whole_gives(pieces in proptest::collection::vec("(?s:[\\x1b\\[\\]\\\\m;\\r\\n0aP]){0,6}", 0..8)) {
            let mut sanitizer = Sanitizer::default();
            let joined: String = pieces.iter().map(|piece| sanitizer.push(piece).into_owned()).collect();
            prop_assert_eq!(joined, sanitize(&pieces.concat()).into_owned());
        }
    }
}
