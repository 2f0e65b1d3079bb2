//! The state of the chat and how it changes.

pub(crate) mod areas;
pub(crate) mod attached;
mod branches;
pub(crate) mod cell;
mod download;
pub(crate) mod draft;
mod execute;
mod input;
mod loading;
pub(crate) mod note;
pub(crate) mod picker;
mod saving;
pub(crate) mod transcript;
pub(crate) mod turn;

use std::time::{Duration, Instant};

use ratatui::layout::Rect;

use super::commands::Candidate;
use super::event::{Effect, ModelInfo, Msg, Opened, WorkerEvent};
use super::theme::Theme;
use super::view;
use crate::session::{Cancel, Kind, Sampling, Setup};
use crate::settings::{Settings, ThemeName};
use crate::store::{Entry, NodeId, Record, Tree};
use areas::Areas;
use cell::{Cell, CellKind};
use download::Download;
use draft::Draft;
use note::{About, Note};
use picker::Picker;
use transcript::{Look, Transcript};
use turn::Turn;
use view::stats::Figures;

/// What the model does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Phase {
    Loading {
        what: String,
        done: u64,
        total: u64,
    },
    Idle,
    Prefill {
        done: usize,
        total: usize,
        reused: usize,
    },
    Streaming {
        kind: Kind,
    },
    Stopping,
    /// There is no model.
    Failed {
        message: String,
        hint: Option<String>,
    },
}

/// What has the keys.
#[derive(Debug)]
pub(crate) enum Mode {
    Draft,
    /// A message of the user's is being chosen for editing.
    Select {
        nodes: Vec<NodeId>,
        index: usize,
    },
    Help {
        scroll: usize,
    },
    Sessions(Box<Picker>),
}

/// The completion popup.
#[derive(Debug)]
pub(crate) struct Completion {
    pub candidates: Vec<Candidate>,
    pub index: usize,
    /// The user moved in it, so Enter chooses.
    pub touched: bool,
}

/// A head that may be returned to; nothing was said before `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left(Option<NodeId>);

/// Everything that is on the screen and behind it.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says one thing that any phase may have"
)]
pub struct App {
    pub(crate) size: (u16, u16),
    pub(crate) theme: Theme,
    pub(crate) theme_name: ThemeName,
    pub(crate) phase: Phase,
    pub(crate) mode: Mode,
    pub(crate) model: Option<ModelInfo>,
    /// The model that answers again if the one being loaded cannot be.
    before: Option<ModelInfo>,
    /// Stops the load under way; `None` once it was asked to.
    loading: Option<Cancel>,
    /// What the load under way fetches.
    pub(crate) download: Option<Download>,
    /// The model that was asked for last.
    pub(crate) wanted: String,
    pub(crate) title: Option<String>,
    /// The date, and that of the day on which the conversation was begun.
    pub(crate) today: Option<String>,
    begun: Option<String>,
    pub(crate) tree: Tree,
    pub(crate) setup: Setup,
    pub(crate) sampling: Sampling,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) transcript: Transcript,
    pub(crate) draft: Draft,
    pub(crate) completion: Option<Completion>,
    pub(crate) note: Option<Note>,
    pub(crate) turn: Option<Turn>,
    /// A message waits for the model to be loaded.
    pub(crate) waiting: bool,
    /// The message that the draft will replace, by a branch beside it.
    pub(crate) editing: Option<NodeId>,
    /// The place of the current branch among its siblings, counted from 1, and how many there are.
    pub(crate) branch: Option<(usize, usize)>,
    /// The last turn went back before what was said: how much of it was reused is what matters.
    pub(crate) rewound: bool,
    /// Tokens of the context in use after the last turn.
    pub(crate) used: usize,
    /// The figures of the last turn.
    pub(crate) figures: Option<Figures>,
    /// Counts ticks, for the spinner.
    pub(crate) ticks: usize,
    /// The wheel is the chat's, not the terminal's.
    pub(crate) mouse: bool,
    /// What was typed before an earlier message took its place.
    stash: String,
    /// The head before the last undo, edit, clear or change of branch.
    left: Option<Left>,
    saving: bool,
    /// Something could not be saved.
    unsaved: bool,
    /// The load under way was asked for by a command or a key.
    chosen: bool,
    /// The command that is being carried out elsewhere: it comes back where that fails.
    under_way: Option<String>,
    /// Counts what was counted.
    counts: u64,
    /// The session's file knows the setup in use.
    setup_saved: bool,
    /// And the title.
    title_saved: bool,
    /// A second Ctrl-C quits.
    armed: bool,
    /// What happens now is the answer to a key.
    asked: bool,
    turns: u64,
    now: Instant,
    effects: Vec<Effect>,
}

