//! The blocks of a source: which may still grow, and how one source goes on where another ended.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

/// The source's events, in the Markdown that models write.
pub fn parser(source: &str) -> Parser<'_> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(source, options | Options::ENABLE_MATH)
}

/// How a source relates to the text before it.
#[derive(Clone, Debug, Default)]
pub struct Continued {
    /// Something was rendered before.
    any: bool,
    /// The block before goes on: no blank line.
    glued: bool,
    /// The source begins with a further item of a list.
    pub list: Option<List>,
    /// The list rendered last, at the top level.
    pub last_list: List,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct List {
    /// The number of the next item; none for bullets.
    pub number: Option<u64>,
    /// A blank line comes before its first item here.
    pub blank: bool,
    /// It has items here already.
    pub begun: bool,
}

impl Continued {
    /// A block begins; whether a blank line comes first.
    pub fn begin_block(&mut self) -> bool {
        let blank = self.any && !self.glued;
        (self.any, self.glued, self.list) = (true, false, None);
        blank
    }

    /// The text was cut within a block, which goes on without a blank line or with one.
    pub fn cut_within_block(&mut self, blank: bool) {
        (self.glued, self.list) = (self.any && !blank, None);
    }

    /// The text was cut before a block, or before an item of a list.
    fn cut(&mut self, item: bool, blank: bool) {
        self.list = item.then_some(List {
            number: self.last_list.number,
            blank,
            begun: false,
        });
    }
}

/// The block at the end of a source, which may still grow.
#[derive(Debug, PartialEq, Eq)]
pub struct Open {
    /// Where it begins; for a list, where its last item begins.
    pub at: usize,
    /// It is an item of a list that has others before it.
    pub item: bool,
    /// A blank line is before it.
    pub blank_before: bool,
    /// It is a fenced code block: the fence's character, length, indent and info string.
    pub fence: Option<(char, usize, usize, String)>,
}

impl Open {
    /// What the rest of the source is to the part before it.
    pub fn note(&self, continued: &mut Continued) {
        continued.cut(self.item, self.blank_before);
    }
}

/// The block at the end of `source`; none where there is nothing but blank lines.
pub fn open_block(source: &str) -> Option<Open> {
    if source.trim().is_empty() {
        return None;
    }
    let mut depth = 0_usize;
    let mut start = 0;
    let mut items = 0;
    let mut fence = None;
    for (event, range) in parser(source).into_offset_iter() {
        let is_item = matches!(event, Event::Start(Tag::Item)) && depth == 1;
        if depth == 0 {
            (start, items, fence) = (range.start, 0, None);
        }
        match event {
            Event::Start(tag) => {
                if let (0, Tag::CodeBlock(CodeBlockKind::Fenced(info))) = (depth, &tag) {
                    fence = Some(info.to_string());
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            _ => {}
        }
        if is_item {
            items += 1;
            start = range.start;
        }
    }
    let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
    let at = if source[line_start..start].trim().is_empty() {
        line_start
    } else {
        start
    };
    let fence = fence.and_then(|info| {
        let line = source[at..].lines().next()?;
        let content = line.trim_start_matches(' ');
        let marker = content.chars().next()?;
        let length = content.len() - content.trim_start_matches(marker).len();
        Some((marker, length, line.len() - content.len(), info))
    });
    Some(Open {
        at,
        item: items > 1,
        blank_before: is_blank_before(source, at),
        fence,
    })
}

/// The last line only goes on with what is before it, by its looks, so that the blocks need not be looked at.
pub fn goes_on(source: &str) -> bool {
    let mut lines = source.lines().rev();
    let is_text =
        |line: &str| line.starts_with(|first: char| first == '|' || first.is_alphabetic());
    lines.next().is_some_and(is_text) && lines.next().is_some_and(|line| !line.trim().is_empty())
}

/// Header and delimiter row of the table at the end of a source, unless they are long themselves.
pub fn open_table_header(source: &str) -> Option<&str> {
    let source = &source[open_block(source)?.at..];
    let is_table = matches!(parser(source).next(), Some(Event::Start(Tag::Table(_))));
    let end = source.match_indices('\n').nth(1)?.0 + 1;
    (is_table && end < source.len() / 4).then_some(&source[..end])
}

/// The line before the one at `at` is blank (but for the markers of quotes).
pub fn is_blank_before(source: &str, at: usize) -> bool {
    let line_start = source[..at].rfind('\n').map_or(0, |at| at + 1);
    let before = source[..line_start].strip_suffix('\n').unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line_start > 0 && line.trim_matches([' ', '\t', '>']).is_empty()
}
