//! One turn: from the message sent to the answer kept.

use std::time::{Duration, Instant};

use super::cell::{Cell, CellKind};
use super::draft::message;
use super::note::About;
use super::saving::Made;
use super::transcript::Look;
use super::{App, Left, Phase};
use crate::session::{Cancel, Event, Finish, Kind, Message, Repetition, Stats, TurnOptions};
use crate::store::{Entry, NodeId, TurnRecord};
use crate::tui::event::{Command, Effect, Outcome, TooLong, TurnError, TurnId};
use crate::tui::view::figures::count;

/// What is said where there is nothing else.
const NO_ANSWER: &str = "the model ended without an answer; Ctrl-R tries again";

/// What is known of the turn under way.
#[derive(Debug)]
pub(crate) struct Turn {
    pub id: TurnId,
    pub cancel: Cancel,
    /// The first of its cells.
    first_cell: usize,
    /// The head to return to where nothing comes of it, and what the user said for it.
    before: Option<NodeId>,
    said: Option<String>,
    /// The messages that are complete.
    messages: Vec<Message>,
    /// One that has begun.
    open: Option<Message>,
    /// What goes to the session's file before the turn is over.
    pub made: Made,
    /// It has a cell, because it has text.
    shown: bool,
    pub prompt: usize,
    pub tokens: usize,
    /// Tokens per second of what goes on.
    pub speed: Option<f64>,
    /// Tokens read of the prompt in this turn.
    read: usize,
    repeating: Option<Repetition>,
    started: Option<Instant>,
    /// When the first tick after the first token came, and how many tokens there were.
    decoding: Option<(Instant, usize)>,
}

impl Turn {
    pub fn tick(&mut self, now: Instant) {
        let rate = |tokens: usize, since: Instant| {
            let seconds = now.saturating_duration_since(since).as_secs_f64();
            (tokens > 0 && seconds > 0.2).then(|| tokens as f64 / seconds)
        };
        let started = *self.started.get_or_insert(now);
        self.speed = if self.tokens == 0 {
            rate(self.read, started)
        } else {
            let (since, tokens) = *self.decoding.get_or_insert((now, self.tokens));
            rate(self.tokens - tokens, since)
        };
    }

    /// Nothing went on for so long.
    pub fn was_stopped(&mut self, time: Duration) {
        self.started = self.started.map(|started| started + time);
        self.decoding = self.decoding.map(|(since, tokens)| (since + time, tokens));
    }

    pub fn repeating(&self) -> Option<Repetition> {
        self.repeating
    }
}

impl App {
    /// Sends what is typed.
    pub(super) fn send(&mut self) {
        if self.draft.text().trim().is_empty() {
            return;
        }
        if self.is_busy() {
            self.warn_of_the_turn();
            return;
        }
        if self.waiting {
            self.warn_of_the_load("a message waits for the model already: Esc takes it back");
            return;
        }
        let text = message(&self.draft.expanded()).to_owned();
        let before = self.tree.head();
        if let Some(node) = self.editing.take() {
            self.left = Some(Left(before));
            self.set_head(self.tree.parent(node));
            self.stash.clear();
        }
        self.draft.sent();
        self.transcript.drop_errors(false);
        self.push_entry(Entry::User(text.clone()));
        self.moved();
        match &self.phase {
            Phase::Idle => self.start_turn(Some((before, text))),
            Phase::Failed { .. } => {
                self.waiting = true;
                self.warn_of_the_load(
                    "there is no model: the message goes out when one is loaded (/model)",
                );
            }
            _ => {
                self.waiting = true;
                self.say("the message goes out when the model is loaded");
                self.note_is_about(About::Load);
            }
        }
    }

    /// Takes the message that waits for the model back into the draft.
    pub(super) fn take_back_waiting(&mut self) {
        self.waiting = false;
        let said = self.tree.head().map(|head| self.tree.entry(head).clone());
        self.undo_exchange();
        if let Some(Entry::User(text)) = said
            && self.draft.is_empty()
        {
            self.draft.set(&text);
        }
    }

    /// Lets the model answer. `from`: where to return if nothing comes of it, and what was said.
    pub(super) fn start_turn(&mut self, from: Option<(Option<NodeId>, String)>) {
        self.transcript.drop_errors(false);
        self.turns += 1;
        let cancel = Cancel::new();
        let (before, said) = match from {
            Some((before, said)) => (before, Some(said)),
            None => (self.tree.head(), None),
        };
        self.turn = Some(Turn {
            id: self.turns,
            cancel: cancel.clone(),
            first_cell: self.transcript.cells().len(),
            before,
            said,
            messages: Vec::new(),
            open: None,
            made: Made::default(),
            shown: false,
            prompt: 0,
            tokens: 0,
            speed: None,
            read: 0,
            repeating: None,
            started: None,
            decoding: None,
        });
        self.phase = Phase::Prefill {
            done: 0,
            total: 0,
            reused: 0,
        };
        self.transcript.follow();
        let look = Look {
            live: true,
            ..self.transcript.look().clone()
        };
        self.transcript.set_look(look);
        self.effect(Effect::Send(Command::Turn {
            turn: self.turns,
            setup: self.setup.clone(),
            history: self.tree.history(),
            options: TurnOptions {
                sampling: self.sampling.clone(),
                max_tokens: self.max_tokens,
            },
            cancel,
        }));
    }

