//! `gptoss run`: one prompt, one answer.

mod screen;
mod stream;

use anyhow::Context;

use super::Exit;
use super::args;
use super::config;
use super::error::Failure;
use super::interrupt::Interrupt;
use super::model;
use super::output::Answer;
use super::prompt::{Role, Source};
use super::report::{Figures, Report, count};
use crate::session::memory::{DevicePlan, Machine, Plan};
use crate::session::{self, Cancel, ChatSession, Finish, Model, Setup, Stats, Turn, TurnOptions};
use crate::settings::Settings;
use screen::Screen;
use stream::Stream;

/// What is asked of the model, read and checked before it is loaded.
#[derive(Debug)]
enum Prompt {
    Chat { text: String, setup: Setup },
    Text(String),
    Ids(Vec<u32>),
}

/// Runs `gptoss run`.
///
/// # Errors
/// What is wrong with flags, files, the model or its answer.
pub fn run(args: &args::Run) -> anyhow::Result<Exit> {
    let given = config::load(args.given())?;
    // Where it is not asked for on the command line, thinking is shown to people only.
    let hide_thinking = given.show_thinking == Some(false);
    let settings = given.settings();
    let options = TurnOptions {
        sampling: settings.sampling.clone(),
        max_tokens: settings.max_tokens,
    };
    options
        .sampling
        .validate()
        .map_err(|error| Failure::usage(error.to_string(), ""))?;
    let mut load_options = args.machine.load_options(&settings)?;
    let prompt = prompt(args, &settings)?;
    let answer = match &args.output {
        Some(path) => Answer::file(path)?,
        None => Answer::stdout(),
    };

    let mut screen = Screen::new(args.quiet, args.show_thinking, hide_thinking);
    // A download has its own way with Ctrl-C, so signals are taken over after it.
    let checkpoint = model::open(&settings, screen.is_interactive())?;
    let interrupt = Interrupt::install(leave(&screen, &answer)).context("cannot handle signals")?;
    let weights = checkpoint.summary().weight_bytes();
    let (kv_type, dense) = (load_options.kv_type, load_options.dense);
    let plan = |context| Plan::new(&checkpoint.config, weights, kv_type, dense, context);
    let planned = plan(settings.context.unwrap_or(0));
    let on_device = DevicePlan::new(
        &checkpoint.config,
        weights,
        kv_type,
        dense,
        settings.context,
    );
    if let Some(note) = model::choose_device(&mut load_options, &on_device, settings.gpu_memory)? {
        screen.warn(&note);
    }
    // What a GPU holds is no memory of this machine.
    let machine = Machine::here().filter(|_| !load_options.device.is_gpu());
    if let Some(machine) = machine
        && let Some(warning) = model::check_memory(&planned, machine)?
    {
        screen.warn(&warning);
    }

    let name = model::named(&settings)?.to_string();
    let loaded = screen.loading(&name, &load_options.progress, || {
        Model::load(&checkpoint, &load_options)
    })?;
    let cancel = Cancel::new();
    interrupt.arm(&cancel);
    let job = Job {
        args,
        options,
        most: checkpoint.config.max_position_embeddings,
        cancel: &cancel,
        interrupt: &interrupt,
        check_memory: &|tokens| match machine {
            Some(machine) => model::check_memory(&plan(tokens), machine).map(|_| ()),
            None => Ok(()),
        },
    };
    let stream = Stream::new(answer, screen, &cancel, args.json);
    match prompt {
        Prompt::Chat { text, setup } => {
            let mut session = ChatSession::new(loaded, setup);
            session.push_user(text);
            job.chat(session, stream)
        }
        Prompt::Text(text) => {
            let ids = loaded.tokenizer().encode(&text);
            job.complete(loaded, &ids, stream)
        }
        Prompt::Ids(ids) => job.complete(loaded, &ids, stream),
    }
}

/// What a signal that ends the process at once leaves tidy: the line of a progress bar, and no file that
/// was made for an answer which has not begun.
fn leave(screen: &Screen, answer: &Answer) -> impl Fn() + Send + 'static {
    let erase = screen.eraser();
    let created = answer.created_file();
    move || {
        erase();
        if let Some(path) = &created
            && std::fs::metadata(path).is_ok_and(|file| file.len() == 0)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn prompt(args: &args::Run, settings: &Settings) -> anyhow::Result<Prompt> {
    if let Some(path) = &args.prompt_ids {
        return Ok(Prompt::Ids(Source::file(path, Role::TokenIds).token_ids()?));
    }
    let source = Source::of_prompt(args.prompt.as_deref(), args.prompt_file.as_deref())?;
    let system = match (&args.system, &args.system_file) {
        (Some(text), _) => Some(Source::argument(text, Role::Instructions)),
        (None, Some(path)) => Some(Source::file(path, Role::Instructions)),
        (None, None) => None,
    };
    let tools_file = args.tools.as_deref();
    let tools_file = tools_file.map(|path| Source::file(path, Role::Tools));
    let piped: Vec<&str> = [Some(&source), system.as_ref(), tools_file.as_ref()]
        .into_iter()
        .flatten()
        .filter_map(Source::piped)
        .collect();
    if let [first, second, ..] = piped[..] {
        return Err(Failure::usage(
            format!("{first} and {second} cannot both be read from standard input"),
            "give one of them as a file or as text",
        )
        .into());
    }
    if args.raw {
        return Ok(Prompt::Text(source.raw_text()?));
    }
    let date = args
        .current_date
        .unwrap_or_else(|| jiff::Zoned::now().date());
    let setup = Setup {
        date: Some(date.to_string()),
        reasoning: settings.reasoning,
        instructions: match system {
            Some(source) => Some(source.text()?),
            None => settings.system.clone(),
        },
        tools: match &tools_file {
            Some(source) => tools(source)?,
            None => Vec::new(),
        },
    };
    Ok(Prompt::Chat {
        text: source.text()?,
        setup,
    })
}

fn tools(source: &Source) -> anyhow::Result<Vec<session::Tool>> {
    session::parse_tools(&source.text()?).map_err(|error| {
        Failure::new(
            format!("{source}: {error}"),
            "tools are a JSON list of {\"type\": \"function\", \"function\": {\"name\", \
             \"description\", \"parameters\"}}",
        )
        .into()
    })
}

/// One generation and what surrounds it.
struct Job<'a> {
    args: &'a args::Run,
    options: TurnOptions,
    /// The longest context the model allows.
    most: usize,
    cancel: &'a Cancel,
    interrupt: &'a Interrupt,
    check_memory: &'a dyn Fn(usize) -> anyhow::Result<()>,
}

