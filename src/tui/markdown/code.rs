//! The code blocks of a message and their colours, line by line.

use std::sync::OnceLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::super::theme::Theme;
use ratatui::style::Style;

/// Longer lines (minified code) stay plain: the grammars take too long.
const MAX_COLOURED: usize = 2000;

/// What a piece of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Keyword,
    String,
    Comment,
    Number,
    Function,
    Type,
}

impl Kind {
    pub fn style(self, theme: &Theme) -> Style {
        let special = match self {
            Self::Plain => Style::new(),
            Self::Keyword => theme.code_keyword,
            Self::String => theme.code_string,
            Self::Comment => theme.code_comment,
            Self::Number => theme.code_number,
            Self::Function => theme.code_function,
            Self::Type => theme.code_type,
        };
        theme.text.patch(special)
    }
}

/// Pieces of a line: their bytes and what they are.
pub type Pieces = Vec<(usize, Kind)>;

/// The code blocks of a message, in order.
#[derive(Clone, Debug, Default)]
pub struct Codes(Vec<Code>);

#[derive(Clone, Debug)]
struct Code {
    info: String,
    lines: Vec<(String, Pieces)>,
    /// After the last line; none for a language without a grammar.
    highlighter: Option<Highlighter>,
}

impl Codes {
    /// The block with this index begins; if it is as it was the last time, its colours stay.
    pub fn begin(&mut self, index: usize, info: &str) {
        if self.0.get(index).is_none_or(|code| code.info != info) {
            self.0.truncate(index);
            self.0.push(Code::new(info));
        }
    }

    /// The colours of a line; the lines before it were asked for before.
    pub fn line(&mut self, index: usize, line: usize, text: &str) -> &Pieces {
        self.0[index].line(line, text)
    }

    /// The block with this index has so many lines.
    pub fn end(&mut self, index: usize, lines: usize) {
        self.0[index].truncate(lines);
    }

    /// There are so many blocks.
    pub fn truncate(&mut self, blocks: usize) {
        self.0.truncate(blocks);
    }

    pub fn contents(&self) -> Vec<String> {
        let join = |code: &Code| {
            let mut text = String::new();
            for (line, _) in &code.lines {
                text.push_str(line);
                text.push('\n');
            }
            text
        };
        self.0.iter().map(join).collect()
    }
}

impl Code {
    fn new(info: &str) -> Self {
        Self {
            info: info.to_owned(),
            lines: Vec::new(),
            highlighter: Highlighter::new(info),
        }
    }

    fn line(&mut self, index: usize, text: &str) -> &Pieces {
        if self.lines.get(index).is_none_or(|(known, _)| known != text) {
            self.truncate(index);
            let pieces = match &mut self.highlighter {
                Some(highlighter) => highlighter.line(text),
                None => vec![(text.len(), Kind::Plain)],
            };
            self.lines.push((text.to_owned(), pieces));
        }
        &self.lines[index].1
    }

    fn truncate(&mut self, lines: usize) {
        if lines >= self.lines.len() {
            return;
        }
        // The last line grows token by token: its start is remembered. Going back further does not happen while a message grows.
        let one_back = lines + 1 == self.lines.len();
        self.lines.truncate(lines);
        let Some(highlighter) = &mut self.highlighter else {
            return;
        };
        if !(one_back && highlighter.step_back())
            && let Some(mut fresh) = Highlighter::new(&self.info)
        {
            for (text, _) in &self.lines {
                fresh.line(text);
            }
            *highlighter = fresh;
        }
    }
}

/// A grammar at work: its state after the last line, and before it.
#[derive(Clone, Debug)]
struct Highlighter {
    now: (ParseState, ScopeStack),
    before: Option<(ParseState, ScopeStack)>,
}

impl Highlighter {
    fn new(info: &str) -> Option<Self> {
        let syntax = syntax(info)?;
        Some(Self {
            now: (ParseState::new(syntax), ScopeStack::new()),
            before: None,
        })
    }

