//! What a text that stops in the middle of its markup is shown as, until more of it comes.

use std::borrow::Cow;

/// `tail` with its open emphasis, code and link closed, and without the beginnings of markup at its end that may yet become
/// anything (a number, dashes, backticks).
pub fn mend(tail: &str) -> Cow<'_, str> {
    let line_start = tail.rfind('\n').map_or(0, |at| at + 1);
    let (before, line) = tail.split_at(line_start);
    let content = line.trim_start_matches([' ', '>', '\t']).trim_end();
    if content.is_empty() {
        return Cow::Borrowed(tail);
    }
    if let Some(delimiters) = delimiter_row(before, content) {
        return Cow::Owned(format!("{before}{delimiters}"));
    }
    if is_only_markup(content) {
        return Cow::Borrowed(before);
    }
    if is_in_fence(before) {
        return Cow::Borrowed(tail);
    }
    let (before, text) = tail.split_at(inline_start(tail));
    let text = without_open_link(text);
    match Open::of(&text).closed(&text) {
        Some(text) => Cow::Owned(format!("{before}{text}")),
        None if matches!(text, Cow::Owned(_)) => Cow::Owned(format!("{before}{text}")),
        None => Cow::Borrowed(tail),
    }
}

/// The whole delimiter row, where one has begun below a table's header: otherwise the header would turn from text to table late.
fn delimiter_row(before: &str, content: &str) -> Option<String> {
    if !content.starts_with('|') || content.chars().any(|c| !"|:- ".contains(c)) {
        return None;
    }
    let mut above = before.lines().rev();
    let header = above.next()?.trim();
    if header.len() < 2
        || !header.starts_with('|')
        || above
            .next()
            .is_some_and(|line| line.trim_start().starts_with('|'))
    {
        return None;
    }
    let cells = header
        .trim_matches('|')
        .replace("\\|", "")
        .split('|')
        .count();
    Some(format!("|{}", "---|".repeat(cells)))
}

/// A line that is a marker so far: of a list, a heading, a rule, a fence.
fn is_only_markup(content: &str) -> bool {
    let number = content.strip_suffix(['.', ')']);
    content.chars().all(|c| "-=#*_`~+|:".contains(c))
        || number.is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
}

fn is_in_fence(before: &str) -> bool {
    let is_fence = |line: &&str| {
        let line = line.trim_start_matches([' ', '>', '\t']);
        line.starts_with("```") || line.starts_with("~~~")
    };
    before.lines().filter(is_fence).count() % 2 == 1
}

/// Where the last paragraph, heading, item or row begins: no inline markup reaches over that.
fn inline_start(tail: &str) -> usize {
    let mut start = tail.len();
    for line in tail.split_inclusive('\n').rev() {
        let content = line.trim_start();
        if content.is_empty() {
            break;
        }
        start -= line.len();
        let item = content.trim_start_matches(|c: char| c.is_ascii_digit());
        if content.starts_with(['#', '>', '|', '-', '+'])
            || content.starts_with("* ")
            || item.starts_with([')', '.'])
        {
            break;
        }
    }
    start
}

/// `[text](http://exam` as its text alone.
fn without_open_link(text: &str) -> Cow<'_, str> {
    let Some(middle) = text.rfind("](") else {
        return Cow::Borrowed(text);
    };
    let (label, url) = (&text[..middle], &text[middle..]);
    match label.rfind('[') {
        Some(open) if !url.contains([')', '\n', '`']) => {
            let before = label[..open].strip_suffix('!').unwrap_or(&label[..open]);
            Cow::Owned(format!("{before}{}", &label[open + 1..]))
        }
        _ => Cow::Borrowed(text),
    }
}

/// The markup that is open at the end of a text.
#[derive(Default)]
struct Open {
    /// Runs of `*`, `_` or `~` that wait for their like.
    delimiters: Vec<(char, usize)>,
    /// Backticks that wait for as many.
    backticks: usize,
    /// Bytes at the end that may belong to a delimiter.
    unfinished: usize,
}

impl Open {
    fn of(text: &str) -> Self {
        let mut open = Self::default();
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let run = text[at..].len() - text[at..].trim_start_matches(first).len();
            let end = at + run;
            match first {
                // An escape and what it escapes.
                '\\' => {
                    let escaped = text[at + 1..].chars().next().map_or(0, char::len_utf8);
                    at += 1 + escaped;
                    continue;
                }
                '`' => match closing_backticks(&text[end..], run) {
                    Some(after) => {
                        at = end + after;
                        continue;
                    }
                    None if text[end..].trim().is_empty() => open.unfinished = text.len() - at,
                    None => {
                        open.backticks = run;
                        let inner = text[end..].trim_end();
                        open.unfinished = inner.len() - inner.trim_end_matches('`').len();
                        return open;
                    }
                },
                '*' | '_' | '~' => {
                    let before = text[..at].chars().next_back();
                    open.delimiter(first, run, before, text[end..].chars().next());
                }
                _ => {}
            }
            at = end;
        }
        open
    }

    fn delimiter(
        &mut self,
        character: char,
        mut run: usize,
        before: Option<char>,
        after: Option<char>,
    ) {
        let is_text = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if character == '_' && is_word(before) && is_word(after) {
            return;
        }
        while run > 0 {
            match self.delimiters.last() {
                Some((open, length)) if is_text(before) && *open == character && *length <= run => {
                    run -= length;
                    self.delimiters.pop();
                }
                _ if is_text(after) && (character != '~' || run == 2) => {
                    let length = run.min(2);
                    self.delimiters.push((character, length));
                    run -= length;
                }
                _ if after.is_none() => {
                    self.unfinished = run;
                    return;
                }
                _ => return,
            }
        }
    }

    /// `text` with everything closed, if anything is open.
    fn closed(&self, text: &str) -> Option<String> {
        if self.delimiters.is_empty() && self.backticks == 0 && self.unfinished == 0 {
            return None;
        }
        let shown = text.trim_end();
        let shown = shown
            .get(..shown.len().saturating_sub(self.unfinished))
            .unwrap_or(shown);
        // A closing delimiter does not count after a space.
        let mut closed = shown.trim_end().to_owned();
        closed.extend(std::iter::repeat_n('`', self.backticks));
        for (character, length) in self.delimiters.iter().rev() {
            closed.extend(std::iter::repeat_n(*character, *length));
        }
        Some(closed)
    }
}

/// Where in `text` the code span that was opened by `run` backticks ends.
fn closing_backticks(text: &str, run: usize) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find('`')?;
        let length = text[at..].len() - text[at..].trim_start_matches('`').len();
        at += length;
        if length == run {
            return Some(at);
        }
    }
}
