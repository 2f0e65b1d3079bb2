//! What a token costs on the screen, by what stands before it: `cargo bench --bench transcript --no-default-features`.
//!
//! A token is one update and one draw, as the chat does them. Each case streams the same text into a conversation of
//! another length, at two sizes of the terminal, followed to its end and scrolled to its middle. The cases take turns, so that
//! whatever else the machine does meets all of them. Exits with 1 where a long one costs more than a fifth more than the
//! short one.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gptoss::session::{Event, Finish, Message, Stats};
use gptoss::settings::Settings;
use gptoss::tui::app::App;
use gptoss::tui::event::{Command, Effect, ModelInfo, Msg, Outcome, TurnId, WorkerEvent};
use gptoss::tui::view;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// How much more a token of a long conversation may cost.
const MOST: f64 = 1.20;

const ROUNDS: usize = 12;

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];

/// A piece of an answer as models write them.
const TEXT: &str = "The *capital* of Norway is **Oslo**, a town of about 700,000 between the fjord and the forest.\n\n\
    - It has `trams`, ferries and 日本語.\n- It has museums.\n- It has snow.\n\n\
    ```rust\nfn capital(of: &str) -> &str {\n    match of {\n        \"Norway\" => \"Oslo\",\n        _ => \"?\",\n    }\n}\n```\n\n\
    1. First one thing.\n2. Then another.\n\n> It is said so.\n\n";

/// About the tokens that a vocabulary makes of it.
fn tokens() -> impl Iterator<Item = &'static str> + Clone {
    TEXT.split_inclusive(' ')
        .flat_map(|word| word.split_inclusive('\n'))
        .flat_map(|piece| {
            let half = piece.ceil_char_boundary(if piece.len() > 6 { piece.len() / 2 } else { 0 });
            [&piece[..half], &piece[half..]]
        })
        .filter(|piece| !piece.is_empty())
}

/// What stands before the token.
#[derive(Clone, Copy)]
enum Before {
    /// So many tokens of questions and answers.
    Exchanges(usize),
    /// So many tokens of the answer itself.
    Answer(usize),
    /// So many tokens of the thinking itself.
    Thinking(usize),
}

impl Before {
    fn channel(self) -> &'static str {
        match self {
            Self::Exchanges(_) | Self::Answer(_) => "final",
            Self::Thinking(_) => "analysis",
        }
    }

    fn name(self) -> String {
        match self {
            Self::Exchanges(tokens) => format!("{tokens} tokens of exchanges"),
            Self::Answer(tokens) => format!("{tokens} tokens of the answer"),
            Self::Thinking(tokens) => format!("{tokens} tokens of thinking"),
        }
    }
}

/// The short one of each group, and those that may cost no more.
const CASES: [&[Before]; 2] = [
    &[
        Before::Exchanges(100),
        Before::Exchanges(10_000),
        Before::Exchanges(50_000),
        Before::Answer(10_000),
        Before::Answer(50_000),
    ],
    &[
        Before::Thinking(100),
        Before::Thinking(10_000),
        Before::Thinking(50_000),
    ],
];

struct Chat {
    app: App,
    terminal: Terminal<TestBackend>,
    turn: TurnId,
    /// What each token took.
    taken: Vec<Duration>,
}

impl Chat {
    fn new((width, height): (u16, u16), before: Before, middle: bool) -> Self {
        let settings = Settings {
            model: "tiny".to_owned(),
            save: false,
            ..Settings::default()
        };
        let (app, _) = App::new(settings, None, (width, height), Instant::now());
        let mut chat = Self {
            app,
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
            turn: 0,
            taken: Vec::new(),
        };
        chat.update(Msg::Worker(WorkerEvent::Ready(ModelInfo {
            name: "tiny".to_owned(),
            device: "cpu".to_owned(),
            context: 131_072,
            most: 131_072,
            load_time: Duration::ZERO,
        })));
        let cycle = tokens().count();
        if let Before::Exchanges(total) = before {
            for _ in 0..total.div_ceil(cycle) {
                chat.exchange();
            }
        }
        chat.ask();
        chat.begin(before.channel());
        // A screen that is full in every case.
        for _ in 0..3 {
            chat.stream();
        }
        if let Before::Answer(total) | Before::Thinking(total) = before {
            for _ in 0..total.div_ceil(cycle) {
                chat.stream();
            }
        }
        if middle {
            // The short ones reach above the first screen at least.
            let total = match before {
                Before::Exchanges(total) | Before::Answer(total) | Before::Thinking(total) => total,
            };
            let lines = i16::try_from((total / 12).clamp(10, 30_000)).unwrap();
            chat.update(Msg::Scroll(-lines));
        }
        chat.taken.clear();
        chat
    }

