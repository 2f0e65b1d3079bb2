//! Markdown source to lines.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::text::{line_width, width, wrap, wrap_anywhere};
use super::super::theme::Theme;
use super::blocks::{Continued, List, is_blank_before, parser};
use super::code::{Codes, Pieces, language};
use super::table::Table;

/// Prefixes leave at least this much for the text.
const MIN_TEXT: usize = 6;

/// Code is indented where it can be afforded.
const CODE_INDENT: &str = "  ";

/// The line that names a code block's language, if it names one.
pub fn code_label(info: &str, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let name = language(info);
    if name.is_empty() {
        return Vec::new();
    }
    wrap_anywhere(&Line::from(Span::styled(name.to_owned(), theme.dim)), width)
}

/// A line of code in its colours.
pub fn code_line(text: &str, pieces: &Pieces, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut at = 0;
    let spans = pieces.iter().map(|(length, kind)| {
        let piece = &text[at..at + length];
        at += length;
        Span::styled(piece.to_owned(), kind.style(theme))
    });
    let indent = if width >= 20 { CODE_INDENT } else { "" };
    let mut lines = wrap_anywhere(&spans.collect(), width - indent.len());
    if !indent.is_empty() {
        for line in lines.iter_mut().filter(|line| !line.spans.is_empty()) {
            line.spans.insert(0, Span::raw(indent));
        }
    }
    lines
}

/// A quote or an item of a list around what is rendered.
struct Container {
    is_item: bool,
    /// What its first line begins with, until that is written.
    first: Option<Span<'static>>,
    /// What its other lines begin with.
    later: Span<'static>,
    /// Nothing is in it yet.
    is_empty: bool,
}

struct Link {
    url: String,
    text: String,
}

pub struct Renderer<'a> {
    source: &'a str,
    width: usize,
    theme: &'a Theme,
    codes: &'a mut Codes,
    next_code: &'a mut usize,
    continued: &'a mut Continued,
    lines: &'a mut Vec<Line<'static>>,
    containers: Vec<Container>,
    lists: Vec<List>,
    styles: Vec<Style>,
    /// The text of the open paragraph; a span of one line feed breaks the line.
    inline: Vec<Span<'static>>,
    /// The marker of an item too narrow for indentation: its text begins with it.
    marker: Option<Span<'static>>,
    links: Vec<Link>,
    code: Option<(String, String)>,
    table: Option<Table>,
}

impl<'a> Renderer<'a> {
    pub fn new(
        source: &'a str,
        width: usize,
        theme: &'a Theme,
        (codes, next_code): (&'a mut Codes, &'a mut usize),
        continued: &'a mut Continued,
        lines: &'a mut Vec<Line<'static>>,
    ) -> Self {
        Self {
            source,
            width,
            theme,
            codes,
            next_code,
            continued,
            lines,
            containers: Vec::new(),
            lists: Vec::new(),
            styles: vec![theme.text],
            inline: Vec::new(),
            marker: None,
            links: Vec::new(),
            code: None,
            table: None,
        }
    }

    pub fn render(mut self) {
        let source = self.source;
        let mut depth = 0_usize;
        // Where the blocks so far end: what lies between two of them is the definition of a link, which is shown as it is.
        let mut covered = 0;
        let mut inline_end = 0;
        for (event, range) in parser(source).into_offset_iter() {
            if depth == 0 {
                self.definitions(&source[covered..range.start.max(covered)]);
                covered = covered.max(range.end);
            }
            match event {
                Event::Start(tag) => {
                    depth += 1;
                    self.start(tag, range);
                }
                Event::End(tag) => {
                    depth -= 1;
                    self.end(tag);
                }
                event => {
                    let escaped = range.start > inline_end && source[..range.start].ends_with('\\');
                    inline_end = range.end;
                    self.inline(event, escaped, range);
                }
            }
        }
        self.definitions(&source[covered.min(source.len())..]);
    }

