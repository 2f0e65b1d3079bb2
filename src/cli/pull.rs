//! `gptoss pull`: fetching a model, and the question that `run` asks when one is not here.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::progress;
use super::style::Style;
use crate::hub::{Error, Hub, Located, ModelRef, Plan, Progress, decimal_bytes};

/// Exit code of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Fetches a model into the Hugging Face cache.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// `20b`, `120b` or `owner/name[@revision]` on the Hugging Face hub
    #[arg(value_name = "NAME")]
    pub model: ModelRef,
}

/// Fetches the model and prints the directory it is in on standard output.
///
/// # Errors
/// A name that is not one on the hub, and those of [`Hub::download`].
pub fn run(args: &Args) -> Result<()> {
    let mut stderr = io::stderr();
    let (id, revision) = match &args.model {
        ModelRef::Tiny => {
            writeln!(
                stderr,
                "tiny is part of the program; there is nothing to fetch"
            )?;
            return Ok(());
        }
        ModelRef::Directory(path) => bail!(
            "`{}` is a path, so there is nothing to fetch; a name on the hub is `owner/name`",
            path.display()
        ),
        ModelRef::Repo { id, revision } => (id.as_str(), revision.as_deref()),
    };
    let hub = Hub::from_env()?;
    let snapshot = if let Located::Complete(snapshot) = hub.locate(id, revision)? {
        note(&format!("{} is already complete", args.model));
        snapshot
    } else {
        fetch(&hub, &hub.plan(id, revision)?)?
    };
    match writeln!(io::stdout(), "{}", snapshot.display()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. One that is closed is no reason to stop a download.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Where a model is, or what is to be done first.
#[derive(Debug)]
pub enum Found {
    /// In this directory.
    Here(PathBuf),
    /// To be fetched, as the user agreed.
    ToFetch(Plan),
}

/// The directory of `model`, fetching it first if the user says so.
///
/// # Errors
/// Those of [`find`] and [`Hub::fetch`].
pub fn ensure(model: &ModelRef, hub: &Hub, interactive: bool) -> Result<PathBuf> {
    match find(model, hub, interactive)? {
        Found::Here(directory) => Ok(directory),
        Found::ToFetch(plan) => fetch(hub, &plan),
    }
}

/// Looks for `model`.
///
/// A model that is not here is asked about if `interactive` is set and standard input and standard error
/// are terminals. [`ModelRef::Tiny`] has no directory and is an error; so is a path that leads to none.
///
/// # Errors
/// What is missing, where it was looked for and what to do about it; those of [`Hub::plan`].
pub fn find(model: &ModelRef, hub: &Hub, interactive: bool) -> Result<Found> {
    let (id, revision) = match model {
        ModelRef::Tiny => bail!("`tiny` is part of the program and in no directory"),
        ModelRef::Directory(path) => return directory(path.clone()).map(Found::Here),
        ModelRef::Repo { id, revision } => (id.as_str(), revision.as_deref()),
    };
    let located = hub.locate(id, revision)?;
    if let Located::Complete(snapshot) = located {
        return Ok(Found::Here(snapshot));
    }
    let may_ask = interactive && io::stdin().is_terminal() && io::stderr().is_terminal();
    if !may_ask || hub.is_offline() {
        bail!(absent(model, hub, id, &located));
    }
    let plan = hub
        .plan(id, revision)
        .with_context(|| absent(model, hub, id, &located))?;
    if plan.fits() && !agrees(model, &plan)? {
        bail!(absent(model, hub, id, &located));
    }
    Ok(Found::ToFetch(plan))
}

fn directory(path: PathBuf) -> Result<PathBuf> {
    if path.is_dir() {
        return Ok(path);
    }
    if !path.exists() {
        bail!("there is no directory `{}`", path.display());
    }
    if path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
    {
        bail!(
            "`{}` is a GGUF file; this program reads the published checkpoint, a directory with \
             config.json, tokenizer.json and safetensors files",
            path.display()
        );
    }
    bail!(
        "`{}` is a file; give the directory with config.json and the weights",
        path.display()
    )
}

/// Says what is missing and what can be done now.
pub fn absent(model: &ModelRef, hub: &Hub, id: &str, located: &Located) -> String {
    let directory = hub.repo_dir(id);
    let directory = directory.display();
    let state = match located {
        Located::Incomplete { missing } => {
            format!(
                "`{model}` is not complete in `{directory}`: missing {}",
                missing.join(", ")
            )
        }
        Located::Complete(_) | Located::Absent => {
            format!("`{model}` is not on this machine; looked in `{directory}`")
        }
    };
    let way_out = if hub.is_offline() {
        "HF_HUB_OFFLINE is set, so nothing is fetched; unset it".to_owned()
    } else {
        format!("fetch it with `gptoss pull {}`", short(model))
    };
    format!("{state}; {way_out}, or try the built-in toy with `--model tiny`")
}

/// The shortest name that means `model`.
fn short(model: &ModelRef) -> String {
    let name = model.to_string();
    match name.strip_prefix("openai/gpt-oss-") {
        Some(size @ ("20b" | "120b")) => size.to_owned(),
        _ => name,
    }
}

fn agrees(model: &ModelRef, plan: &Plan) -> io::Result<bool> {
    let mut stderr = io::stderr();
    write!(stderr, "{} ", question(model, plan))?;
    stderr.flush()?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer)?;
    if read == 0 {
        writeln!(stderr)?;
    }
    Ok(read > 0 && is_yes(&answer))
}

fn question(model: &ModelRef, plan: &Plan) -> String {
    let free = plan
        .free
        .map(|free| format!(", {} are free", decimal_bytes(free)))
        .unwrap_or_default();
    let size = decimal_bytes(plan.bytes);
    format!("`{model}` is not here ({size} to fetch{free}). Download now? [Y/n]")
}

/// Whether an answer is yes, which is also what no words mean.
fn is_yes(answer: &str) -> bool {
    ["", "y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

fn fetch(hub: &Hub, plan: &Plan) -> Result<PathBuf> {
    let interrupt = Interrupt::listen().context("listening for Ctrl-C")?;
    let mut shown = Shown::new(plan);
    let result = hub.fetch(plan, &mut |progress| {
        shown.update(progress);
        interrupt.asked()
    });
    shown.finish();
    match result {
        Ok(snapshot) => Ok(snapshot),
        Err(error @ Error::Cancelled) => Err(error.into()),
        Err(error) => Err(error).with_context(|| format!("fetching `{}`", plan.id)),
    }
}

/// While it lives, the first Ctrl-C asks the download to stop and the second ends the program.
struct Interrupt {
    asked: Arc<AtomicBool>,
    handlers: Vec<signal_hook::SigId>,
}

impl Interrupt {
    fn listen() -> io::Result<Self> {
        use signal_hook::consts::SIGINT;
        use signal_hook::flag;
        let asked = Arc::new(AtomicBool::new(false));
        let mut interrupt = Self {
            asked: Arc::clone(&asked),
            handlers: Vec::new(),
        };
        // In this order: the second handler sets what the first one looks at.
        let exit = flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(&asked))?;
        interrupt.handlers.push(exit);
        interrupt.handlers.push(flag::register(SIGINT, asked)?);
        Ok(interrupt)
    }

    fn asked(&self) -> ControlFlow<()> {
        if self.asked.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}

/// The progress on standard error: a bar on a terminal, a line for each file elsewhere.
enum Shown {
    Bar(ProgressBar),
    Lines { last: Option<String> },
}

impl Shown {
    fn new(plan: &Plan) -> Self {
        if !Style::of_stderr().redraws {
            return Self::Lines { last: None };
        }
        let done = plan.files.iter().map(|file| file.done).sum();
        let total = plan.files.iter().map(|file| file.size).sum();
        // What is on disk already must not count as speed.
        let bar =
            ProgressBar::with_draw_target(Some(total), progress::target()).with_position(done);
        let style = ProgressStyle::with_template(
            "{wide_msg} {bar:20} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}",
        );
        bar.set_style(
            style
                .expect("the template is a constant")
                .progress_chars("=> "),
        );
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_millis(250));
        Self::Bar(bar)
    }

    fn update(&mut self, progress: &Progress) {
        match self {
            Self::Bar(bar) => {
                bar.set_position(progress.done);
                if bar.message() != progress.file {
                    bar.set_message(progress.file.clone());
                }
            }
            Self::Lines { last } => {
                if last.as_deref() != Some(&progress.file) {
                    note(&line(progress));
                    *last = Some(progress.file.clone());
                }
            }
        }
    }

    fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn line(progress: &Progress) -> String {
    let size = decimal_bytes(progress.file_total);
    match progress.file_done {
        0 => format!("fetching {} ({size})", progress.file),
        done => format!("fetching {} ({size}, from byte {done})", progress.file),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::*;

    fn hub(home: &Path, offline: bool) -> Hub {
        Hub::from_vars(|name| match name {
            "HF_HOME" => Some(home.as_os_str().to_owned()),
            "HF_HUB_OFFLINE" if offline => Some(OsString::from("1")),
            _ => None,
        })
        .unwrap()
    }

    #[test]
    fn a_model_that_is_not_here_is_an_error_that_says_how_to_get_it() {
        let home = tempfile::tempdir().unwrap();
        let looked_in = home.path().join("hub/models--openai--gpt-oss-20b");
        let model = "20b".parse().unwrap();
        let error = ensure(&model, &hub(home.path(), false), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`openai/gpt-oss-20b` is not on this machine; looked in `{}`; fetch it with \
                 `gptoss pull 20b`, or try the built-in toy with `--model tiny`",
                looked_in.display()
            )
        );
        let error = ensure(&model, &hub(home.path(), true), true).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`openai/gpt-oss-20b` is not on this machine; looked in `{}`; HF_HUB_OFFLINE is set, \
                 so nothing is fetched; unset it, or try the built-in toy with `--model tiny`",
                looked_in.display()
            )
        );
    }

    #[test]
    fn a_path_must_lead_to_a_directory() {
        let home = tempfile::tempdir().unwrap();
        let hub = hub(home.path(), false);
        let ensure = |path: PathBuf| {
            ensure(&ModelRef::Directory(path), &hub, false).map_err(|error| error.to_string())
        };
        assert_eq!(ensure(home.path().to_owned()), Ok(home.path().to_owned()));
        let gguf = home.path().join("model.gguf");
        assert!(
            ensure(gguf.clone())
                .unwrap_err()
                .starts_with("there is no directory")
        );
        std::fs::write(&gguf, "GGUF").unwrap();
        assert!(ensure(gguf).unwrap_err().contains("is a GGUF file"));
        let file = home.path().join("model.safetensors");
        std::fs::write(&file, "x").unwrap();
        assert!(
            ensure(file)
                .unwrap_err()
                .contains("is a file; give the directory")
        );
    }

    #[test]
    fn enter_and_yes_mean_yes() {
        for (answer, yes) in [
            ("\n", true),
            ("y\n", true),
            ("YES\r\n", true),
            ("n\n", false),
            ("no\n", false),
            ("what?\n", false),
        ] {
            assert_eq!(is_yes(answer), yes, "{answer:?}");
        }
    }

    #[test]
    fn the_hint_uses_the_short_name_only_where_it_means_the_same() {
        for (name, expected) in [
            ("20b", "20b"),
            ("openai/gpt-oss-120b", "120b"),
            ("openai/gpt-oss-20b@v1", "openai/gpt-oss-20b@v1"),
            ("unsloth/gpt-oss-20b", "unsloth/gpt-oss-20b"),
        ] {
            assert_eq!(short(&name.parse().unwrap()), expected);
        }
    }
}