    fn step_back(&mut self) -> bool {
        self.before.take().map(|before| self.now = before).is_some()
    }

    fn line(&mut self, text: &str) -> Pieces {
        self.before = Some(self.now.clone());
        let plain = vec![(text.len(), Kind::Plain)];
        if text.len() > MAX_COLOURED {
            return plain;
        }
        let (state, stack) = &mut self.now;
        let Ok(ops) = state.parse_line(&format!("{text}\n"), syntaxes()) else {
            return plain;
        };
        let mut pieces: Pieces = Vec::new();
        let mut start = 0;
        let mut piece = |end: usize, kind: Kind| {
            let end = end.min(text.len());
            if end > start {
                match pieces.last_mut() {
                    Some((length, last)) if *last == kind => *length += end - start,
                    _ => pieces.push((end - start, kind)),
                }
                start = end;
            }
        };
        for (at, op) in ops {
            piece(at, kind(stack));
            if stack.apply(&op).is_err() {
                break;
            }
        }
        piece(text.len(), kind(stack));
        pieces
    }
}

fn syntaxes() -> &'static SyntaxSet {
    static SYNTAXES: OnceLock<SyntaxSet> = OnceLock::new();
    SYNTAXES.get_or_init(SyntaxSet::load_defaults_newlines)
}

/// The grammar for an info string: its first word, by name or file ending; the names models use for what the set lacks map to a relative.
fn syntax(info: &str) -> Option<&'static SyntaxReference> {
    let name = language(info).to_lowercase();
    let token = match name.as_str() {
        "" | "text" | "txt" | "plain" | "plaintext" | "console" | "output" => return None,
        "typescript" | "ts" | "tsx" | "jsx" | "mjs" | "json5" | "node" => "js",
        "shell" | "sh-session" | "zsh" | "fish" => "sh",
        "c++" | "cxx" | "cuda" | "arduino" => "cpp",
        "c#" | "csharp" => "cs",
        "kotlin" | "kt" => "java",
        "python3" | "py3" | "ipython" => "py",
        "golang" => "go",
        "jsonc" | "ndjson" => "json",
        "svg" | "vue" | "svelte" => "html",
        "scss" | "sass" | "less" => "css",
        "patch" => "diff",
        name => name,
    };
    syntaxes().find_syntax_by_token(token)
}

/// The language that an info string names.
pub fn language(info: &str) -> &str {
    let word = info
        .trim()
        .split([' ', ',', '{', '\t'])
        .next()
        .unwrap_or_default();
    word.trim_start_matches("language-")
}

/// What the innermost telling scope says.
fn kind(stack: &ScopeStack) -> Kind {
    static TABLE: OnceLock<Vec<(Scope, Kind)>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let rows = [
            ("comment", Kind::Comment),
            ("string", Kind::String),
            ("constant.character", Kind::String),
            ("constant", Kind::Number),
            ("keyword.operator", Kind::Plain),
            ("keyword", Kind::Keyword),
            ("storage", Kind::Keyword),
            ("variable.language", Kind::Keyword),
            ("entity.name.function", Kind::Function),
            ("support.function", Kind::Function),
            ("variable.function", Kind::Function),
            ("entity.name.tag", Kind::Keyword),
            ("entity.other.attribute-name", Kind::Type),
            ("entity.name", Kind::Type),
            ("entity.other.inherited-class", Kind::Type),
            ("support.type", Kind::Type),
            ("support.class", Kind::Type),
            ("markup.inserted", Kind::String),
            ("markup.deleted", Kind::Keyword),
            ("meta.diff", Kind::Comment),
        ];
        let scope = |(name, kind)| Scope::new(name).ok().map(|scope| (scope, kind));
        rows.into_iter().filter_map(scope).collect()
    });
    let of = |scope: &Scope| {
        let row = table.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
        row.map(|(_, kind)| *kind)
    };
    stack
        .as_slice()
        .iter()
        .rev()
        .find_map(of)
        .unwrap_or(Kind::Plain)
}
