//! What of the conversation goes to its file, and when.

use std::time::{Duration, Instant};

use super::App;
use crate::session::{Event, Message};
use crate::store::{Partial, Record};
use crate::tui::event::Effect;

/// How much of an answer a crash may take, in time.
const EVERY: Duration = Duration::from_secs(2);

/// The messages of the turn under way, and how much of them is saved.
#[derive(Debug, Default)]
pub(crate) struct Made {
    messages: Vec<(Message, String)>,
    /// Up to this byte of this message.
    saved: (usize, usize),
    /// When the first tick found something unsaved.
    since: Option<Instant>,
}

impl Made {
    /// Takes part in what the model makes; whether what is unsaved is better saved now: a message begins.
    pub fn note(&mut self, event: &Event) -> bool {
        match event {
            Event::Start(message) => {
                self.messages.push((message.clone(), String::new()));
                self.has_news()
            }
            Event::Text(more) => {
                if let Some((_, text)) = self.messages.last_mut() {
                    text.push_str(more);
                }
                false
            }
            _ => false,
        }
    }

    /// Whether something is unsaved for too long.
    pub fn is_due(&mut self, now: Instant) -> bool {
        if !self.has_news() {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= EVERY
    }

    /// None of it is saved where the conversation is saved now.
    pub fn forget(&mut self) {
        self.saved = (0, 0);
    }

    fn has_news(&self) -> bool {
        self.news().next().is_some()
    }

    /// What is unsaved: the text, and its message where it is the beginning.
    fn news(&self) -> impl Iterator<Item = (Option<&Message>, &str)> {
        let (first, from) = self.saved;
        let messages = self.messages.iter().enumerate().skip(first);
        messages.filter_map(move |(index, (message, text))| {
            let from = if index == first { from } else { 0 };
            let text = &text[from..];
            (!text.is_empty()).then_some(((from == 0).then_some(message), text))
        })
    }

    fn take(&mut self) -> Vec<(Option<Message>, String)> {
        let news = self.news();
        let news = news.map(|(message, text)| (message.cloned(), text.to_owned()));
        let news = news.collect();
        if let Some((_, text)) = self.messages.last() {
            self.saved = (self.messages.len() - 1, text.len());
        }
        self.since = None;
        news
    }
}

impl App {
    /// Saves what was made since the last time; the cost is that of what is new.
    pub(super) fn save_made(&mut self) {
        if !self.saving {
            return;
        }
        let Some(turn) = &mut self.turn else { return };
        for (begins, text) in turn.made.take() {
            self.effects.push(Effect::Save(Record::Partial(Partial {
                id: self.tree.next_id(),
                parent: self.tree.head(),
                begins,
                text,
                prompt_tokens: turn.prompt,
                generated_tokens: turn.tokens,
            })));
        }
    }

    /// Saves everything anew, in another file.
    pub(super) fn save_all(&mut self) {
        self.saving = true;
        if self.tree.is_empty() {
            self.effect(Effect::NewSession);
            self.setup_saved = false;
            if let Some(title) = self.title.clone() {
                self.effect(Effect::Save(Record::Title(title)));
            }
            self.say("the conversation is saved from its first message on");
            return;
        }
        self.setup_saved = true;
        let mut records = vec![self.setup_record()];
        let nodes = self.tree.nodes();
        records.extend(nodes.map(|(id, parent, entry)| Record::Node {
            id,
            parent,
            entry: entry.clone(),
        }));
        records.push(Record::Head(self.tree.head()));
        records.extend(self.title.clone().map(Record::Title));
        self.effect(Effect::SaveAll(records));
        if let Some(turn) = &mut self.turn {
            turn.made.forget();
        }
        self.save_made();
    }

    pub(super) fn setup_record(&self) -> Record {
        Record::Setup {
            instructions: self.setup.instructions.clone(),
            reasoning: self.setup.reasoning,
            model: self.wanted.clone(),
        }
    }
}