    /// Answers the last message again. `head`: where to return if nothing comes of it.
    pub(super) fn start_again(&mut self, head: Option<NodeId>) {
        self.start_turn(None);
        if let Some(turn) = &mut self.turn {
            turn.before = head;
        }
    }

    /// Asks the worker to stop.
    pub(super) fn stop(&mut self) {
        if let Some(turn) = &self.turn {
            let cancel = turn.cancel.clone();
            self.phase = Phase::Stopping;
            self.effect(Effect::Cancel(cancel));
        }
    }

    pub(super) fn turn_event(&mut self, event: Event) {
        let stopping = self.phase == Phase::Stopping;
        if self
            .turn
            .as_mut()
            .is_some_and(|turn| turn.made.note(&event))
        {
            self.save_made();
        }
        let Some(turn) = &mut self.turn else { return };
        match event {
            Event::Prefill {
                done,
                total,
                reused,
            } => {
                turn.prompt = total;
                turn.read = done.saturating_sub(reused);
                if !stopping {
                    self.phase = Phase::Prefill {
                        done,
                        total,
                        reused,
                    };
                }
            }
            Event::Token(_) => {
                turn.tokens += 1;
                let now = turn.started.map(|_| self.now);
                if turn.tokens == 1 {
                    turn.speed = None;
                    turn.decoding = now.map(|now| (now, 1));
                }
                if !stopping && !matches!(self.phase, Phase::Streaming { .. }) {
                    self.phase = Phase::Streaming {
                        kind: Kind::Thinking,
                    };
                }
            }
            Event::Start(message) => {
                let kind = message.kind();
                turn.shown = false;
                if !stopping {
                    self.phase = Phase::Streaming { kind };
                }
                turn.open = Some(message);
                if kind == Kind::ToolCall {
                    self.show_open();
                }
            }
            Event::Text(text) => {
                if !turn.shown {
                    self.show_open();
                }
                self.transcript.append(&text);
            }
            Event::End(message) => {
                if turn.shown {
                    self.close_cell();
                }
                if let Some(turn) = &mut self.turn {
                    turn.open = None;
                    turn.shown = false;
                    turn.messages.push(message);
                }
            }
            Event::Repeating(repetition) => turn.repeating = Some(repetition),
        }
    }

    /// Gives the open message its cell.
    fn show_open(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let kind = turn.open.as_ref().map_or(CellKind::Answer, CellKind::of);
        turn.shown = true;
        let mut cell = Cell::new(kind, "");
        cell.live = true;
        cell.started = turn.started.map(|_| self.now);
        self.transcript.push(cell);
    }

    fn close_cell(&mut self) {
        let now = self.now;
        self.transcript.change_last(|cell| {
            cell.finish();
            cell.duration = cell
                .started
                .map(|started| now.saturating_duration_since(started));
        });
    }

    pub(super) fn finish_turn(&mut self, turn: &Turn, outcome: Outcome) {
        if turn.shown {
            self.close_cell();
        }
        let Outcome {
            messages,
            finish,
            stats,
        } = outcome;
        if messages.is_empty() {
            self.transcript.truncate(turn.first_cell);
            self.note_empty(finish);
            return;
        }
        let record = record(messages, finish, &stats);
        if let Some(mut text) = ending(&record) {
            if finish == Finish::Context {
                text += &self.larger_context();
            }
            self.transcript.push(Cell::new(CellKind::Notice, &text));
        }
        if let Some(repetition) = turn.repeating {
            let text = format!(
                "the output repeats itself: {} times the same {} token{}; Ctrl-R tries again, `/repetition-penalty 1.1` may help",
                repetition.times,
                repetition.period,
                if repetition.period == 1 { "" } else { "s" },
            );
            self.transcript.push(Cell::new(CellKind::Notice, &text));
        }
        let node = self.push_entry(Entry::Turn(record));
        self.transcript.assign(turn.first_cell, node);
        self.moved();
        self.warn_nearly_full();
    }

    /// Nothing was made: the message stays, to be answered or taken back.
    fn note_empty(&mut self, finish: Finish) {
        let why = match finish {
            Finish::Cancelled => "stopped before the answer began",
            Finish::Context => {
                "the context is full: `/new` starts afresh, `/undo` takes the last exchange back"
            }
            _ => {
                self.transcript.push(Cell::new(CellKind::Notice, NO_ANSWER));
                return;
            }
        };
        let grow = match finish {
            Finish::Context => self.larger_context(),
            _ => String::new(),
        };
        let text = format!("{why}{grow}; Ctrl-R answers the message, `/undo` takes it back");
        self.transcript.push(Cell::new(CellKind::Notice, &text));
    }

