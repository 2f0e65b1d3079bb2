//! Flags, environment, configuration file, defaults: in this order.
//!
//! Every source gives a [`Given`] of what it says; [`gather`] lays them over one another, and
//! [`Given::settings`] fills what nobody said with the defaults.

mod file;
mod given;
mod number;
mod paths;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

pub use given::{Given, KEYS, MOST_THREADS, variable};
pub use number::{decimal, size, whole, within};
pub use paths::Paths;

use crate::session::{Compute, Dense, DeviceChoice, KvType, Reasoning, Sampling};

/// The commented configuration file that says what the defaults are.
pub const DEFAULT_CONFIG: &str = include_str!("../assets/config.toml");

/// The model where nobody names one.
pub const DEFAULT_MODEL: &str = "20b";

/// How the chat looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// The terminal's own colours.
    #[default]
    Standard,
    /// Nothing dim, nothing pale.
    HighContrast,
    /// No colour.
    Plain,
}

impl ThemeName {
    /// All themes.
    pub const ALL: [Self; 3] = [Self::Standard, Self::HighContrast, Self::Plain];

    /// As flags and files have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::HighContrast => "high-contrast",
            Self::Plain => "plain",
        }
    }
}

/// A value of a setting: its name, itself, and what the help says of it.
pub type Named<T> = (&'static str, T, &'static str);

/// How the history may be kept.
pub const KV_TYPES: &[Named<KvType>] = &[
    ("bf16", KvType::Bf16, "BFloat16"),
    ("f32", KvType::F32, "Twice the memory, nothing rounded"),
    ("q8", KvType::Q8, "Half the memory, a scale for each head"),
];

/// How products may be computed.
pub const COMPUTE: &[Named<Choice<Compute>>] = &[
    (
        "auto",
        Choice::Auto,
        "The fastest that is no further from f32 than the official model in BFloat16",
    ),
    ("f32", Choice::Only(Compute::F32), "Exact"),
    (
        "bf16",
        Choice::Only(Compute::Bf16),
        "Activations rounded to BFloat16",
    ),
    (
        "int16",
        Choice::Only(Compute::Int16),
        "Activations rounded to 15 bits with a scale for each 32",
    ),
    (
        "int8",
        Choice::Only(Compute::Int8),
        "Activations rounded to 8 bits with a scale for each 32, as llama.cpp does",
    ),
];

/// How the dense weights (attention, embedding and output) may be kept.
pub const DENSE: &[Named<Dense>] = &[
    ("bf16", Dense::Bf16, "As published, read from the file"),
    (
        "q8",
        Dense::Q8,
        "Rounded at load to 8 bits, as in GGUF Q8_0: faster, in memory beside the file",
    ),
];

/// What may be left to the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice<T> {
    /// The program chooses.
    #[default]
    Auto,
    /// This one.
    Only(T),
}

impl<T> Choice<T> {
    /// What was chosen, if the program is not to choose.
    pub fn chosen(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Only(value) => Some(value),
        }
    }
}

impl From<&str> for Choice<String> {
    fn from(name: &str) -> Self {
        match name {
            "auto" => Self::Auto,
            name => Self::Only(name.to_owned()),
        }
    }
}

/// Who said what a setting is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    #[default]
    Flag,
    /// The environment.
    Variable,
    /// The configuration file.
    File,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, clippy::struct_excessive_bools)]
pub struct Settings {
    pub model: String,
    pub system: Option<String>,
    pub reasoning: Reasoning,
    pub sampling: Sampling,
    pub max_tokens: Option<usize>,
    pub context: Option<usize>,
    /// Who said it, for errors: what the model holds is known later.
    pub context_source: Source,
    pub kv_type: KvType,
    pub device: DeviceChoice,
    /// Layers whose experts a GPU holds; `None`: as many as fit.
    pub gpu_layers: Option<usize>,
    /// The most bytes of a GPU's memory to plan with; `None`: all that it has.
    pub gpu_memory: Option<u64>,
    pub compute: Option<Compute>,
    pub dense: Dense,
    /// A set of CPU kernels by name.
    pub kernels: Option<String>,
    pub threads: Option<usize>,
    pub theme: ThemeName,
    /// The mouse wheel scrolls (and the terminal's selection needs Shift).
    pub mouse: bool,
    /// Conversations are written to the state directory.
    pub save: bool,
    /// Thinking is unfolded.
    pub show_thinking: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: DEFAULT_MODEL.to_owned(),
            system: None,
            reasoning: Reasoning::default(),
            sampling: Sampling::default(),
            max_tokens: None,
            context: None,
            context_source: Source::default(),
            kv_type: KvType::default(),
            device: DeviceChoice::default(),
            gpu_layers: None,
            gpu_memory: None,
            compute: None,
            dense: Dense::default(),
            kernels: None,
            threads: None,
            theme: ThemeName::default(),
            mouse: true,
            save: true,
            show_thinking: false,
        }
    }
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No directory to look in.
    #[error("the home directory is not known: set HOME, or {variable}")]
    Home {
        /// The variable that does without a home.
        variable: &'static str,
    },
    /// The file is there and cannot be read.
    #[error("cannot read the configuration `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file says something that cannot be meant.
    #[error("`{}`, line {line}: {problem}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// A variable says something that cannot be meant.
    #[error("the environment variable {name}: {problem}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong and what was expected.
        problem: String,
    },
}

/// A configuration file.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// Its path, for errors.
    pub path: &'a Path,
    /// Its content.
    pub text: &'a str,
}

/// What flags, environment and configuration file say together; the earlier ones win.
///
/// `NO_COLOR` asks for the plain theme, and only a flag says otherwise.
///
/// # Errors
/// [`Error::Config`] and [`Error::Variable`].
pub fn gather(
    flags: Given,
    env: impl Fn(&str) -> Option<OsString>,
    config: Option<Config>,
) -> Result<Given, Error> {
    let file = config.map_or_else(|| Ok(Given::default()), file::read)?;
    let no_color = Given {
        theme: env("NO_COLOR")
            .filter(|value| !value.is_empty())
            .map(|_| ThemeName::Plain),
        ..Given::default()
    };
    let environment = Given::from_env(&env)?;
    let context_source = match (flags.context, environment.context, file.context) {
        (Some(_), ..) => Some(Source::Flag),
        (None, Some(_), _) => Some(Source::Variable),
        (None, None, Some(_)) => Some(Source::File),
        (None, None, None) => None,
    };
    Ok(Given {
        context_source,
        ..flags.or(no_color).or(environment).or(file)
    })
}

/// [`gather`], and the defaults for the rest.
///
/// # Errors
/// As [`gather`].
pub fn resolve(
    flags: Given,
    env: impl Fn(&str) -> Option<OsString>,
    config: Option<Config>,
) -> Result<Settings, Error> {
    gather(flags, env, config).map(Given::settings)
}

/// [`gather`] with the environment of this process and the configuration file it names.
///
/// # Errors
/// As [`gather`]; [`Error::Read`] where the file is there and cannot be read. A file that is not there
/// says nothing, unless `GPTOSS_CONFIG` names it.
pub fn load(flags: Given) -> Result<Given, Error> {
    let env = |name: &str| std::env::var_os(name);
    given::check_variables(std::env::vars_os())?;
    let Some(path) = Paths::config(&env) else {
        return gather(flags, env, None);
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => gather(
            flags,
            env,
            Some(Config {
                path: &path,
                text: &text,
            }),
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !Paths::config_is_chosen(&env) => {
            gather(flags, env, None)
        }
        Err(source) => Err(Error::Read { path, source }),
    }
}

#[cfg(test)]
mod tests;
