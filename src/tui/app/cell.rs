//! One piece of the transcript and its lines.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::attached::{Piece, pieces};
use super::transcript::Look;
use crate::session::{Kind, Message};
use crate::store::NodeId;
use crate::tui::markdown::Markdown;
use crate::tui::text::{Sanitizer, line_width, sanitize, wrap};
use crate::tui::view::figures::{count, seconds};

/// What a cell shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    User,
    Thinking,
    Answer,
    /// Said before a tool is called.
    Preamble,
    ToolCall {
        name: String,
    },
    Notice,
    Error,
}

impl CellKind {
    pub fn of(message: &Message) -> Self {
        match message.kind() {
            Kind::Thinking => Self::Thinking,
            Kind::Preamble => Self::Preamble,
            Kind::Final => Self::Answer,
            Kind::ToolCall => Self::ToolCall {
                name: sanitize(message.tool_name().unwrap_or_default()).replace('\n', " "),
            },
        }
    }

    fn is_markdown(&self) -> bool {
        matches!(self, Self::Answer | Self::Thinking)
    }
}

/// Thinking that took less is not timed.
const NOTEWORTHY: Duration = Duration::from_millis(100);
/// Longest piece of a line that is wrapped again as it grows.
const LONGEST_OPEN: usize = 4096;

/// Text in wrapped lines, of which only the last source line is wrapped again when more comes.
#[derive(Debug, Default)]
struct Flow {
    lines: Vec<Line<'static>>,
    /// Of these, those that no longer change.
    frozen: usize,
    /// Where in the source the rest begins.
    open: usize,
}

/// How the lines of a flow begin and look.
struct Manner {
    first: Line<'static>,
    later: Line<'static>,
    style: Style,
}

impl Flow {
    fn grow(&mut self, source: &str, manner: &Manner, width: usize) {
        self.lines.truncate(self.frozen);
        let mut rest = source.get(self.open..).unwrap_or_default();
        loop {
            let end = rest.find('\n');
            let line = &rest[..end.unwrap_or(rest.len())];
            let (cut, skip) = match end {
                _ if line.len() > LONGEST_OPEN => (Self::cut(line), 0),
                Some(end) => (end, 1),
                None => break,
            };
            self.wrap(&rest[..cut], manner, width);
            self.frozen = self.lines.len();
            self.open += cut + skip;
            rest = &rest[cut + skip..];
        }
        if !rest.is_empty() {
            self.wrap(rest, manner, width);
        }
    }

    fn wrap(&mut self, text: &str, manner: &Manner, width: usize) {
        let prefix = if self.lines.is_empty() {
            &manner.first
        } else {
            &manner.later
        };
        let mut line = prefix.clone();
        line.push_span(Span::styled(text.to_owned(), manner.style));
        self.lines.extend(wrap(&line, width, &manner.later));
    }

    /// Where a very long line is cut: after the last space before the limit.
    fn cut(line: &str) -> usize {
        let limit = (0..=LONGEST_OPEN)
            .rev()
            .find(|at| line.is_char_boundary(*at))
            .unwrap_or(line.len());
        line[..limit].rfind(' ').map_or(limit, |at| at + 1)
    }
}

#[derive(Debug)]
enum Body {
    /// Not laid out yet.
    Source(String),
    Plain {
        source: String,
        flow: Flow,
    },
    Markdown(Box<Markdown>),
    Thinking(Box<Thinking>),
}

/// Markdown behind a margin.
#[derive(Debug)]
struct Thinking {
    markdown: Markdown,
    margin: Line<'static>,
    /// A heading, and the lines of the Markdown with the margin.
    lines: Vec<Line<'static>>,
    /// How many lines the heading has.
    heading: usize,
}

impl Thinking {
    fn new(source: &str, look: &Look) -> Self {
        let heading = header(&CellKind::Thinking, look);
        let margin = manner(&CellKind::Thinking, look).first;
        let width = look.width - line_width(&margin);
        let mut thinking = Self {
            markdown: Markdown::new(width, &look.theme.for_thinking()),
            margin,
            heading: heading.len(),
            lines: heading,
        };
        thinking.push(source);
        thinking
    }