    fn definitions(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.begin_block(0);
            self.text(text.trim(), self.theme.text);
            self.flush();
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_style(&mut self, style: Style) {
        self.styles.push(self.style().patch(style));
    }

    /// The room for text inside of the containers.
    fn room(&self) -> usize {
        let taken: usize = self
            .containers
            .iter()
            .map(|container| width(&container.later.content))
            .sum();
        self.width.saturating_sub(taken).max(1)
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(range.start),
            Tag::Heading { level, .. } => {
                self.begin_block(range.start);
                let style = self.theme.heading;
                self.push_style(match level {
                    HeadingLevel::H1 => style.add_modifier(Modifier::UNDERLINED),
                    _ => style,
                });
            }
            Tag::BlockQuote(_) => {
                self.begin_block(range.start);
                let bar = Span::styled("│ ", self.theme.quote);
                self.begin_container(false, bar.clone(), bar);
                self.push_style(self.theme.quote);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block(range.start);
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((info, String::new()));
            }
            Tag::List(first) => {
                let continued = self.continued.list.filter(|_| self.containers.is_empty());
                self.begin_list(first, continued, range.start);
            }
            Tag::Item => self.begin_item(range.start),
            Tag::Table(alignments) => {
                self.begin_block(range.start);
                self.table = Some(Table {
                    alignments,
                    rows: Vec::new(),
                });
            }
            Tag::TableHead => {
                self.push_style(self.theme.strong);
                self.begin_row();
            }
            Tag::TableRow => self.begin_row(),
            Tag::Emphasis => self.push_style(self.theme.emphasis),
            Tag::Strong => self.push_style(self.theme.strong),
            Tag::Strikethrough => self.push_style(self.theme.strikethrough),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.push_style(self.theme.link);
                self.links.push(Link {
                    url: dest_url.to_string(),
                    text: String::new(),
                });
            }
            // The rest is not enabled.
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.end_container();
                self.styles.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                let list = self.lists.pop();
                if let Some(list) =
                    list.filter(|_| self.lists.is_empty() && self.containers.is_empty())
                {
                    self.continued.last_list = list;
                }
            }
            TagEnd::Item => self.end_container(),
            TagEnd::Table => {
                let lines = self
                    .table
                    .take()
                    .map(|table| table.lines(self.room(), self.theme));
                for line in lines.into_iter().flatten() {
                    self.push_line(line);
                }
            }
            TagEnd::TableCell => {
                let cell = Line::from(std::mem::take(&mut self.inline));
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::TableHead | TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.end_link();
            }
            _ => {}
        }
    }

    fn inline(&mut self, event: Event<'_>, escaped: bool, range: Range<usize>) {
        let style = self.style();
        match event {
            Event::Text(text) => {
                if let Some((_, code)) = &mut self.code {
                    code.push_str(&text);
                    return;
                }
                // The brackets of LaTeX, `\(x\)`, are no escapes to the reader.
                if escaped && text.starts_with(['(', ')', '[', ']', '{', '}', ',', ';', ':', '!']) {
                    self.text("\\", style);
                }
                self.text(&text, style);
            }
            Event::Code(code) => {
                let code_style = style.patch(self.theme.code);
                if code_style == style {
                    self.text(&format!("`{code}`"), style);
                } else {
                    self.text(&code, code_style);
                }
            }
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text, style),
            Event::InlineMath(math) => self.text(&format!("${math}$"), style),
            Event::DisplayMath(math) => self.text(&format!("$${math}$$"), style),
            Event::SoftBreak | Event::HardBreak => self.text("\n", style),
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }, style),
            Event::Rule => {
                self.begin_block(range.start);
                let rule = "─".repeat(self.room());
                self.push_line(Line::from(Span::styled(rule, self.theme.rule)));
            }
            Event::Start(_) | Event::End(_) | Event::FootnoteReference(_) => {}
        }
    }

    fn text(&mut self, text: &str, style: Style) {
        for link in &mut self.links {
            link.text.push_str(text);
        }
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                let in_table = self.table.is_some();
                self.inline
                    .push(Span::raw(if in_table { " " } else { "\n" }));
            }
            if !line.is_empty() {
                self.inline.push(Span::styled(line.to_owned(), style));
            }
        }
    }

    fn end_link(&mut self) {
        let Some(link) = self.links.pop() else { return };
        let url = link.url.strip_prefix("mailto:").unwrap_or(&link.url);
        if !url.is_empty() && url != link.text {
            let between = if link.text.is_empty() { "" } else { " " };
            self.text(&format!("{between}({})", link.url), self.theme.dim);
        }
    }

    fn begin_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        }
    }

    /// A block begins at `at` of the source: the blank line before it.
    fn begin_block(&mut self, at: usize) {
        self.flush();
        let blank = match self.containers.last_mut() {
            None => self.continued.begin_block(),
            Some(container) => {
                let is_empty = std::mem::take(&mut container.is_empty);
                !is_empty && (!container.is_item || is_blank_before(self.source, at))
            }
        };
        if blank {
            self.push_line(Line::default());
        }
    }

    fn begin_list(&mut self, first: Option<u64>, continued: Option<List>, at: usize) {
        if let Some(list) = continued {
            self.continued.begin_block();
            self.lists.push(List {
                number: first.and(list.number),
                ..list
            });
        } else {
            self.begin_block(at);
            self.lists.push(List {
                number: first,
                ..List::default()
            });
        }
    }

    fn begin_item(&mut self, at: usize) {
        self.flush();
        let nested = self.lists.len();
        let Some(list) = self.lists.last_mut() else {
            return;
        };
        let marker = match &mut list.number {
            Some(number) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            None if nested % 2 == 1 => "• ".to_owned(),
            None => "◦ ".to_owned(),
        };
        let begun = std::mem::replace(&mut list.begun, true);
        let is_blank = if begun {
            is_blank_before(self.source, at)
        } else {
            list.blank
        };
        if is_blank {
            self.push_line(Line::default());
        }
        let later = Span::raw(" ".repeat(width(&marker)));
        self.begin_container(true, Span::styled(marker, self.theme.text), later);
    }

    fn begin_container(&mut self, is_item: bool, first: Span<'static>, later: Span<'static>) {
        let fits = self.room() >= width(&first.content) + MIN_TEXT;
        if !fits && is_item {
            // Too narrow to indent: the marker is the beginning of the text.
            self.marker = Some(first.clone());
        }
        self.containers.push(Container {
            is_item,
            first: Some(first).filter(|_| fits),
            later: if fits { later } else { Span::raw("") },
            is_empty: true,
        });
    }

    fn end_container(&mut self) {
        self.flush();
        self.write_marker();
        if self
            .containers
            .last()
            .is_some_and(|container| container.first.is_some())
        {
            // Nothing is in it: the marker alone.
            self.push_line(Line::default());
        }
        self.containers.pop();
    }

    fn end_code(&mut self) {
        let Some((info, code)) = self.code.take() else {
            return;
        };
        for label in code_label(&info, self.room(), self.theme) {
            self.push_line(label);
        }
        let index = *self.next_code;
        *self.next_code += 1;
        self.codes.begin(index, &info);
        let room = self.room();
        let mut count = 0;
        for line in code.lines() {
            let coloured = self.codes.line(index, count, line);
            let lines = code_line(line, coloured, room, self.theme);
            for line in lines {
                self.push_line(line);
            }
            count += 1;
        }
        self.codes.end(index, count);
    }

    /// The open paragraph, wrapped.
    fn flush(&mut self) {
        if self.inline.is_empty() {
            return;
        }
        if let Some(container) = self.containers.last_mut() {
            container.is_empty = false;
        }
        let mut inline = std::mem::take(&mut self.inline);
        if let Some(marker) = self.marker.take() {
            inline.insert(0, marker);
        }
        for line in inline.split(|span| span.content == "\n") {
            for line in wrap(&Line::from(line.to_vec()), self.room(), &Line::default()) {
                self.push_line(line);
            }
        }
    }

    /// The marker of an item without text at its start, on a line of its own.
    fn write_marker(&mut self) {
        let Some(marker) = self.marker.take() else {
            return;
        };
        let marker = Span::styled(marker.content.trim_end().to_owned(), marker.style);
        for line in wrap(&Line::from(marker), self.room(), &Line::default()) {
            self.push_line(line);
        }
    }

    /// A line with the prefixes of the containers around it.
    fn push_line(&mut self, mut line: Line<'static>) {
        self.write_marker();
        let is_blank = line_width(&line) == 0;
        let mut prefixes: Vec<_> = self
            .containers
            .iter_mut()
            .map(|container| {
                let later = container.later.clone();
                container.first.take().unwrap_or(later)
            })
            .filter(|prefix| !prefix.content.is_empty())
            .collect();
        if is_blank {
            // No spaces at the end of a line.
            while prefixes
                .last()
                .is_some_and(|prefix| prefix.content.trim().is_empty())
            {
                prefixes.pop();
            }
            if let Some(last) = prefixes.last_mut() {
                last.content = last.content.trim_end().to_owned().into();
            }
        }
        prefixes.append(&mut line.spans);
        line.spans = prefixes;
        self.lines.push(line);
    }
}
