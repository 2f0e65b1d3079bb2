//! What stands between `<|start|>` and `<|message|>`, and what models make of it.

use super::super::message::{ANALYSIS, COMMENTARY, CONSTRAIN, FINAL};
use super::super::{Message, Role};

/// What a header word may begin with; anything else opens free text.
const HEADER_WORDS: [&str; 8] = [
    "to=",
    ANALYSIS,
    COMMENTARY,
    FINAL,
    "assistant",
    "functions.",
    "json",
    "code",
];

/// Words that are content types wherever they stand.
const CONTENT_TYPES: [&str; 3] = ["json", "code", "text"];

/// A header as it is read: the text before, between and after its control tokens.
pub(super) struct Header {
    /// `<|start|>` was read here, so the first word says who speaks.
    names_role: bool,
    parts: Vec<Part>,
    tokens: usize,
}

struct Part {
    opened_by: Opener,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opener {
    Beginning,
    Channel,
    Constrain,
}

/// What a header says.
pub(super) struct Parsed {
    /// The message without content.
    pub message: Message,
    /// Text that is no header, where there should have been none.
    pub free_text: Vec<u8>,
}

impl Header {
    /// After `<|start|>assistant`.
    pub fn of_assistant() -> Self {
        Self::new(false)
    }

    /// After `<|start|>`.
    pub fn after_start() -> Self {
        Self::new(true)
    }

    fn new(names_role: bool) -> Self {
        let mut header = Self {
            names_role,
            parts: Vec::new(),
            tokens: 0,
        };
        header.open(Opener::Beginning);
        header
    }

    fn open(&mut self, opened_by: Opener) {
        self.parts.push(Part {
            opened_by,
            bytes: Vec::new(),
        });
    }

    /// `<|channel|>` was read.
    pub fn channel(&mut self) {
        self.tokens += 1;
        self.open(Opener::Channel);
    }

    /// `<|constrain|>` was read.
    pub fn constrain(&mut self) {
        self.tokens += 1;
        self.open(Opener::Constrain);
    }

    /// Text was read.
    pub fn text(&mut self, bytes: &[u8]) {
        self.tokens += 1;
        let part = self.parts.last_mut().expect("a header begins with a part");
        part.bytes.extend_from_slice(bytes);
    }

    /// How many tokens were read.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Nothing but a role and white space.
    pub fn is_empty(&self) -> bool {
        !self.has_control_tokens() && self.speaker().rest.trim_ascii().is_empty()
    }

    fn has_control_tokens(&self) -> bool {
        self.parts.len() > 1
    }

    /// Whether this is the assistant speaking without a header: no control token yet, and words
    /// that no header has.
    pub fn is_free_text(&self) -> bool {
        let speaker = self.speaker();
        if self.has_control_tokens() || (self.names_role && !speaker.is_named_assistant()) {
            return false;
        }
        let text = String::from_utf8_lossy(speaker.rest);
        let (complete, last) = match text.rfind(char::is_whitespace) {
            Some(at) => text.split_at(at),
            None => ("", text.as_ref()),
        };
        let last = last.trim_start();
        let begins_a_header_word = HEADER_WORDS
            .iter()
            .any(|word| word.starts_with(last) || is_header_word(last));
        !begins_a_header_word || !complete.split_whitespace().all(is_header_word)
    }

    /// Who speaks, by the first word; the assistant where no word says so.
    fn speaker(&self) -> Speaker<'_> {
        let bytes = self.parts[0].bytes.as_slice();
        let (word, after) = split_word(bytes);
        let word = String::from_utf8_lossy(word).into_owned();
        let assistant = |rest, named| Speaker {
            role: Role::Assistant,
            name: None,
            rest,
            named,
        };
        if word == Role::Assistant.as_str() {
            return assistant(after, true);
        }
        if !self.names_role || word.is_empty() || word.starts_with("to=") {
            return assistant(bytes, false);
        }
        if let Some(role) = Role::from_word(&word) {
            return Speaker {
                role,
                name: None,
                rest: after,
                named: true,
            };
        }
        if let Some((role, name)) = word.split_once(':')
            && let Some(role) = Role::from_word(role)
        {
            return Speaker {
                role,
                name: Some(name.to_owned()),
                rest: after,
                named: true,
            };
        }
        // `assistantfinal`, `assistantcommentary to=...`: the token between was left out.
        let glued = bytes.trim_ascii_start().strip_prefix(b"assistant");
        if let Some(rest) = glued
            && is_header_word(&String::from_utf8_lossy(split_word(rest).0))
        {
            return assistant(rest, true);
        }
        Speaker {
            role: Role::Tool,
            name: Some(word),
            rest: after,
            named: true,
        }
    }

    /// Reads a header that `<|message|>` closed.
    pub fn parse(&self) -> Message {
        self.fields().into_message()
    }

    /// Reads a header without `<|message|>`, where words are text rather than header.
    pub fn parse_closed(&self) -> Parsed {
        let fields = self.fields();
        let is_header = match fields.words.len() {
            0 => {
                self.has_control_tokens() || fields.recipient.is_some() || fields.channel.is_some()
            }
            1 => fields.recipient.is_some(),
            _ => false,
        };
        if is_header {
            return Parsed {
                message: fields.into_message(),
                free_text: Vec::new(),
            };
        }
        let speaker = self.speaker();
        if !self.has_control_tokens() {
            return Parsed {
                free_text: speaker.rest.to_vec(),
                message: speaker.message(),
            };
        }
        let texts = self.parts.iter().map(|part| match part.opened_by {
            Opener::Beginning => speaker.rest,
            Opener::Channel => split_word(&part.bytes).1,
            Opener::Constrain => &part.bytes,
        });
        let texts: Vec<&[u8]> = texts.filter(|text| !text.trim_ascii().is_empty()).collect();
        Parsed {
            free_text: texts.concat().trim_ascii_start().to_vec(),
            message: Message {
                channel: fields.channel,
                ..speaker.message()
            },
        }
    }