impl Job<'_> {
    fn chat(&self, mut session: ChatSession, mut stream: Stream) -> anyhow::Result<Exit> {
        let tokens = session.prompt().len();
        self.check_length(tokens, session.model())?;
        let turn = stream.watch(tokens, |on_event| {
            session.turn(&self.options, self.cancel, on_event)
        })?;
        let figures = figures(session.model(), &turn.stats, turn.finish);
        if self.args.json {
            stream.json(&Report::of_turn(&turn, &figures))?;
        } else {
            stream.rest_of(&turn)?;
        }
        self.close(
            stream,
            &figures,
            turn.stopped_while_thinking(),
            unanswered(&turn, session.model().context()),
        )
    }

    fn complete(
        &self,
        mut model: Model,
        prompt: &[u32],
        mut stream: Stream,
    ) -> anyhow::Result<Exit> {
        self.check_length(prompt.len(), &model)?;
        let completion = stream.watch(prompt.len(), |on_event| {
            model.complete(prompt, &self.options, self.cancel, on_event)
        })?;
        let figures = figures(&model, &completion.stats, completion.finish);
        if self.args.json {
            stream.json(&Report::of_completion(&completion, &figures))?;
        } else {
            stream.end_raw();
        }
        self.close(stream, &figures, false, None)
    }

    fn check_length(&self, prompt: usize, model: &Model) -> anyhow::Result<()> {
        let context = model.context();
        if prompt > context {
            let hint = if context < self.most {
                format!(
                    "shorten it, or give more with --context (at most {})",
                    self.most
                )
            } else {
                "shorten it: this model allows no more".to_owned()
            };
            return Err(Failure::new(
                format!(
                    "the prompt has {} and the context holds {context}",
                    count(prompt)
                ),
                hint,
            )
            .into());
        }
        (self.check_memory)(prompt)
    }

    /// Figures, and the exit code that the end of the run earns.
    fn close(
        &self,
        stream: Stream,
        figures: &Figures,
        thinking: bool,
        unanswered: Option<Failure>,
    ) -> anyhow::Result<Exit> {
        let (answer, mut screen) = stream.into_parts();
        if answer.is_closed() {
            return Ok(Exit::Success);
        }
        answer.finish()?;
        screen.figures(figures);
        match (self.interrupt.received(), unanswered) {
            (Some(exit), _) => {
                if thinking {
                    screen.warn("stopped while thinking: there is no answer yet");
                }
                Ok(exit)
            }
            (None, Some(failure)) => Err(failure.into()),
            (None, None) => Ok(Exit::Success),
        }
    }
}

fn figures(model: &Model, stats: &Stats, finish: Finish) -> Figures {
    Figures::new(model.load_time(), model.device(), stats.clone(), finish)
}

/// Why there is nothing to be used in `turn`, if that is so.
fn unanswered(turn: &Turn, context: usize) -> Option<Failure> {
    let broken = turn
        .tool_calls()
        .into_iter()
        .find_map(|call| call.arguments.err());
    let cut_off = match turn.finish {
        Finish::Length => Some("raise --max-tokens, or think less with --reasoning low"),
        Finish::Context => {
            Some("raise --context, shorten the prompt, or think less with --reasoning low")
        }
        _ => None,
    };
    let again = cut_off.unwrap_or("run it again, with another --seed or prompt");
    if let Some(invalid) = broken {
        return Some(Failure::no_answer(invalid.to_string(), again));
    }
    if !turn.is_unanswered() {
        return None;
    }
    let tokens = turn.token_ids.len();
    let made = count(tokens);
    let message = match turn.finish {
        Finish::Context if tokens == 0 => {
            format!(
                "the prompt fills the context of {}, there is no room for an answer",
                count(context)
            )
        }
        Finish::Context => {
            format!(
                "stopped while thinking ({made}): the context of {} is full",
                count(context)
            )
        }
        Finish::Length => {
            format!("stopped while thinking ({made}): --max-tokens is reached")
        }
        Finish::Stop | Finish::ToolCall | Finish::Cancelled => {
            format!("the model ended without an answer ({made})")
        }
    };
    Some(Failure::no_answer(message, again))
}