    fn update(&mut self, message: Msg) {
        for effect in self.app.update(message) {
            if let Effect::Send(Command::Turn { turn, .. }) = effect {
                self.turn = turn;
            }
        }
    }

    fn event(&mut self, event: Event) {
        let turn = self.turn;
        self.update(Msg::Worker(WorkerEvent::Turn { turn, event }));
    }

    fn ask(&mut self) {
        self.update(Msg::Paste("What is the capital of Norway?".to_owned()));
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        self.update(Msg::Key(enter));
    }

    fn begin(&mut self, channel: &str) {
        self.event(Event::Start(Message::assistant(channel, "")));
    }

    fn exchange(&mut self) {
        self.ask();
        self.begin("final");
        self.event(Event::Text(TEXT.to_owned()));
        let message = Message::assistant("final", TEXT);
        self.event(Event::End(message.clone()));
        let outcome = Ok(Outcome {
            messages: vec![message],
            finish: Finish::Stop,
            stats: Stats::default(),
        });
        let turn = self.turn;
        self.update(Msg::Worker(WorkerEvent::Finished { turn, outcome }));
    }

    /// Takes the text in, token by token.
    fn stream(&mut self) {
        for piece in tokens() {
            let text = piece.to_owned();
            let start = Instant::now();
            self.event(Event::Token(1));
            self.event(Event::Text(text));
            let app = &self.app;
            self.terminal.draw(|frame| view::draw(app, frame)).unwrap();
            self.taken.push(start.elapsed());
        }
    }

    /// What so many of a hundred tokens take at most.
    fn percentile(&mut self, percent: usize) -> Duration {
        self.taken.sort_unstable();
        self.taken[(self.taken.len() * percent / 100).min(self.taken.len() - 1)]
    }

    /// The screen says that there is more below it.
    fn is_scrolled(&self) -> bool {
        let buffer = self.terminal.backend().buffer();
        buffer.content().iter().any(|cell| cell.symbol() == "↓")
    }
}

fn main() -> ExitCode {
    let mut flat = true;
    println!(
        "{:<30} {:>8} {:>8} {:>11} {:>11} {:>6}",
        "before the token", "terminal", "shown", "90 %", "median", "ratio"
    );
    for size in SIZES {
        for middle in [false, true] {
            for group in CASES {
                let new = |before: &Before| Chat::new(size, *before, middle);
                let mut chats: Vec<Chat> = group.iter().map(new).collect();
                // The first draw after the way there.
                for chat in &mut chats {
                    chat.stream();
                    chat.taken.clear();
                }
                for _ in 0..ROUNDS {
                    chats.iter_mut().for_each(Chat::stream);
                }
                let shortest = chats[0].percentile(50);
                for (before, chat) in group.iter().zip(&mut chats) {
                    assert_eq!(chat.is_scrolled(), middle, "{}", before.name());
                    let (median, slow) = (chat.percentile(50), chat.percentile(90));
                    let ratio = median.as_secs_f64() / shortest.as_secs_f64();
                    flat &= ratio <= MOST;
                    println!(
                        "{:<30} {:>8} {:>8} {:>8.1} µs {:>8.1} µs {ratio:>6.2}{}",
                        before.name(),
                        format!("{}x{}", size.0, size.1),
                        if middle { "middle" } else { "end" },
                        slow.as_secs_f64() * 1e6,
                        median.as_secs_f64() * 1e6,
                        if ratio <= MOST { "" } else { "  too much" },
                    );
                }
            }
        }
    }
    if flat {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
