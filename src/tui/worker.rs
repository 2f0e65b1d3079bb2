//! The worker: the thread that owns the model.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::event::{Command, ModelInfo, Outcome, TooLong, TurnError, TurnId, WorkerEvent};
use super::{Incoming, panics, stopped};
use crate::session::{self, Cancel, ChatSession, Message, Model, Setup, Stats, TurnOptions};
use crate::tui::event::Msg;

/// Between two reports of a load's progress.
const REPORT: Duration = Duration::from_millis(50);

/// Why a model cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// What went wrong.
    pub message: String,
    /// The way out, if there is one.
    pub hint: Option<String>,
}

/// Told how far a load is: what is being done, bytes done, bytes in all (0 where unknown). Says whether to go on.
pub type OnProgress<'a> = dyn FnMut(&str, u64, u64) -> ControlFlow<()> + Send + 'a;

/// A model that is ready.
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// For the screen.
    pub info: ModelInfo,
    /// What is worth saying about it, such as that memory is short.
    pub warning: Option<String>,
}

/// Loads a model by its `--model` name.
pub type Loader = Box<dyn FnMut(&str, &mut OnProgress<'_>) -> Result<Loaded, LoadError> + Send>;

/// Starts the worker; it ends when the channel that is given back is dropped. With `panics` set it does so
/// in the middle of its first turn, for the tests.
pub fn start(
    loader: Loader,
    events: Sender<Incoming>,
    panics: bool,
) -> std::io::Result<Sender<Command>> {
    let (commands, receiver) = channel();
    let worker = Worker {
        loader,
        events,
        session: None,
        name: None,
        panics,
    };
    std::thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || worker.run(&receiver))?;
    Ok(commands)
}

struct Worker {
    loader: Loader,
    events: Sender<Incoming>,
    session: Option<ChatSession>,
    /// Of the model in `session`.
    name: Option<String>,
    panics: bool,
}

impl Worker {
    fn run(mut self, commands: &Receiver<Command>) {
        for command in commands {
            match command {
                Command::Load { model, cancel } => self.load(&model, &cancel),
                Command::Count { id, texts } => self.count(id, &texts),
                Command::Turn {
                    turn,
                    setup,
                    history,
                    options,
                    cancel,
                } => self.turn(turn, setup, history, &options, &cancel),
            }
        }
    }

    /// The chat that would listen has left when this fails, and the channel of commands ends next.
    fn say(&self, event: WorkerEvent) {
        let _ = self.events.send(Incoming::Msg(Msg::Worker(event)));
    }

    /// The model before stays until the new one is there: its weights are a map of files, which the system
    /// takes back when memory is short. A device would have to hold both: there the one before goes first, and is
    /// loaded again where the new one fails.
    fn load(&mut self, name: &str, cancel: &Cancel) {
        let on_device = |session: &mut ChatSession| session.model().is_on_device();
        let gone = self.session.take_if(on_device).is_some();
        let Err(error) = self.try_load(name, cancel) else {
            return;
        };
        let before = self.name.clone().filter(|_| gone);
        if let Some(before) = before
            && let Err(again) = self.reload(&before)
        {
            self.name = None;
            let message = format!(
                "{}; `{before}` is gone too: {}",
                error.message, again.message
            );
            return self.say(WorkerEvent::LoadFailed {
                message,
                hint: again.hint,
            });
        }
        let LoadError { message, hint } = error;
        self.say(WorkerEvent::LoadFailed { message, hint });
    }

    /// Loads what was there, without a word.
    fn reload(&mut self, name: &str) -> Result<(), LoadError> {
        let loaded = self.made(name, &mut |_, _, _| ControlFlow::Continue(()))?;
        self.session = Some(ChatSession::new(loaded.model, Setup::default()));
        Ok(())
    }

    fn made(&mut self, name: &str, progress: &mut OnProgress<'_>) -> Result<Loaded, LoadError> {
        let loader = &mut self.loader;
        catch_unwind(AssertUnwindSafe(|| loader(name, progress))).unwrap_or_else(|panic| {
            Err(LoadError {
                message: said(&*panic),
                hint: None,
            })
        })
    }