    fn fields(&self) -> Fields {
        let speaker = self.speaker();
        let mut channels = Vec::new();
        let mut content_type = None;
        let mut words = Vec::new();
        for part in &self.parts {
            let (word, after) = split_word(&part.bytes);
            let word = String::from_utf8_lossy(word).into_owned();
            let text = match part.opened_by {
                Opener::Beginning => speaker.rest,
                Opener::Channel => {
                    channels.push(word);
                    after
                }
                Opener::Constrain if word.starts_with("to=") => {
                    content_type = Some(CONSTRAIN.to_owned());
                    &part.bytes
                }
                Opener::Constrain => {
                    content_type = Some(format!("{CONSTRAIN}{word}"));
                    after
                }
            };
            let text = String::from_utf8_lossy(text);
            words.extend(text.split_whitespace().map(str::to_owned));
        }
        if channels.is_empty()
            && let Some(at) = words.iter().position(|word| is_channel(word))
        {
            channels.push(words.remove(at));
        }
        let (recipient, words) = take_recipient(words);
        Fields {
            message: speaker.message(),
            // Of several channels, the last one that exists is what the model settled on.
            channel: (channels.iter().rfind(|name| is_channel(name)))
                .or_else(|| channels.iter().find(|name| !name.is_empty()))
                .cloned(),
            recipient,
            content_type,
            words,
        }
    }
}

struct Speaker<'a> {
    role: Role,
    name: Option<String>,
    /// The text after the word that names the speaker.
    rest: &'a [u8],
    named: bool,
}

impl Speaker<'_> {
    fn is_named_assistant(&self) -> bool {
        self.named && self.role == Role::Assistant && self.name.is_none()
    }

    fn message(&self) -> Message {
        Message {
            name: self.name.clone(),
            ..Message::empty(self.role)
        }
    }
}

/// A header taken apart; `words` are those whose part is not clear yet.
struct Fields {
    message: Message,
    channel: Option<String>,
    recipient: Option<String>,
    content_type: Option<String>,
    words: Vec<String>,
}

impl Fields {
    fn into_message(mut self) -> Message {
        let words = std::mem::take(&mut self.words);
        match words.as_slice() {
            [] => {}
            [word] if self.recipient.is_some() && self.content_type.is_none() => {
                self.content_type = Some(word.clone());
            }
            [word] if self.recipient.is_none() && self.content_type.is_none() && is_type(word) => {
                self.content_type = Some(word.clone());
            }
            [word] if self.recipient.is_none() && self.may_call(word) => {
                self.recipient = Some(word.clone());
            }
            [word, kind]
                if self.recipient.is_none()
                    && self.content_type.is_none()
                    && self.may_call(word) =>
            {
                self.recipient = Some(word.clone());
                self.content_type = Some(kind.clone());
            }
            _ => self.distrust(),
        }
        Message {
            channel: self.channel,
            recipient: self.recipient,
            content_type: self.content_type,
            ..self.message
        }
    }

    /// More words than a header has: what is not beyond doubt is not believed.
    fn distrust(&mut self) {
        let known = self.channel.as_deref().is_some_and(is_channel);
        self.recipient = (self.recipient.take()).filter(|name| known && is_tool_address(name));
        if self.recipient.is_none() {
            self.content_type = None;
        }
    }

    /// Whether a word without `to=` is a recipient. On `final` it is not: a stray word would hide
    /// the answer.
    fn may_call(&self, word: &str) -> bool {
        match self.channel.as_deref() {
            Some(FINAL) => false,
            Some(COMMENTARY) => word.chars().all(is_address_character),
            _ => is_tool_address(word),
        }
    }
}

/// The last recipient in `to=...` words, and the other words.
fn take_recipient(words: Vec<String>) -> (Option<String>, Vec<String>) {
    let mut recipient = None;
    let mut others = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.strip_prefix("to=") {
            Some("") => recipient = words.next().or(recipient),
            Some(to) => recipient = Some(to.to_owned()),
            None => others.push(word),
        }
    }
    (recipient, others)
}

/// The first word and what comes after it.
fn split_word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(u8::is_ascii_whitespace);
    bytes.split_at(end.unwrap_or(bytes.len()))
}

fn is_channel(word: &str) -> bool {
    [ANALYSIS, COMMENTARY, FINAL].contains(&word)
}

fn is_type(word: &str) -> bool {
    CONTENT_TYPES.contains(&word)
}

fn is_header_word(word: &str) -> bool {
    let open_ended = word.starts_with("to=") || word.starts_with("functions.");
    open_ended || HEADER_WORDS.contains(&word)
}

fn is_address_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// `functions.get_weather`, `browser.search`, `python`.
fn is_tool_address(word: &str) -> bool {
    let namespaced = word
        .split_once('.')
        .is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    word == "python" || namespaced && word.chars().all(is_address_character)
}