impl App {
    /// At the start: the model is still to be loaded (the first effects say so).
    pub fn new(
        settings: Settings,
        opened: Option<Opened>,
        size: (u16, u16),
        now: Instant,
    ) -> (Self, Vec<Effect>) {
        let theme = theme(settings.theme);
        let look = Look {
            width: 0,
            theme: theme.clone(),
            unfolded: settings.show_thinking,
            live: true,
        };
        let mut app = Self {
            size,
            theme,
            theme_name: settings.theme,
            phase: Phase::Idle,
            mode: Mode::Draft,
            model: None,
            before: None,
            loading: None,
            download: None,
            wanted: String::new(),
            title: None,
            today: None,
            begun: None,
            tree: Tree::default(),
            setup: Setup {
                reasoning: settings.reasoning,
                instructions: settings.system,
                ..Setup::default()
            },
            sampling: settings.sampling,
            max_tokens: settings.max_tokens,
            transcript: Transcript::new(look, 0),
            draft: Draft::default(),
            completion: None,
            note: None,
            turn: None,
            waiting: false,
            editing: None,
            branch: None,
            rewound: false,
            used: 0,
            figures: None,
            ticks: 0,
            mouse: settings.mouse,
            stash: String::new(),
            left: None,
            saving: settings.save,
            unsaved: false,
            chosen: false,
            under_way: None,
            counts: 0,
            setup_saved: false,
            title_saved: true,
            armed: false,
            asked: false,
            turns: 0,
            now,
            effects: Vec::new(),
        };
        app.load(settings.model);
        if let Some(opened) = opened {
            app.open(opened);
        }
        app.lay_out();
        let effects = std::mem::take(&mut app.effects);
        (app, effects)
    }

