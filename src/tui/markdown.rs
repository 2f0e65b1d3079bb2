//! Markdown as it arrives, to lines of a width.
//!
//! A message grows at its end only. What is before the block that is still open never changes again (`CommonMark` closes blocks line
//! by line), so its lines are made once and kept. Where the kept part ends depends on the text alone, not on the pieces it
//! came in: any split gives the same lines.

mod blocks;
mod code;
mod mend;
mod render;
mod table;

use ratatui::text::Line;

use self::blocks::Continued;
use self::code::Codes;
use self::render::Renderer;
use super::text::Sanitizer;
use super::theme::Theme;

/// An open block of more bytes is cut, lest its rendering cost more with each token.
const MAX_OPEN: usize = 8 * 1024;

/// A message that grows: finished blocks are rendered once, the open one again as it changes.
#[derive(Clone, Debug)]
pub struct Markdown {
    source: String,
    sanitizer: Sanitizer,
    width: usize,
    theme: Theme,
    finished: bool,
    /// Sanitised source of what is still open.
    tail: String,
    /// The tail is inside of a fenced code block, whose lines are kept one by one.
    fence: Option<Fence>,
    lines: Vec<Line<'static>>,
    /// How many of the lines are kept.
    kept: usize,
    /// How many code blocks are kept.
    kept_codes: usize,
    /// How what comes next relates to what is kept.
    continued: Continued,
    codes: Codes,
}

/// An open fenced code block at the top level.
#[derive(Clone, Copy, Debug)]
struct Fence {
    marker: char,
    length: usize,
    indent: usize,
    /// Lines kept so far.
    lines: usize,
}

impl Markdown {
    /// Nothing yet.
    pub fn new(width: usize, theme: &Theme) -> Self {
        Self {
            source: String::new(),
            sanitizer: Sanitizer::default(),
            width: width.max(1),
            theme: theme.clone(),
            finished: false,
            tail: String::new(),
            fence: None,
            lines: Vec::new(),
            kept: 0,
            kept_codes: 0,
            continued: Continued::default(),
            codes: Codes::default(),
        }
    }

    /// More source text (sanitised here).
    pub fn push(&mut self, text: &str) {
        self.source.push_str(text);
        let clean = self.sanitizer.push(text).into_owned();
        self.feed(&clean);
        self.show();
    }

    /// Nothing more comes: what was open is closed.
    pub fn finish(&mut self) {
        self.finished = true;
        self.show();
    }

    /// Another width or theme: everything is rendered anew from the source.
    pub fn layout(&mut self, width: usize, theme: &Theme) {
        let width = width.max(1);
        if self.width == width && self.theme == *theme {
            return;
        }
        let mut anew = Self::new(width, theme);
        // Colours of code do not depend on the width.
        anew.codes = std::mem::take(&mut self.codes);
        anew.source = std::mem::take(&mut self.source);
        let clean = anew.sanitizer.push(&anew.source).into_owned();
        anew.finished = self.finished;
        anew.feed(&clean);
        anew.show();
        *self = anew;
    }

    /// The lines, none wider than the width.
    pub fn lines(&self) -> &[Line<'static>] {
        &self.lines
    }

    /// How many of the lines no longer change.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Everything pushed, as it came.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The contents of the code blocks, in order.
    pub fn code_blocks(&self) -> Vec<String> {
        self.codes.contents()
    }

    /// Takes text in, line by line, and keeps what is finished.
    fn feed(&mut self, mut text: &str) {
        self.lines.truncate(self.kept);
        while !text.is_empty() {
            let mut end = text.find('\n').map_or(text.len(), |at| at + 1);
            let room = MAX_OPEN.saturating_sub(self.tail.len());
            if end > room && self.fence.is_none() {
                end = text.ceil_char_boundary(room.max(1));
            }
            let (line, rest) = text.split_at(end);
            self.tail.push_str(line);
            text = rest;
            if self.fence.is_none() && self.tail.len() >= MAX_OPEN {
                self.cut();
            } else if line.ends_with('\n') {
                self.keep();
            }
        }
    }

