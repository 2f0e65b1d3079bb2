//! Characters that come faster than anybody types: a paste into a terminal without bracketed paste, whose
//! line breaks must not send what stands before them.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::tui::event::Msg;

/// Between two characters of one burst.
const GAP: Duration = Duration::from_millis(10);
/// After a paste, what follows within this time is its next piece.
const REST: Duration = Duration::from_millis(100);
/// A burst without a line break is taken as a paste from this many characters on.
const LONG: usize = 64;

/// The keys of the burst under way.
#[derive(Debug, Default)]
pub struct Burst {
    keys: Vec<KeyEvent>,
    last: Option<Instant>,
    pasted: Option<Instant>,
}

impl Burst {
    /// A key came at `now`.
    pub fn key(&mut self, key: KeyEvent, now: Instant) -> Vec<Msg> {
        let mut messages = Vec::new();
        let in_time = self
            .last
            .is_some_and(|last| now.duration_since(last) <= GAP);
        if text(&key).is_none() || !in_time {
            messages = self.flush(now);
        }
        if text(&key).is_none() {
            messages.push(Msg::Key(key));
        } else {
            self.keys.push(key);
            self.last = Some(now);
        }
        messages
    }

    /// How long to wait for more before [`Burst::flush`]; `None` while nothing is held back.
    pub fn wait(&self) -> Option<Duration> {
        match self.keys.len() {
            0 => None,
            // One key alone is somebody who types, and waits for nothing.
            1 if self.pasted.is_none() => Some(Duration::ZERO),
            _ => Some(GAP),
        }
    }

    /// Nothing more came until `now`.
    pub fn flush(&mut self, now: Instant) -> Vec<Msg> {
        let rest = self
            .pasted
            .is_some_and(|pasted| now.duration_since(pasted) <= REST);
        if !rest {
            self.pasted = None;
        }
        if self.keys.is_empty() {
            return Vec::new();
        }
        let keys = std::mem::take(&mut self.keys);
        let text: String = keys.iter().filter_map(text).collect();
        // A line break at the end is somebody who typed fast, or over a slow line, and sends.
        let inner = text.trim_end_matches('\n').contains('\n');
        if rest || inner || keys.len() >= LONG && !text.contains('\n') {
            self.pasted = Some(now);
            return vec![Msg::Paste(text)];
        }
        keys.into_iter().map(Msg::Key).collect()
    }
}

/// What the key stands for in a text, if it does.
fn text(key: &KeyEvent) -> Option<char> {
    match (key.code, key.modifiers) {
        (KeyCode::Char(char), KeyModifiers::NONE | KeyModifiers::SHIFT) => Some(char),
        // A line feed, as some terminals paste it.
        (KeyCode::Enter, KeyModifiers::NONE) | (KeyCode::Char('j'), KeyModifiers::CONTROL) => {
            Some('\n')
        }
        (KeyCode::Tab, KeyModifiers::NONE) => Some('\t'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(char: char) -> KeyEvent {
        match char {
            '\r' => KeyEvent::from(KeyCode::Enter),
            '\n' => KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL),
            char => KeyEvent::from(KeyCode::Char(char)),
        }
    }

    /// What comes out, in brackets what came as a paste, when each text arrives at its milliseconds.
    fn heard(pieces: &[(u64, &str)]) -> String {
        let start = Instant::now();
        let mut burst = Burst::default();
        let mut messages = Vec::new();
        let mut now = start;
        for (at, piece) in pieces {
            let next = start + Duration::from_millis(*at);
            if burst.wait().is_some_and(|wait| now + wait < next) {
                messages.extend(burst.flush(now + burst.wait().unwrap()));
            }
            now = next;
            for char in piece.chars() {
                messages.extend(burst.key(key(char), now));
            }
        }
        messages.extend(burst.flush(now + GAP));
        messages
            .iter()
            .map(|message| match message {
                Msg::Key(key) => text(key).unwrap_or('?').to_string(),
                Msg::Paste(text) => format!("[{text}]"),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn typed_keys_come_one_by_one() {
        assert_eq!(heard(&[(0, "a"), (80, "b"), (160, "\r")]), "ab\n");
    }

    #[test]
    fn fast_typing_and_its_enter_are_typing() {
        assert_eq!(heard(&[(0, "hello"), (5, "\r")]), "hello\n");
        assert_eq!(heard(&[(0, "hello\r")]), "hello\n");
    }

    #[test]
    fn a_burst_with_line_breaks_inside_is_one_paste() {
        assert_eq!(heard(&[(0, "a\rb\rc")]), "[a\nb\nc]");
        assert_eq!(heard(&[(0, "a\nb\n")]), "[a\nb\n]");
        assert_eq!(heard(&[(0, "a\r"), (5, "b"), (9, "\r")]), "[a\nb\n]");
    }

    #[test]
    fn the_next_piece_of_a_paste_is_a_paste_too() {
        assert_eq!(
            heard(&[(0, "a\rb"), (60, "c\r"), (400, "d"), (480, "\r")]),
            "[a\nb][c\n]d\n"
        );
    }

    #[test]
    fn a_long_burst_of_one_line_is_one_paste() {
        let line = "x".repeat(LONG);
        assert_eq!(heard(&[(0, &line)]), format!("[{line}]"));
    }

    #[test]
    fn a_key_that_is_no_text_ends_a_burst() {
        let mut burst = Burst::default();
        let now = Instant::now();
        assert!(burst.key(key('a'), now).is_empty());
        let escape = KeyEvent::from(KeyCode::Esc);
        let messages = burst.key(escape, now);
        assert!(
            matches!(&messages[..], [Msg::Key(a), Msg::Key(b)] if *a == key('a') && *b == escape),
            "{messages:?}"
        );
        assert_eq!(burst.wait(), None);
    }
}