    /// What happens next. No I/O, no clock, no randomness.
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        self.asked = matches!(msg, Msg::Key(_) | Msg::Paste(_) | Msg::Click);
        match msg {
            Msg::Key(key) => self.key(key),
            Msg::Paste(text) => self.paste(&text),
            Msg::Scroll(lines) => self.scroll(isize::from(lines)),
            Msg::Click => self.explain_selecting(),
            Msg::Resize { width, height } => self.size = (width, height),
            Msg::Worker(event) => self.worker(event),
            Msg::Tick(now) => self.tick(now),
            Msg::Stopped(time) => self.was_stopped(time),
            Msg::Edited(Ok(text)) => {
                self.draft.set(text.strip_suffix('\n').unwrap_or(&text));
                self.offer_completion();
            }
            Msg::FileRead {
                path,
                result: Ok(text),
            } => {
                self.under_way = None;
                self.attach(&path, &text);
            }
            Msg::FileRead {
                path,
                result: Err(reason),
            } => {
                self.give_back();
                self.fail(&format!("not attached: {reason} (`{}`)", path.display()));
            }
            Msg::Sessions(result) => self.sessions(result),
            Msg::Opened(result) => match *result {
                Ok(opened) => {
                    self.mode = Mode::Draft;
                    self.open(opened);
                }
                Err(reason) => self.refused(&reason),
            },
            Msg::Hits { search, result } => self.hits(&search, result),
            Msg::Refused(reason) => self.refused(&reason),
            Msg::Renamed(title) => self.title = Some(title),
            Msg::Lost(_) => {
                self.under_way = None;
                self.save_all();
            }
            Msg::Done(what) => {
                self.under_way = None;
                self.say(&what);
            }
            Msg::Told(what) => self.tell(&what),
            Msg::Problem(what) => {
                self.give_back();
                self.fail(&what);
            }
            Msg::Edited(Err(what)) => self.fail(&what),
            Msg::Unsaved(unsaved) => self.unsaved = unsaved,
        }
        self.search_sessions();
        self.lay_out();
        std::mem::take(&mut self.effects)
    }

    /// Something moves (a spinner, a timed message): ticks are wanted.
    pub fn is_animated(&self) -> bool {
        let timed = self
            .note
            .as_ref()
            .is_some_and(|note| note.needs_ticks(self.now));
        self.is_busy() || timed || matches!(self.phase, Phase::Loading { .. } | Phase::Stopping)
    }

    /// An answer is being made.
    pub(crate) fn is_busy(&self) -> bool {
        self.turn.is_some()
    }

    /// Where things are on a screen of this size.
    pub(crate) fn areas(&self, area: Rect) -> Areas {
        let activity = view::status::activity(self, area.width, area.height).len();
        Areas::new(area, self.draft.layout().lines.len(), activity)
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Puts something to read where it stays.
    fn tell(&mut self, text: &str) {
        if self.is_busy() {
            self.say(text);
        } else {
            self.transcript.push(Cell::new(CellKind::Notice, text));
            self.transcript.follow();
        }
    }

    fn tick(&mut self, now: Instant) {
        self.now = now;
        self.under_way = None;
        self.ticks = self.ticks.wrapping_add(1);
        if self.note.as_mut().is_some_and(|note| note.tick(now)) {
            self.note = None;
            self.armed = false;
        }
        if let Phase::Loading { done, .. } = self.phase
            && let Some(download) = &mut self.download
        {
            download.tick(now, done);
        }
        if self.turn.as_mut().is_some_and(|turn| turn.made.is_due(now)) {
            self.save_made();
        }
        if let Some(turn) = &mut self.turn {
            turn.tick(now);
            if let Some(cell) = self.transcript.last_mut().filter(|cell| cell.live) {
                cell.started.get_or_insert(now);
            }
        }
    }

    /// Nothing went on for so long: what is timed begins later by that.
    fn was_stopped(&mut self, time: Duration) {
        self.now += time;
        if let Some(turn) = &mut self.turn {
            turn.was_stopped(time);
        }
        if let Some(cell) = self.transcript.last_mut().filter(|cell| cell.live) {
            cell.started = cell.started.map(|started| started + time);
        }
        self.download = self.download.take().map(|_| Download::default());
    }

    /// The command that failed stands in the draft again, to be mended.
    fn give_back(&mut self) {
        if let Some(command) = self.under_way.take()
            && self.draft.is_empty()
        {
            self.draft.put_back(&command);
        }
    }

    fn worker(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Loading { what, done, total } => self.loads(&what, done, total),
            WorkerEvent::Ready(model) => self.loaded(model),
            WorkerEvent::Counted { id, tokens } => self.counted(id, &tokens),
            WorkerEvent::LoadFailed { message, hint } => self.load_failed(message, hint),
            WorkerEvent::Turn { turn, event } => {
                if self.turn.as_ref().is_some_and(|mine| mine.id == turn) {
                    self.turn_event(event);
                }
            }
            WorkerEvent::Finished { turn, outcome } => {
                if let Some(mine) = self.turn.take_if(|mine| mine.id == turn) {
                    self.phase = Phase::Idle;
                    self.note.take_if(|note| note.about == Some(About::Turn));
                    match outcome {
                        Ok(outcome) => self.finish_turn(&mine, outcome),
                        Err(error) => self.fail_turn(mine, &error),
                    }
                }
            }
        }
    }

    /// Goes on with a saved session.
    fn open(&mut self, opened: Opened) {
        self.tree = opened.tree;
        let date = opened.setup.date.or(self.setup.date.take());
        self.setup = Setup {
            date,
            ..opened.setup
        };
        // Flags may have changed it: the file learns it with the next message.
        self.setup_saved = false;
        self.title = opened.title;
        self.title_saved = true;
        self.begun = opened.begun;
        self.left = None;
        self.editing = None;
        self.waiting = false;
        self.transcript.clear();
        self.draft.forget_history();
        let path = self.tree.path();
        for node in &path {
            if let Entry::User(text) = self.tree.entry(*node) {
                self.draft.remember_message(text);
            }
        }
        self.moved();
        if let Some(warning) = opened.warning {
            // It says why the last answer is not whole.
            self.transcript.drop_last_notice();
            self.report(&warning);
        }
        if !path.is_empty() {
            let title = self.title.as_deref().unwrap_or("the session").to_owned();
            let messages = match self.tree.history().len() {
                1 => "1 message".to_owned(),
                messages => format!("{messages} messages"),
            };
            self.tell(&format!(
                "opened {title}: the next turn reads its {messages} once"
            ));
        }
    }

    /// The head of the tree is another.
    fn moved(&mut self) {
        self.transcript.show(&self.tree);
        let last = self.last_turn();
        let used = last.map(|record| record.prompt_tokens + record.generated_tokens);
        self.figures = last.map(Figures::of);
        self.used = used.unwrap_or_default();
        self.branch = match self.branches() {
            (ends, Some(index)) if ends.len() > 1 => Some((index + 1, ends.len())),
            _ => None,
        };
        self.rewound = self.is_beside_another();
        self.show_load_error();
    }

    /// The last answer, or what it answers, stands beside an older branch.
    fn is_beside_another(&self) -> bool {
        let Some(head) = self.tree.head() else {
            return false;
        };
        let has_older = |of: NodeId| {
            let after = self.tree.parent(of);
            let mut nodes = self.tree.nodes();
            nodes.any(|(id, parent, _)| id < of && parent == after)
        };
        has_older(head) || self.tree.parent(head).is_some_and(has_older)
    }

    /// The ends of all branches, oldest first, and which of them is current. A message that got no answer is one
    /// only while it is current.
    fn branches(&self) -> (Vec<NodeId>, Option<usize>) {
        let head = self.tree.head();
        let ends: Vec<NodeId> = self
            .tree
            .ends()
            .filter(|id| matches!(self.tree.entry(*id), Entry::Turn(_)) || head == Some(*id))
            .collect();
        let current = ends.iter().position(|end| Some(*end) == head);
        (ends, current)
    }

    fn set_head(&mut self, head: Option<NodeId>) {
        if head != self.tree.head() {
            self.tree.set_head(head);
            if self.saving {
                self.effect(Effect::Save(Record::Head(head)));
            }
        }
    }

    fn push_entry(&mut self, entry: Entry) -> NodeId {
        let parent = self.tree.head();
        let saved = self.saving.then(|| entry.clone());
        let id = self.tree.push(entry);
        if let Some(entry) = saved {
            self.save_setup();
            self.effect(Effect::Save(Record::Node { id, parent, entry }));
            if let (false, Some(title)) = (self.title_saved, self.title.clone()) {
                self.title_saved = true;
                self.effect(Effect::Save(Record::Title(title)));
            }
        }
        id
    }

    fn save_setup(&mut self) {
        if self.saving && !std::mem::replace(&mut self.setup_saved, true) {
            let record = self.setup_record();
            self.effect(Effect::Save(record));
        }
    }

    /// System prompt, reasoning or model are others: the session's file learns it, once there is one.
    fn setup_changed(&mut self) {
        self.setup_saved = false;
        if !self.tree.is_empty() {
            self.save_setup();
        }
    }

    /// How far the conversation is saved: `None` where all of it is.
    pub(crate) fn not_saved(&self) -> Option<bool> {
        (self.unsaved || !self.saving).then_some(self.unsaved)
    }

    fn set_theme(&mut self, name: ThemeName) {
        self.theme_name = name;
        self.theme = theme(name);
    }

    /// Brings every cached line in step with the state.
    fn lay_out(&mut self) {
        let (width, height) = self.size;
        self.draft.lay_out(Areas::draft_width(width));
        let look = Look {
            width: usize::from(width).max(1),
            theme: self.theme.clone(),
            ..self.transcript.look().clone()
        };
        self.transcript.set_look(look);
        let areas = self.areas(Rect::new(0, 0, width, height));
        self.transcript
            .set_height(usize::from(areas.transcript.height));
        self.transcript.prepare();
        if let Mode::Help { scroll } = &mut self.mode {
            let (lines, room) = view::help::extent(&self.theme, self.size);
            *scroll = (*scroll).min(lines.saturating_sub(room));
        }
    }
}

fn theme(name: ThemeName) -> Theme {
    match name {
        ThemeName::Standard => Theme::standard(),
        ThemeName::HighContrast => Theme::high_contrast(),
        ThemeName::Plain => Theme::plain(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