    /// Keeps every block that can no longer change, now that the tail ends with a whole line.
    fn keep(&mut self) {
        if self.fence.is_some() {
            self.keep_code_line();
            return;
        }
        if blocks::goes_on(&self.tail) {
            return;
        }
        let Some(open) = blocks::open_block(&self.tail) else {
            self.tail.clear();
            return;
        };
        if open.at > 0 {
            let rest = self.tail.split_off(open.at);
            let done = std::mem::replace(&mut self.tail, rest);
            self.render(&done);
            self.kept = self.lines.len();
            open.note(&mut self.continued);
        }
        if let Some((marker, length, indent, info)) = open.fence {
            self.tail.clear();
            self.begin_block();
            self.codes.begin(self.kept_codes, &info);
            self.lines
                .extend(render::code_label(&info, self.width, &self.theme));
            self.kept = self.lines.len();
            self.fence = Some(Fence {
                marker,
                length,
                indent,
                lines: 0,
            });
        }
    }

    /// Keeps the tail although its block goes on: up to the last word, of a table up to the last row.
    fn cut(&mut self) {
        let header = blocks::open_table_header(&self.tail).map(str::to_owned);
        let at = match &header {
            Some(_) => self.tail.rfind('\n'),
            None => self.tail.rfind(char::is_whitespace),
        };
        let rest = self.tail.split_off(at.map_or(self.tail.len(), |at| at + 1));
        let done = std::mem::take(&mut self.tail);
        self.render(&done);
        self.kept = self.lines.len();
        self.continued.cut_within_block(header.is_some());
        // The rest of a table is one of its own, with the same header.
        self.tail = header.unwrap_or_default() + &rest;
    }

    fn keep_code_line(&mut self) {
        let Some(mut fence) = self.fence else { return };
        let line = std::mem::take(&mut self.tail);
        let line = line.strip_suffix('\n').unwrap_or(&line);
        if fence.is_closed_by(line) {
            self.end_code(fence.lines);
        } else {
            self.push_code_line(fence, line);
            fence.lines += 1;
            self.fence = Some(fence);
        }
        self.kept = self.lines.len();
    }

    fn end_code(&mut self, lines: usize) {
        self.codes.end(self.kept_codes, lines);
        self.kept_codes += 1;
        self.fence = None;
    }

    fn push_code_line(&mut self, fence: Fence, line: &str) {
        let line = fence.without_indent(line);
        let coloured = self.codes.line(self.kept_codes, fence.lines, line);
        let lines = render::code_line(line, coloured, self.width, &self.theme);
        self.lines.extend(lines);
    }

    /// The blank line between blocks, where there is something before.
    fn begin_block(&mut self) {
        if self.continued.begin_block() {
            self.lines.push(Line::default());
        }
    }

    /// Makes the lines after the kept ones from what is open.
    fn show(&mut self) {
        self.lines.truncate(self.kept);
        if let Some(fence) = self.fence {
            let line = self.tail.clone();
            if self.finished && fence.is_closed_by(&line) {
                self.codes.end(self.kept_codes, fence.lines);
            } else if !line.is_empty() && (self.finished || !fence.may_be_closed_by(&line)) {
                self.push_code_line(fence, &line);
                self.codes.end(self.kept_codes, fence.lines + 1);
            } else {
                self.codes.end(self.kept_codes, fence.lines);
            }
            self.codes.truncate(self.kept_codes + 1);
            return;
        }
        let (continued, kept_codes) = (self.continued.clone(), self.kept_codes);
        if self.finished {
            let tail = self.tail.clone();
            self.render(&tail);
        } else {
            let mended = mend::mend(&self.tail).into_owned();
            self.render(&mended);
        }
        self.codes.truncate(self.kept_codes);
        (self.continued, self.kept_codes) = (continued, kept_codes);
    }

    fn render(&mut self, source: &str) {
        let renderer = Renderer::new(
            source,
            self.width,
            &self.theme,
            (&mut self.codes, &mut self.kept_codes),
            &mut self.continued,
            &mut self.lines,
        );
        renderer.render();
    }
}

impl Fence {
    fn is_closed_by(&self, line: &str) -> bool {
        let content = line.trim_start_matches(' ');
        line.len() - content.len() < 4
            && content.len() >= self.length
            && content
                .trim_end_matches([' ', '\t'])
                .chars()
                .all(|c| c == self.marker)
            && content.starts_with(self.marker)
    }

    /// An unfinished line that would be the end if it stayed so, or with more of its kind.
    fn may_be_closed_by(&self, line: &str) -> bool {
        !line.trim().is_empty() && line.trim().chars().all(|c| c == self.marker)
    }

    /// Code in an indented fence is indented as much.
    fn without_indent<'a>(&self, line: &'a str) -> &'a str {
        let spaces = line.bytes().take_while(|byte| *byte == b' ').count();
        &line[spaces.min(self.indent)..]
    }
}

#[cfg(test)]
mod tests;