    fn try_load(&mut self, name: &str, cancel: &Cancel) -> Result<(), LoadError> {
        let events = self.events.clone();
        let mut last: Option<(Instant, String)> = None;
        let mut progress = |what: &str, done: u64, total: u64| {
            let now = Instant::now();
            let news = last.as_ref().is_none_or(|(at, before)| {
                before != what || now.duration_since(*at) >= REPORT || done == total
            });
            if news {
                last = Some((now, what.to_owned()));
                let what = what.to_owned();
                let event = WorkerEvent::Loading { what, done, total };
                let _ = events.send(Incoming::Msg(Msg::Worker(event)));
            }
            if cancel.is_cancelled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let Loaded {
            model,
            info,
            warning,
        } = self.made(name, &mut progress)?;
        self.session = Some(ChatSession::new(model, Setup::default()));
        self.name = Some(name.to_owned());
        self.say(WorkerEvent::Ready(info));
        if let Some(warning) = warning {
            let _ = self.events.send(Incoming::Msg(Msg::Problem(warning)));
        }
        Ok(())
    }

    fn count(&self, id: u64, texts: &[String]) {
        if let Some(session) = &self.session {
            let tokens = texts.iter().map(|text| session.count(text)).collect();
            self.say(WorkerEvent::Counted { id, tokens });
        }
    }

    fn turn(
        &mut self,
        turn: TurnId,
        setup: Setup,
        history: Vec<Message>,
        options: &TurnOptions,
        cancel: &Cancel,
    ) {
        let Some(session) = &mut self.session else {
            return self.say(WorkerEvent::Finished {
                turn,
                outcome: Err("no model is loaded".to_owned().into()),
            });
        };
        session.setup = setup;
        session.history = history;
        let events = self.events.clone();
        let panics = &mut self.panics;
        let before = stopped::total();
        let mut first = None;
        let made = catch_unwind(AssertUnwindSafe(|| {
            session.turn(options, cancel, &mut |event| {
                let is_token = matches!(event, session::Event::Token(_));
                if is_token {
                    first.get_or_insert_with(stopped::total);
                }
                let breaks = is_token && std::mem::take(panics);
                assert!(!breaks, "asked for with --debug-panic");
                let event = WorkerEvent::Turn { turn, event };
                let _ = events.send(Incoming::Msg(Msg::Worker(event)));
            })
        }));
        let (outcome, broken) = match made {
            Ok(Ok(made)) => (
                Ok(Outcome {
                    messages: made.messages,
                    finish: made.finish,
                    stats: running(&made.stats, before, first),
                }),
                false,
            ),
            Ok(Err(error)) => {
                let too_long = error.too_long().map(|(prompt, context)| {
                    let (message, afresh) = session.count_last();
                    TooLong {
                        message,
                        afresh,
                        prompt,
                        context,
                    }
                });
                let reason = match error.way_out() {
                    Some(way_out) => format!("{error}; {way_out}"),
                    None => error.to_string(),
                };
                (Err(TurnError { reason, too_long }), false)
            }
            Err(panic) => (Err(said(&*panic).into()), true),
        };
        self.say(WorkerEvent::Finished { turn, outcome });
        if broken {
            // What the cache holds now is anybody's guess.
            self.session = None;
            if let Some(name) = self.name.take() {
                self.load(&name, &Cancel::new());
            }
        }
    }
}

/// The figures without the time in which the program was stopped: [`stopped::total`] was `before` at the start, and
/// `first` with the first token.
fn running(stats: &Stats, before: Duration, first: Option<Duration>) -> Stats {
    let after = stopped::total();
    let first = first.unwrap_or(after);
    Stats {
        prefill: stopped::without(stats.prefill, before, first),
        time_to_first_token: stats
            .time_to_first_token
            .map(|time| stopped::without(time, before, first)),
        decode: stopped::without(stats.decode, first, after),
        ..stats.clone()
    }
}

/// What a panic says: the hook's text, which has the place, or the bare message.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panics::take().or_else(|| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        text.or_else(|| panic.downcast_ref::<String>().cloned())
    });
    format!(
        "this is a fault of the program: {}",
        text.unwrap_or_else(|| "it gave no reason".to_owned())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::session::Finish;

    /// A loader that knows `good` alone; its model ends every turn at once.
    fn loader() -> Loader {
        Box::new(|name, on_progress| {
            if on_progress("loading", 1, 2).is_break() {
                return Err(LoadError {
                    message: format!("stopped on the way to `{name}`"),
                    hint: None,
                });
            }
            if name != "good" {
                return Err(LoadError {
                    message: format!("no `{name}`"),
                    hint: Some("take `good`".to_owned()),
                });
            }
            let model = Model::replay("", &Checkpoint::tiny()).unwrap();
            Ok(Loaded {
                info: ModelInfo {
                    name: name.to_owned(),
                    device: model.device(),
                    context: model.context(),
                    most: model.context(),
                    load_time: model.load_time(),
                },
                model,
                warning: None,
            })
        })
    }

    fn load(model: &str) -> Command {
        Command::Load {
            model: model.to_owned(),
            cancel: Cancel::new(),
        }
    }

    fn turn(turn: TurnId) -> Command {
        Command::Turn {
            turn,
            setup: Setup::default(),
            history: vec![Message::user("Hi")],
            options: TurnOptions::default(),
            cancel: Cancel::new(),
        }
    }

    /// What the worker says to `orders`, save how far a prompt or a load is.
    fn said(panics: bool, orders: Vec<Command>) -> Vec<String> {
        let (events, incoming) = channel();
        let commands = start(loader(), events, panics).unwrap();
        for order in orders {
            commands.send(order).unwrap();
        }
        drop(commands);
        incoming
            .iter()
            .filter_map(|incoming| match incoming {
                Incoming::Msg(Msg::Worker(event)) => Some(event),
                _ => None,
            })
            .filter_map(|event| match event {
                WorkerEvent::Ready(info) => Some(format!("{} is ready", info.name)),
                WorkerEvent::LoadFailed { message, hint } => {
                    Some(format!("{message}: {}", hint.unwrap_or_default()))
                }
                WorkerEvent::Finished { turn, outcome } => Some(match outcome {
                    Ok(Outcome {
                        finish: Finish::Stop,
                        ..
                    }) => format!("{turn} ended"),
                    Ok(outcome) => format!("{turn} ended with {:?}", outcome.finish),
                    Err(error) => format!("{turn} failed: {}", error.reason),
                }),
                WorkerEvent::Counted { id, tokens } => Some(format!("{id} has {tokens:?}")),
                WorkerEvent::Loading { .. } | WorkerEvent::Turn { .. } => None,
            })
            .collect()
    }

    #[test]
    fn a_failed_load_leaves_the_model_before_in_place() {
        assert_eq!(
            said(false, vec![turn(1), load("good"), load("bad"), turn(2)]),
            [
                "1 failed: no model is loaded",
                "good is ready",
                "no `bad`: take `good`",
                "2 ended",
            ]
        );
    }

    #[test]
    fn tokens_are_counted_where_there_is_a_model() {
        let count = || Command::Count {
            id: 7,
            texts: vec![String::new(), "Hello".to_owned()],
        };
        let tokenizer = Checkpoint::tiny().tokenizer.unwrap().json;
        let tokenizer = crate::tokenizer::Tokenizer::from_json(&tokenizer, "tiny").unwrap();
        let hello = tokenizer.encode("Hello").len();
        assert_eq!(
            said(false, vec![count(), load("good"), count()]),
            ["good is ready".to_owned(), format!("7 has [0, {hello}]")]
        );
    }

    #[test]
    fn a_load_that_is_stopped_leaves_the_model_before_in_place() {
        let cancel = Cancel::new();
        cancel.cancel();
        let stopped = Command::Load {
            model: "good".to_owned(),
            cancel,
        };
        assert_eq!(
            said(false, vec![load("good"), stopped, turn(1)]),
            ["good is ready", "stopped on the way to `good`: ", "1 ended"]
        );
    }

    #[test]
    fn a_panic_is_the_outcome_of_its_turn_and_the_model_is_loaded_again() {
        let said = said(true, vec![load("good"), turn(1), turn(2)]);
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[1].starts_with("1 failed: this is a fault of the program"));
        assert_eq!(said[2..], ["good is ready", "2 ended"]);
    }
}
