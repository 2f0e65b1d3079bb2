//! `gptoss chat`: settings, the saved session and the model, brought together for the terminal.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::ValueHint;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::args::{MachineArgs, ModelArgs, SamplingArgs};
use super::error::{self, Failure};
use super::prompt::{Role, Source};
use super::pull::{self, Found};
use super::style::Style;
use super::{config, model};
use crate::checkpoint::Checkpoint;
use crate::hub::{self, Hub, Located, ModelRef};
use crate::session::memory::{DevicePlan, Machine, Plan};
use crate::session::{LoadOptions, LoadProgress, LoadStep, Model, Reasoning};
use crate::settings::{Given, Paths, Settings, ThemeName};
use crate::store::{Error, Session, Store};
use crate::tui::event::{ModelInfo, Opened};
use crate::tui::{self, Fault, Journal, LoadError, Loaded, OnProgress, Start};

const PROMPT: &str = "Prompt";
const SESSIONS: &str = "Sessions";
const SCREEN: &str = "Screen";

/// How often a download looks whether it should end.
const GLANCE: Duration = Duration::from_millis(50);
/// How long a download that was stopped may take to end properly.
const TIDY: Duration = Duration::from_millis(500);

const AFTER_HELP: &str = "\
Everything else is in the chat: F1 or /help shows keys and commands. Conversations are saved as they go;
`gptoss config` prints where, and what can be configured.";

/// `gptoss chat`
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP, args_override_self = true)]
#[allow(clippy::struct_excessive_bools)] // Flags are flags.
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// Instructions for the whole conversation: the system prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "system_file", help_heading = PROMPT)]
    system: Option<String>,
    /// Read the instructions from FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = PROMPT)]
    system_file: Option<PathBuf>,
    /// How long to think: low, medium or high [default: medium]
    #[arg(long, short, value_name = "LEVEL", help_heading = PROMPT)]
    reasoning: Option<Reasoning>,
    /// The date the model is told, YYYY-MM-DD [default: today]
    #[arg(long, value_name = "DATE", hide = true)]
    current_date: Option<jiff::civil::Date>,

    /// Go on with the last conversation
    #[arg(long = "continue", short = 'c', conflicts_with = "session", help_heading = SESSIONS)]
    resume: bool,
    /// Go on with the conversation of this title or id; the beginning is enough
    #[arg(long, short, value_name = "NAME", help_heading = SESSIONS)]
    session: Option<String>,
    /// Save this conversation; this is the default
    #[arg(long, overrides_with = "no_save", help_heading = SESSIONS)]
    save: bool,
    /// Do not save this conversation
    #[arg(long, overrides_with = "save", help_heading = SESSIONS)]
    no_save: bool,

    #[command(flatten)]
    sampling: SamplingArgs,

    /// Colours [default: standard; plain where `NO_COLOR` is set]
    #[arg(long, value_name = "THEME", help_heading = SCREEN, value_parser = themes())]
    theme: Option<ThemeName>,
    /// The mouse wheel scrolls; selecting text then needs Shift; this is the default
    #[arg(long, overrides_with = "no_mouse", help_heading = SCREEN)]
    mouse: bool,
    /// Leave the mouse to the terminal
    #[arg(long, overrides_with = "mouse", help_heading = SCREEN)]
    no_mouse: bool,
    /// Unfold the thinking
    #[arg(long, overrides_with = "no_show_thinking", help_heading = SCREEN)]
    show_thinking: bool,
    /// Fold the thinking when the answer begins; this is the default
    #[arg(long, overrides_with = "show_thinking", help_heading = SCREEN)]
    no_show_thinking: bool,

    #[command(flatten)]
    machine: MachineArgs,

    /// Play a recorded stream of tokens instead of a model: lines of `{"id": 1, "delay_ms": 20}`, ids of `tiny`
    #[arg(long, value_name = "FILE", hide = true)]
    replay: Option<PathBuf>,
    /// Let a part panic
    #[arg(long, value_name = "PART", hide = true, value_parser = faults())]
    debug_panic: Option<Fault>,
}

fn themes() -> impl TypedValueParser<Value = ThemeName> {
    PossibleValuesParser::new(ThemeName::ALL.map(ThemeName::as_str)).map(|name| {
        let named = |theme: &ThemeName| theme.as_str() == name;
        ThemeName::ALL.into_iter().find(named).unwrap_or_default()
    })
}

