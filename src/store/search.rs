//! Searching what was said.

use std::fs::File;

use super::{Entry, Error, Store, read};
use crate::session::{Cancel, Kind};
use crate::text::one_line;

/// How much of a message is shown around what was found, in characters.
const BEFORE: usize = 24;
const AROUND: usize = 120;

/// A session in which something was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session's id.
    pub id: String,
    /// What is said around the words as they were typed, else around the first that is not in the title; `None` where the title
    /// has them all.
    pub excerpt: Option<String>,
    /// The words stand somewhere as they were typed.
    pub has_phrase: bool,
}

impl Store {
    /// The sessions that have every word of `search` in their title, their id, or a message (thinking left out), on
    /// any branch, in any case. `None`: it was cancelled. What cannot be read is passed over.
    ///
    /// # Errors
    /// [`Error::Io`] when the directory is there and cannot be read.
    pub fn search(&self, search: &str, cancel: &Cancel) -> Result<Option<Vec<Hit>>, Error> {
        let search = one_line(search).to_lowercase();
        let words: Vec<&str> = search.split_whitespace().collect();
        let mut hits = Vec::new();
        for (id, _) in self.files()? {
            if cancel.is_cancelled() {
                return Ok(None);
            }
            hits.extend(self.search_in(id, &search, &words));
        }
        Ok(Some(hits))
    }

    fn search_in(&self, id: String, phrase: &str, words: &[&str]) -> Option<Hit> {
        let path = self.path(&id).ok()?;
        let state = read::load(&path, &File::open(&path).ok()?).ok()?.state;
        let title = state.title.or_else(|| state.tree.beginning());
        let title = title.unwrap_or_default().to_lowercase();
        let mut missing: Vec<&str> = words.to_vec();
        missing.retain(|word| !title.contains(word) && !id.starts_with(word));
        let mut has_phrase = title.contains(phrase);
        let Some(shown) = missing.first().copied() else {
            return Some(Hit {
                id,
                excerpt: None,
                has_phrase,
            });
        };
        let mut excerpt = None;
        let mut look = |text: &str| {
            let lower = text.to_lowercase();
            if !has_phrase && let Some(at) = lower.find(phrase) {
                has_phrase = true;
                excerpt = Some(around(text, original(text, at)));
            }
            if excerpt.is_none()
                && let Some(at) = lower.find(shown)
            {
                excerpt = Some(around(text, original(text, at)));
            }
            missing.retain(|word| !lower.contains(word));
        };
        for (_, _, entry) in state.tree.nodes() {
            match entry {
                Entry::User(text) => look(text),
                Entry::Turn(turn) => {
                    let said = turn.messages.iter();
                    said.filter(|message| message.kind() != Kind::Thinking)
                        .for_each(|message| look(&message.text()));
                }
            }
        }
        missing.is_empty().then_some(Hit {
            id,
            excerpt,
            has_phrase,
        })
    }
}

/// The place in `text` that is at `at` in its lower case, which may be longer or shorter.
fn original(text: &str, at: usize) -> usize {
    let mut lower = 0;
    let mut places = text.char_indices().map(|(place, letter)| {
        let here = lower;
        lower += letter.to_lowercase().map(char::len_utf8).sum::<usize>();
        (here, place)
    });
    places
        .find(|(here, _)| *here >= at)
        .map_or(text.len(), |(_, place)| place)
}

/// The text around `at`, on one line, from the beginning of a word.
fn around(text: &str, at: usize) -> String {
    let (before, after) = text.split_at(at);
    let start = before
        .char_indices()
        .rev()
        .take(BEFORE)
        .last()
        .map_or(at, |(start, _)| start);
    let start = match before[start..].find(char::is_whitespace) {
        Some(space) if start > 0 => start + space,
        _ => start,
    };
    let end = after
        .char_indices()
        .nth(AROUND)
        .map_or(text.len(), |(end, _)| at + end);
    let mark = |cut: bool| if cut { "…" } else { "" };
    format!(
        "{}{}{}",
        mark(start > 0),
        one_line(&text[start..end]),
        mark(end < text.len())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_begins_with_a_word_and_says_where_it_is_cut() {
        assert_eq!(around("all of it", 7), "all of it");
        let long = format!("zero one two three\nfour five six {} end", "x".repeat(130));
        let at = long.find("six").unwrap();
        assert_eq!(
            around(&long, at),
            format!("…two three four five six {}…", "x".repeat(116))
        );
        // A Turkish capital is longer in lower case.
        let text = "İİİ ÄRGER";
        let at = text.to_lowercase().find("ärger").unwrap();
        assert_eq!(&text[original(text, at)..], "ÄRGER");
    }
}