    /// What more context would take, where the model can have more.
    pub(super) fn larger_context(&self) -> String {
        match &self.model {
            Some(model) if model.most > model.context => format!(
                ", `--context` makes room for up to {} tokens",
                count(model.most)
            ),
            _ => String::new(),
        }
    }

    fn warn_nearly_full(&mut self) {
        let Some(context) = self.model.as_ref().map(|model| model.context) else {
            return;
        };
        if self.used < context && self.is_nearly_full() {
            let text = format!(
                "the context is nearly full: {} of {} tokens",
                count(self.used),
                count(context)
            );
            self.warn(&text);
        }
    }

    /// 90 % of the context are in use.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let context = self
            .model
            .as_ref()
            .map_or(usize::MAX, |model| model.context);
        self.context_used() >= context - context / 10
    }

    /// Tokens in use, with what is being made.
    pub(crate) fn context_used(&self) -> usize {
        let used = match &self.turn {
            Some(turn) if turn.prompt > 0 => turn.prompt + turn.tokens,
            _ => self.used,
        };
        // The last token that is made takes no place any more.
        self.model
            .as_ref()
            .map_or(used, |model| used.min(model.context))
    }

    /// A turn failed: what was made is kept, and where there is nothing the message returns to the draft.
    pub(super) fn fail_turn(&mut self, mut turn: Turn, error: &TurnError) {
        let open = turn.open.take().filter(|_| turn.shown);
        if let Some(open) = open {
            let text = self
                .transcript
                .cells()
                .last()
                .map(Cell::source)
                .unwrap_or_default()
                .to_owned();
            self.close_cell();
            turn.messages.push(with_text(open, text));
        }
        if turn.messages.is_empty() {
            self.transcript.truncate(turn.first_cell);
            match turn.said {
                Some(said) if self.draft.is_empty() => {
                    self.set_head(turn.before);
                    self.draft.set(&said);
                }
                // The draft is taken: the message stays where it is.
                Some(_) => {}
                None => self.set_head(turn.before),
            }
            self.moved();
        } else {
            let stats = Stats {
                prompt_tokens: turn.prompt,
                generated_tokens: turn.tokens,
                ..Stats::default()
            };
            let record = record(turn.messages, Finish::Cancelled, &stats);
            let node = self.push_entry(Entry::Turn(record));
            self.transcript.assign(turn.first_cell, node);
            self.moved();
        }
        let text = match error.too_long {
            Some(too_long) => self.no_room(too_long),
            None => format!("the turn failed: {}", error.reason),
        };
        self.report(&text);
    }

    /// What does not fit, and only what helps.
    fn no_room(&self, it: TooLong) -> String {
        let most = self.model.as_ref().map_or(it.context, |model| model.most);
        let context = count(it.context);
        let larger = |needed: usize| {
            if needed <= most {
                self.larger_context()
            } else {
                format!("; this model allows at most {} tokens", count(most))
            }
        };
        if it.afresh > it.context {
            format!(
                "the message is too long: it has {} tokens, {} with what stands before it, and the context holds {context}: \
                 shorten it{}",
                count(it.message),
                count(it.afresh),
                larger(it.afresh)
            )
        } else {
            format!(
                "the conversation is too long: it has {} tokens with this message and the context holds {context}: `/new` starts \
                 afresh, `/undo` takes the last exchange back{}",
                count(it.prompt),
                larger(it.prompt)
            )
        }
    }
}

fn with_text(mut message: Message, text: String) -> Message {
    let content = Message::user(text).content;
    message.content = content;
    message
}

fn record(messages: Vec<Message>, finish: Finish, stats: &Stats) -> TurnRecord {
    TurnRecord {
        messages,
        finish,
        prompt_tokens: stats.prompt_tokens,
        cached_tokens: stats.cached_tokens,
        generated_tokens: stats.generated_tokens,
        prefill: stats.prefill,
        time_to_first_token: stats.time_to_first_token,
        decode: stats.decode,
        seed: stats.seed,
    }
}

/// What is to be said after a turn that did not end by itself.
pub(super) fn ending(record: &TurnRecord) -> Option<String> {
    let answered = record.messages.iter().any(|message| match message.kind() {
        Kind::Thinking => false,
        Kind::ToolCall => true,
        Kind::Preamble | Kind::Final => !message.text().trim().is_empty(),
    });
    let thinking = if answered {
        ""
    } else {
        " while thinking, before an answer"
    };
    match record.finish {
        Finish::Stop if answered => None,
        Finish::Stop => Some(NO_ANSWER.to_owned()),
        Finish::Cancelled => Some(format!("stopped{thinking}")),
        Finish::ToolCall => Some(
            "the model called a tool, and there are none in the chat: answer it yourself, or Ctrl-R tries again"
                .to_owned(),
        ),
        Finish::Length => Some(format!(
            "ended at the token limit{thinking}: `/max-tokens off` lifts it, Ctrl-R answers again"
        )),
        Finish::Context => Some(format!(
            "ended because the context is full{thinking}: `/new` starts afresh, `/undo` takes the exchange back"
        )),
    }
}