fn faults() -> impl TypedValueParser<Value = Fault> {
    PossibleValuesParser::new(["worker", "draw"]).map(|name| match name.as_str() {
        "worker" => Fault::Worker,
        _ => Fault::Draw,
    })
}

/// Runs `gptoss chat` and gives its exit code.
///
/// # Errors
/// What is wrong with flags, configuration, the saved session or the terminal. A checkpoint that turns out to be
/// damaged is no error: the chat shows it and another model can be chosen.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    tui::check_terminal().map_err(no_terminal)?;
    let flags = args.given()?;
    let mut settings = config::load(flags.clone())?.settings();
    settings
        .sampling
        .validate()
        .map_err(|error| Failure::usage(error.to_string(), ""))?;
    let store = store(&settings)?;
    let session = saved(args, store.as_ref())?;
    let mut journal = Journal::new(store);
    let opened = session.map(|session| go_on(session, &flags, &mut settings, &mut journal));
    if args.replay.is_none() {
        model::check(&settings, opened.is_some() && flags.model.is_none())?;
    }
    let date = args
        .current_date
        .unwrap_or_else(|| jiff::Zoned::now().date());
    let loader = args.loader(&settings)?;
    let ended = tui::run(Start {
        settings,
        opened,
        loader,
        journal,
        date: Some(date.to_string()),
        fault: args.debug_panic,
    })
    .map_err(no_terminal)?;
    if let Some(unsaved) = ended.unsaved {
        let style = Style::of_stderr();
        // A standard error that is gone leaves nobody to tell.
        let _ = writeln!(
            io::stderr(),
            "{} {}",
            style.label("warning:"),
            style.clean(&unsaved)
        );
    }
    Ok(ended.code)
}

fn no_terminal(error: tui::Error) -> anyhow::Error {
    match error {
        tui::Error::NoTerminal(_) => Failure::usage(
            error.to_string(),
            "`gptoss run` answers one prompt, in pipes and files too",
        )
        .into(),
        tui::Error::PoorTerminal(_) => Failure::usage(
            error.to_string(),
            "if this one can, say what it is: TERM=xterm-256color gptoss chat; `gptoss run` answers one prompt anywhere",
        )
        .into(),
        tui::Error::Terminal(_) => error.into(),
    }
}

impl Args {
    /// What the flags say.
    fn given(&self) -> anyhow::Result<Given> {
        let own = Given {
            system: match &self.system_file {
                Some(path) => Some(instructions(path)?),
                None => self.system.clone(),
            },
            reasoning: self.reasoning,
            theme: self.theme,
            mouse: switch(self.mouse, self.no_mouse),
            save: switch(self.save, self.no_save),
            show_thinking: switch(self.show_thinking, self.no_show_thinking),
            ..Given::default()
        };
        Ok(own
            .or(self.model.given())
            .or(self.sampling.given())
            .or(self.machine.given()))
    }

    /// What loads models while the chat runs. The first one may have to be fetched, and that is asked
    /// before the chat takes the screen.
    fn loader(&self, settings: &Settings) -> anyhow::Result<tui::Loader> {
        if let Some(path) = &self.replay {
            let recording = recording(path)?;
            return Ok(Box::new(move |name, _| {
                replay(name, &recording).map_err(|error| failed(&error))
            }));
        }
        let agreed = agreed(settings)?;
        let (settings, options) = (settings.clone(), self.machine.load_options(settings)?);
        Ok(Box::new(move |name, on_progress| {
            let settings = Settings {
                model: name.to_owned(),
                ..settings.clone()
            };
            let may_fetch = agreed.as_deref() == Some(name);
            load(&settings, &options, may_fetch, on_progress).map_err(|error| failed(&error))
        }))
    }
}

/// What two flags say of which the last one counts.
fn switch(on: bool, off: bool) -> Option<bool> {
    (on || off).then_some(on)
}

fn instructions(path: &Path) -> anyhow::Result<String> {
    not_the_keyboard(path, "the instructions")?;
    Source::file(path, Role::Instructions).text()
}

fn not_the_keyboard(path: &Path, what: &str) -> anyhow::Result<()> {
    if path.as_os_str() == "-" {
        return Err(Failure::usage(
            format!("{what} cannot be read from standard input, which is the keyboard here"),
            "give a file",
        )
        .into());
    }
    Ok(())
}