    fn push(&mut self, text: &str) {
        let kept = self.markdown.kept();
        self.markdown.push(text);
        self.take_over(kept);
    }

    fn finish(&mut self) {
        let kept = self.markdown.kept();
        self.markdown.finish();
        self.take_over(kept);
    }

    /// Takes the Markdown's lines from `kept` on.
    fn take_over(&mut self, kept: usize) {
        self.lines.truncate(self.heading + kept);
        let fresh = &self.markdown.lines()[kept..];
        self.lines.extend(fresh.iter().map(|line| {
            let mut whole = self.margin.clone();
            whole.spans.extend(line.spans.iter().cloned());
            whole.style = whole.style.patch(line.style);
            whole
        }));
    }
}

#[derive(Debug)]
pub(crate) struct Cell {
    pub kind: CellKind,
    /// The exchange in the tree that it shows; `None` for notices and what is being made.
    pub node: Option<NodeId>,
    /// It is being made.
    pub live: bool,
    /// An error that stays until what it is about is tried again.
    pub stays: bool,
    /// When it began, and how long it took.
    pub started: Option<Instant>,
    pub duration: Option<Duration>,
    body: Body,
    /// An escape sequence may come in pieces.
    sanitizer: Sanitizer,
    /// The one line of folded thinking.
    folded: Option<Line<'static>>,
    generation: Option<u64>,
}

impl Cell {
    pub fn new(kind: CellKind, text: &str) -> Self {
        let mut sanitizer = Sanitizer::default();
        Self {
            body: Body::Source(if kind.is_markdown() {
                text.to_owned()
            } else {
                sanitizer.push(text).into_owned()
            }),
            sanitizer,
            kind,
            node: None,
            live: false,
            stays: false,
            started: None,
            duration: None,
            folded: None,
            generation: None,
        }
    }

    /// Thinking is being made.
    pub fn is_thinking(&self) -> bool {
        self.live && self.kind == CellKind::Thinking
    }

    pub fn source(&self) -> &str {
        match &self.body {
            Body::Source(source) | Body::Plain { source, .. } => source,
            Body::Markdown(markdown) => markdown.source(),
            Body::Thinking(thinking) => thinking.markdown.source(),
        }
    }

    pub fn lines(&self) -> &[Line<'static>] {
        match (&self.folded, &self.body) {
            (Some(line), _) => std::slice::from_ref(line),
            (None, Body::Source(_)) => &[],
            (None, Body::Plain { flow, .. }) => &flow.lines,
            (None, Body::Markdown(markdown)) => markdown.lines(),
            (None, Body::Thinking(thinking)) => &thinking.lines,
        }
    }

