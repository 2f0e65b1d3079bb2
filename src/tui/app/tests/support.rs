//! A chat without terminal and worker.

use std::time::{Duration, Instant, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::session::{Event, Finish, Message, Stats};
use crate::settings::Settings;
use crate::store::{Entry, NodeId, Record, Summary};
use crate::tui::app::App;
use crate::tui::event::{Command, Effect, ModelInfo, Msg, Opened, Outcome, TurnId, WorkerEvent};

pub(crate) struct Chat {
    pub app: App,
    /// What was asked for since it was last looked at.
    pub effects: Vec<Effect>,
    pub now: Instant,
}

pub(crate) fn model(context: usize) -> ModelInfo {
    ModelInfo {
        name: "tiny".to_owned(),
        device: "cpu".to_owned(),
        context,
        most: 131_072,
        load_time: Duration::from_millis(1500),
    }
}

pub(crate) fn stats(prompt: usize, cached: usize, generated: usize) -> Stats {
    Stats {
        prompt_tokens: prompt,
        cached_tokens: cached,
        generated_tokens: generated,
        prefill: Duration::from_millis(500),
        time_to_first_token: Some(Duration::from_millis(550)),
        decode: Duration::from_secs(2),
        seed: 7,
    }
}

pub(crate) fn summary(id: &str, title: &str, problem: Option<&str>) -> Summary {
    Summary {
        id: id.to_owned(),
        title: title.to_owned(),
        modified: SystemTime::UNIX_EPOCH,
        age: "3 h ago".to_owned(),
        messages: 3,
        problem: problem.map(str::to_owned),
    }
}

impl Chat {
    /// The model is still to be loaded.
    pub fn loading_with(settings: Settings, opened: Option<Opened>, size: (u16, u16)) -> Self {
        let now = Instant::now();
        let (app, effects) = App::new(settings, opened, size, now);
        Self { app, effects, now }
    }

    pub fn loading() -> Self {
        let settings = Settings {
            model: "tiny".to_owned(),
            ..Settings::default()
        };
        Self::loading_with(settings, None, (80, 24))
    }

    pub fn ready() -> Self {
        let mut chat = Self::loading();
        chat.model_is_ready();
        chat.effects.clear();
        chat
    }

    pub fn send(&mut self, msg: Msg) -> &mut Self {
        let effects = self.app.update(msg);
        self.effects.extend(effects);
        self
    }

    pub fn worker(&mut self, event: WorkerEvent) -> &mut Self {
        self.send(Msg::Worker(event))
    }

    pub fn model_is_ready(&mut self) -> &mut Self {
        self.worker(WorkerEvent::Ready(model(1000)))
    }

    pub fn press(&mut self, code: KeyCode) -> &mut Self {
        self.send(Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    pub fn ctrl(&mut self, letter: char) -> &mut Self {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        self.send(Msg::Key(key))
    }

    pub fn alt(&mut self, letter: char) -> &mut Self {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::ALT);
        self.send(Msg::Key(key))
    }

    pub fn write(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            self.press(KeyCode::Char(letter));
        }
        self
    }

    /// Types and sends.
    pub fn say(&mut self, text: &str) -> &mut Self {
        self.write(text).press(KeyCode::Enter)
    }

    pub fn wait(&mut self, milliseconds: u64) -> &mut Self {
        self.now += Duration::from_millis(milliseconds);
        self.send(Msg::Tick(self.now))
    }

    pub fn turn(&self) -> TurnId {
        self.app.turn.as_ref().expect("a turn is under way").id
    }

    pub fn event(&mut self, event: Event) -> &mut Self {
        let turn = self.turn();
        self.worker(WorkerEvent::Turn { turn, event })
    }

    /// A message begins and comes in these pieces, one token each.
    pub fn stream(&mut self, channel: &str, pieces: &[&str]) -> &mut Self {
        self.event(Event::Start(Message::assistant(channel, "")));
        for piece in pieces {
            self.event(Event::Token(1));
            self.event(Event::Text((*piece).to_owned()));
        }
        self
    }

    pub fn end(&mut self, message: Message) -> &mut Self {
        self.event(Event::End(message))
    }

    pub fn finish(&mut self, messages: Vec<Message>, finish: Finish, stats: Stats) -> &mut Self {
        let turn = self.turn();
        let outcome = Ok(Outcome {
            messages,
            finish,
            stats,
        });
        self.worker(WorkerEvent::Finished { turn, outcome })
    }

    pub fn fail(&mut self, reason: &str) -> &mut Self {
        let turn = self.turn();
        let outcome = Err(reason.to_owned().into());
        self.worker(WorkerEvent::Finished { turn, outcome })
    }

    /// The whole of an answer.
    pub fn answer(&mut self, text: &str) -> &mut Self {
        let message = Message::assistant("final", text);
        self.event(Event::Prefill {
            done: 10,
            total: 10,
            reused: 4,
        });
        self.stream("final", &[text]);
        self.end(message.clone());
        self.finish(vec![message], Finish::Stop, stats(10, 4, 5))
    }

    /// A question and its answer.
    pub fn exchange(&mut self, question: &str, answer: &str) -> &mut Self {
        self.say(question).answer(answer)
    }

    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub fn draft(&self) -> String {
        self.app.draft.shown()
    }

    pub fn note(&self) -> &str {
        self.app.note.as_ref().map_or("", |note| &note.text)
    }

    /// What is said on the current branch: users' messages and answers.
    pub fn said(&self) -> Vec<String> {
        let texts = self.app.tree.history();
        texts
            .iter()
            .map(|message| message.text().into_owned())
            .collect()
    }

    /// The transcript's lines, blank ones left out.
    pub fn lines(&self) -> Vec<String> {
        self.app
            .transcript
            .visible()
            .filter_map(|(_, line)| line.map(ToString::to_string))
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    /// The history of the turns that were sent.
    pub fn sent(&mut self) -> Vec<Vec<String>> {
        self.take()
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Send(Command::Turn { history, .. }) => Some(
                    history
                        .iter()
                        .map(|message| message.text().into_owned())
                        .collect(),
                ),
                _ => None,
            })
            .collect()
    }

    /// The records that were saved, in short.
    pub fn saved(&mut self) -> Vec<String> {
        let name = |id: NodeId| id.0.to_string();
        let parent = |id: Option<NodeId>| id.map_or("-".to_owned(), name);
        self.take()
            .into_iter()
            .flat_map(|effect| match effect {
                Effect::Save(record) => vec![record],
                Effect::SaveAll(records) => records,
                _ => Vec::new(),
            })
            .map(|record| match record {
                Record::Node {
                    id,
                    parent: after,
                    entry,
                } => {
                    let what = match entry {
                        Entry::User(text) => format!("user {text}"),
                        Entry::Turn(record) => format!("turn {}", record.messages.len()),
                    };
                    format!("{} after {}: {what}", name(id), parent(after))
                }
                Record::Head(head) => format!("head {}", parent(head)),
                Record::Title(title) => format!("title {title}"),
                Record::Setup {
                    instructions,
                    reasoning,
                    model,
                } => format!("setup {instructions:?} {reasoning} {model}"),
                Record::Partial(partial) => {
                    let begins = partial.begins.and_then(|message| message.channel);
                    let channel = begins.unwrap_or_else(|| "more".to_owned());
                    let (id, after) = (name(partial.id), parent(partial.parent));
                    format!("{id} after {after}: {channel} {:?}", partial.text)
                }
            })
            .collect()
    }

    pub fn quits(&mut self) -> Option<u8> {
        self.take().into_iter().find_map(|effect| match effect {
            Effect::Quit(code) => Some(code),
            _ => None,
        })
    }
}
