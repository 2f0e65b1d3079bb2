//! Files in a message: they stand there as text, and are shown as what they are.

use crate::tui::view::figures::count;

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// What was written.
    Text(&'a str),
    /// A file that was attached.
    File {
        /// What is shown for it.
        label: String,
        /// All of it, fences included.
        whole: &'a str,
    },
}

/// What is shown for a file.
pub(crate) fn label(name: &str, characters: usize) -> String {
    format!("[file {name}, {} characters]", count(characters))
}

/// The parts of a message. A file is its name in backquotes with a colon, and its text between fences.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    // Fences that nothing closes any more: a long text is searched once for each.
    let mut unclosed: Vec<&str> = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(line) = text[at..].split_inclusive('\n').next() {
        let next = at + line.len();
        let Some((name, fence)) = opening(line, &text[next..], &unclosed) else {
            at = next;
            continue;
        };
        let content = next + fence.len() + 1;
        let Some((length, after)) = closing(&text[content..], fence) else {
            unclosed.push(fence);
            at = next;
            continue;
        };
        if start < at {
            pieces.push(Piece::Text(&text[start..at]));
        }
        let file = &text[content..content + length];
        let file = file.strip_suffix('\n').unwrap_or(file);
        pieces.push(Piece::File {
            label: label(name, file.chars().count()),
            whole: &text[at..content + after],
        });
        at = content + after;
        start = at;
    }
    if start < text.len() {
        pieces.push(Piece::Text(&text[start..]));
    }
    pieces
}

/// The name that a line has, if a fence follows it.
fn opening<'a>(line: &'a str, rest: &'a str, unclosed: &[&str]) -> Option<(&'a str, &'a str)> {
    let name = line.strip_prefix('`')?.strip_suffix("`:\n")?;
    let (fence, _) = rest.split_once('\n')?;
    let is_fence = fence.len() >= 3 && fence.bytes().all(|byte| byte == b'`');
    (is_fence && !name.is_empty() && !name.contains('`') && !unclosed.contains(&fence))
        .then_some((name, fence))
}

/// How long the text before the closing fence is, and where the line after it begins.
fn closing(text: &str, fence: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.strip_suffix('\n').unwrap_or(line) == fence {
            return Some((at, at + line.len()));
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_between_what_was_written() {
        let whole = "`a b.md`:\n````\n```\ncode\n```\n````\n";
        let text = format!("See\n{whole}\nWhy?");
        assert_eq!(
            pieces(&text),
            [
                Piece::Text("See\n"),
                Piece::File {
                    label: "[file a b.md, 12 characters]".to_owned(),
                    whole
                },
                Piece::Text("\nWhy?"),
            ]
        );
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn what_is_no_file_is_text() {
        for text in [
            "`name`:\n```\nnever closed",
            "`name`:\nno fence",
            "``:\n```\nx\n```\n",
            "name:\n```\nx\n```\n",
            "`name`:\n```rust\nx\n```\n",
        ] {
            assert_eq!(pieces(text), [Piece::Text(text)], "{text}");
        }
    }
}