    pub fn append(&mut self, text: &str, look: &Look) {
        match &mut self.body {
            Body::Markdown(markdown) => markdown.push(text),
            Body::Thinking(thinking) => thinking.push(text),
            Body::Source(source) if self.kind.is_markdown() => source.push_str(text),
            Body::Source(source) => source.push_str(&self.sanitizer.push(text)),
            Body::Plain { source, flow } => {
                source.push_str(&self.sanitizer.push(text));
                flow.grow(source, &manner(&self.kind, look), look.width);
            }
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        self.live = false;
        match &mut self.body {
            Body::Markdown(markdown) => markdown.finish(),
            Body::Thinking(thinking) => thinking.finish(),
            Body::Source(_) | Body::Plain { .. } => {}
        }
    }

    pub fn forget_lines(&mut self) {
        self.generation = None;
    }

    /// Makes the lines, where they are not those of this look.
    pub fn lay_out(&mut self, look: &Look, generation: u64) {
        if self.generation == Some(generation) {
            return;
        }
        self.generation = Some(generation);
        self.folded = None;
        let is_shown = if self.live { look.live } else { look.unfolded };
        if self.kind == CellKind::Thinking && !is_shown {
            let folded = Line::styled(self.summary(), look.theme.thinking);
            let mut lines = wrap(&folded, look.width, &Line::default()).into_iter();
            self.folded = Some(lines.next().unwrap_or_default());
            return;
        }
        match &mut self.body {
            Body::Markdown(markdown) => markdown.layout(look.width, &look.theme),
            Body::Thinking(thinking) => {
                **thinking = Thinking::new(thinking.markdown.source(), look);
                if !self.live {
                    thinking.finish();
                }
            }
            Body::Source(source) if self.kind == CellKind::Thinking => {
                let mut thinking = Thinking::new(source, look);
                if !self.live {
                    thinking.finish();
                }
                self.body = Body::Thinking(Box::new(thinking));
            }
            Body::Source(source) | Body::Plain { source, .. } => {
                let source = std::mem::take(source);
                self.body = if self.kind == CellKind::Answer {
                    let mut markdown = Markdown::new(look.width, &look.theme);
                    markdown.push(&source);
                    if !self.live {
                        markdown.finish();
                    }
                    Body::Markdown(Box::new(markdown))
                } else {
                    let mut flow = Flow {
                        lines: header(&self.kind, look),
                        ..Flow::default()
                    };
                    flow.frozen = flow.lines.len();
                    let shown = match self.kind {
                        CellKind::User if !look.unfolded => with_files_folded(&source),
                        _ => Cow::Borrowed(source.as_str()),
                    };
                    flow.grow(&shown, &manner(&self.kind, look), look.width);
                    Body::Plain { source, flow }
                };
            }
        }
    }

    /// What folded thinking says of itself: words, which are known of a reopened session too.
    fn summary(&self) -> String {
        if self.live {
            // To count the words again and again would cost more with each.
            return "thinking  (Ctrl-T)".to_owned();
        }
        let mut text = "thought".to_owned();
        // A model that thinks no longer than that need not boast of it.
        if let Some(duration) = self.duration.filter(|duration| *duration >= NOTEWORTHY) {
            text.push_str(" for ");
            text.push_str(&seconds(duration));
        }
        let words = self.source().unicode_words().count();
        let unit = if words == 1 { "word" } else { "words" };
        text + ", " + &count(words) + " " + unit + "  (Ctrl-T)"
    }
}

/// A message with its files as labels.
fn with_files_folded(message: &str) -> Cow<'_, str> {
    let pieces = pieces(message);
    if !pieces
        .iter()
        .any(|piece| matches!(piece, Piece::File { .. }))
    {
        return Cow::Borrowed(message);
    }
    let shown = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => (*text).to_owned(),
        Piece::File { label, .. } => format!("{label}  (Ctrl-T)"),
    });
    Cow::Owned(shown.collect())
}

/// Lines before the text.
fn header(kind: &CellKind, look: &Look) -> Vec<Line<'static>> {
    let (text, style) = match kind {
        CellKind::Thinking => ("┊ thinking".to_owned(), look.theme.thinking),
        CellKind::ToolCall { name } => (format!("→ calls {name}"), look.theme.tool),
        _ => return Vec::new(),
    };
    let hanging = Line::raw("  ");
    wrap(&Line::styled(text, style), look.width, &hanging)
}

/// How the text begins and looks.
fn manner(kind: &CellKind, look: &Look) -> Manner {
    let theme = &look.theme;
    let (first, later, style) = match kind {
        CellKind::User => ("› ", "  ", theme.user),
        CellKind::Thinking => ("┊ ", "┊ ", theme.thinking),
        CellKind::Preamble => ("» ", "  ", theme.text),
        CellKind::ToolCall { .. } => ("  ", "  ", theme.tool),
        CellKind::Notice => ("· ", "  ", theme.notice),
        CellKind::Error => ("✗ ", "  ", theme.error),
        CellKind::Answer => ("", "", theme.text),
    };
    // A few columns are too few for a margin.
    let line = |text: &'static str| match look.width {
        0..8 => Line::default(),
        _ => Line::styled(text, style),
    };
    Manner {
        first: line(first),
        later: line(later),
        style,
    }
}