/// Where conversations are. Nobody needs a place for them who does not save.
fn store(settings: &Settings) -> anyhow::Result<Option<Store>> {
    match Paths::from_env(|name| std::env::var_os(name)) {
        Ok(paths) => Ok(Some(Store::open(paths.sessions()))),
        Err(error) if settings.save => {
            Err(Failure::new(error.to_string(), "or chat without saving: --no-save").into())
        }
        Err(_) => Ok(None),
    }
}

/// The saved session that the flags ask for.
fn saved(args: &Args, store: Option<&Store>) -> anyhow::Result<Option<Session>> {
    if !args.resume && args.session.is_none() {
        return Ok(None);
    }
    let store = store.context("there is no place for saved conversations: set HOME")?;
    let id = if let Some(name) = &args.session {
        store
            .find(name, SystemTime::now())
            .map_err(|error| match error {
                Error::Unknown { .. } => Failure::new(
                    error.to_string(),
                    "`gptoss chat`, then Ctrl-O, lists the saved conversations and searches what was said",
                )
                .into(),
                Error::Ambiguous { .. } => {
                    Failure::new(error.to_string(), "give more of the title, or the id").into()
                }
                error => anyhow::Error::from(error),
            })?
    } else {
        let latest = store.latest(SystemTime::now())?.ok_or_else(|| {
            let directory = store.directory().display();
            Failure::new(
                format!("there is no saved conversation in `{directory}`"),
                "`gptoss chat` begins one",
            )
        })?;
        latest.id
    };
    Ok(Some(store.load(&id)?))
}

/// Goes on with `session`: it says which model, level and instructions, unless a flag does.
fn go_on(
    session: Session,
    flags: &Given,
    settings: &mut Settings,
    journal: &mut Journal,
) -> Opened {
    if let (None, Some(model)) = (&flags.model, &session.model) {
        settings.model.clone_from(model);
    }
    let mut opened = journal.open(session);
    if flags.system.is_some() {
        opened.setup.instructions.clone_from(&settings.system);
    }
    if let Some(reasoning) = flags.reasoning {
        opened.setup.reasoning = reasoning;
    }
    settings.system.clone_from(&opened.setup.instructions);
    settings.reasoning = opened.setup.reasoning;
    opened
}

/// The name of the model if it is not here and the user wants it fetched.
fn agreed(settings: &Settings) -> anyhow::Result<Option<String>> {
    let model = model::named(settings)?;
    if !matches!(model, ModelRef::Repo { .. }) {
        return Ok(None);
    }
    match pull::find(&model, &Hub::from_env()?, true)? {
        Found::Here(_) => Ok(None),
        Found::ToFetch(_) => Ok(Some(settings.model.clone())),
    }
}

fn load(
    settings: &Settings,
    options: &LoadOptions,
    may_fetch: bool,
    on_progress: &mut OnProgress<'_>,
) -> anyhow::Result<Loaded> {
    let model: ModelRef = settings.model.parse()?;
    if let ModelRef::Repo { id, revision } = &model {
        if may_fetch {
            download(id.clone(), revision.clone(), on_progress)?;
        } else {
            reach(&model, id.clone(), revision.clone(), on_progress)?;
        }
    }
    if on_progress(&format!("loading {}", settings.model), 0, 0).is_break() {
        anyhow::bail!("loading was stopped");
    }
    let checkpoint = model::open_named(&model, settings)?;
    let (config, weights) = (&checkpoint.config, checkpoint.summary().weight_bytes());
    let mut options = LoadOptions {
        progress: LoadProgress::default(),
        ..options.clone()
    };
    let (kv_type, dense, context) = (options.kv_type, options.dense, options.context);
    let on_device = DevicePlan::new(config, weights, kv_type, dense, context);
    let note = model::choose_device(&mut options, &on_device, settings.gpu_memory)?;
    let plan = Plan::new(config, weights, kv_type, dense, context.unwrap_or(0));
    let warning = match Machine::here().filter(|_| !options.device.is_gpu()) {
        Some(machine) => model::check_memory(&plan, machine)?,
        None => None,
    };
    let warning = match (note, warning) {
        (Some(note), Some(warning)) => Some(format!("{note}; {warning}")),
        (note, warning) => note.or(warning),
    };
    let progress = &options.progress;
    let look = |step| {
        let loading = format!("loading {}", settings.model);
        let (what, done, total) = match step {
            LoadStep::Opening => (loading.as_str(), 0, 0),
            LoadStep::Uploading { done, total } => (loading.as_str(), done, total),
            LoadStep::Compiling => ("compiling kernels", 0, 0),
        };
        if on_progress(what, done, total).is_break() {
            progress.cancel();
        }
    };
    let model = progress.watched(look, || Model::load(&checkpoint, &options))?;
    let most = checkpoint.config.max_position_embeddings;
    Ok(loaded(&settings.model, model, most, warning))
}

