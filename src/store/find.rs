//! Finding a session by its name.

use std::time::SystemTime;

use super::{Error, Store, Summary};
use crate::text::{distance, one_line};

/// How many sessions an error lists.
const LISTED: usize = 10;
/// How many near ones it suggests.
const SUGGESTED: usize = 3;

impl Store {
    /// The id of the session that `name` is the id or the title of, or else the beginning of either. Case does not
    /// matter.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Ambiguous`], and as [`list`](Self::list).
    pub fn find(&self, name: &str, now: SystemTime) -> Result<String, Error> {
        if self.path(name).is_ok_and(|path| path.is_file()) {
            return Ok(name.to_owned());
        }
        let all = self.list(now)?;
        let wanted = one_line(name).to_lowercase();
        let exact = |summary: &Summary| {
            summary.id.to_lowercase() == wanted || summary.title.to_lowercase() == wanted
        };
        let begins = |summary: &Summary| {
            summary.id.to_lowercase().starts_with(&wanted)
                || summary.title.to_lowercase().starts_with(&wanted)
        };
        let matching = |accepts: &dyn Fn(&Summary) -> bool| -> Vec<Summary> {
            let found = all.iter().filter(|summary| accepts(summary));
            found.cloned().collect()
        };
        let mut candidates = Vec::new();
        if !wanted.is_empty() {
            candidates = matching(&exact);
            if candidates.is_empty() {
                candidates = matching(&begins);
            }
        }
        match candidates.as_slice() {
            [] => Err(Error::Unknown {
                name: name.to_owned(),
                nearest: nearest(&wanted, all),
            }),
            [summary] => Ok(summary.id.clone()),
            _ => Err(Error::Ambiguous {
                name: name.to_owned(),
                candidates,
            }),
        }
    }
}

/// Those that are most like `wanted`, the most likely first.
fn nearest(wanted: &str, all: Vec<Summary>) -> Vec<Summary> {
    let mut near: Vec<(f64, Summary)> = all
        .into_iter()
        .map(|summary| {
            let by_title = likeness(wanted, &summary.title.to_lowercase());
            (by_title.max(alike(wanted, &summary.id)), summary)
        })
        .filter(|(likeness, _)| *likeness > 0.6)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.truncate(SUGGESTED);
    near.into_iter().map(|(_, summary)| summary).collect()
}

/// How well each word of `wanted` is found in `title`, 0 to 1.
fn likeness(wanted: &str, title: &str) -> f64 {
    let of_word = |word| {
        title
            .split_whitespace()
            .map(|other| alike(word, other))
            .fold(0.0, f64::max)
    };
    let words: Vec<f64> = wanted.split_whitespace().map(of_word).collect();
    words.iter().sum::<f64>() / words.len().max(1) as f64
}

/// The share of letters that need not be changed.
fn alike(a: &str, b: &str) -> f64 {
    let longest = a.chars().count().max(b.chars().count()).max(1);
    1.0 - distance(a, b) as f64 / longest as f64
}

/// Sessions for an error to end with: nothing, or an introduction and a line for each.
pub(super) fn list(introduction: &str, summaries: &[Summary]) -> String {
    if summaries.is_empty() {
        return String::new();
    }
    let shown = &summaries[..summaries.len().min(LISTED)];
    let width = |text: fn(&Summary) -> &str| {
        let widths = shown.iter().map(|summary| text(summary).len());
        widths.max().unwrap_or_default()
    };
    let (id, age) = (width(|summary| &summary.id), width(|summary| &summary.age));
    let mut lines = vec![format!("{introduction}:")];
    lines.extend(shown.iter().map(|summary| {
        let Summary {
            id: name,
            age: since,
            title,
            ..
        } = summary;
        format!("  {name:id$}  {since:age$}  {title}")
    }));
    if summaries.len() > shown.len() {
        lines.push(format!("  and {} more", summaries.len() - shown.len()));
    }
    lines.join("\n")
}