/// Fetches a model on a thread of its own: a stop need not wait for a network that gives nothing. Such a thread
/// ends with its next bytes, or when its patience does.
fn download(
    id: String,
    revision: Option<String>,
    on_progress: &mut OnProgress<'_>,
) -> anyhow::Result<()> {
    let hub = Hub::from_env()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, progress) = mpsc::channel();
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("download".to_owned())
        .spawn(move || {
            hub.download(&id, revision.as_deref(), &mut |progress| {
                // Nobody listens any more after a stop.
                let _ = sender.send(progress.clone());
                if stopped.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
        })?;
    let (mut what, mut done, mut total) = ("asking the hub".to_owned(), 0, 0);
    let mut until: Option<Instant> = None;
    loop {
        match progress.recv_timeout(GLANCE) {
            Ok(progress) => {
                what = format!("fetching {}", progress.file);
                (done, total) = (progress.done, progress.total);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if until.is_none() && on_progress(&what, done, total).is_break() {
            stop.store(true, Ordering::Relaxed);
            until = Some(Instant::now() + TIDY);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(hub::Error::Cancelled.into());
        }
    }
    match thread.join() {
        Ok(result) => Ok(result.map(|_| ())?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Asks the hub for a model that is not here, beside the chat: where there is no connection, that is what is wrong.
fn reach(
    model: &ModelRef,
    id: String,
    revision: Option<String>,
    on_progress: &mut OnProgress<'_>,
) -> anyhow::Result<()> {
    let hub = Hub::from_env()?;
    let located = hub.locate(&id, revision.as_deref())?;
    if matches!(located, Located::Complete(_)) || hub.is_offline() {
        return Ok(());
    }
    let absent = pull::absent(model, &hub, &id, &located);
    let (sender, answer) = mpsc::channel();
    std::thread::Builder::new()
        .name("hub".to_owned())
        .spawn(move || {
            // Nobody listens any more after a stop.
            let _ = sender.send(hub.plan(&id, revision.as_deref()));
        })?;
    loop {
        match answer.recv_timeout(GLANCE) {
            Ok(planned) => {
                planned.context("it is not on this machine")?;
                anyhow::bail!(absent);
            }
            Err(RecvTimeoutError::Timeout) => {
                if on_progress("asking the hub", 0, 0).is_break() {
                    anyhow::bail!("loading was stopped");
                }
            }
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!(absent),
        }
    }
}

/// The recording, checked before the chat takes the screen; a pipe can be read only once, which the load does.
fn recording(path: &Path) -> anyhow::Result<Source> {
    not_the_keyboard(path, "the recording")?;
    let recording = Source::file(path, Role::Recording);
    let is_pipe = path
        .metadata()
        .is_ok_and(|file| !file.is_file() && !file.is_dir());
    if !is_pipe {
        replay("", &recording).with_context(|| format!("--replay `{}`", path.display()))?;
    }
    Ok(recording)
}

fn replay(name: &str, recording: &Source) -> anyhow::Result<Loaded> {
    let model = Model::replay(&recording.raw_text()?, &Checkpoint::tiny())?;
    let most = model.context();
    Ok(loaded(name, model, most, None))
}

fn loaded(name: &str, model: Model, most: usize, warning: Option<String>) -> Loaded {
    Loaded {
        info: ModelInfo {
            name: name.to_owned(),
            device: model.device(),
            context: model.context(),
            most,
            load_time: model.load_time(),
        },
        model,
        warning,
    }
}

fn failed(error: &anyhow::Error) -> LoadError {
    let (message, hint) = error::parts(error);
    // In the chat it is a command that chooses the model.
    let message = message.replace("`--model tiny`", "`/model tiny`");
    LoadError { message, hint }
}
