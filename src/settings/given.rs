//! What one source says. One table reads every source: keys are the same everywhere, and so are the checks.

use std::ffi::OsString;

use super::number::{self, SIZE};
use super::{COMPUTE, Choice, DENSE, Error, KV_TYPES, Named, Settings, Source, ThemeName};
use crate::session::{Compute, Dense, DeviceChoice, KvType, Reasoning, Sampling};

/// Every setting: the key of the configuration file, and `--key` where there is a flag.
pub const KEYS: [&str; 23] = [
    "model",
    "system",
    "reasoning",
    "temperature",
    "top-k",
    "top-p",
    "min-p",
    "repetition-penalty",
    "seed",
    "max-tokens",
    "context",
    "kv-type",
    "device",
    "gpu-layers",
    "gpu-memory",
    "compute",
    "dense",
    "kernels",
    "threads",
    "theme",
    "mouse",
    "save",
    "show-thinking",
];

/// The environment variable of a setting: `GPTOSS_TOP_K` for `top-k`.
pub fn variable(key: &str) -> String {
    format!("GPTOSS_{}", key.to_ascii_uppercase().replace('-', "_"))
}

/// Variables that are no settings.
const OTHER_VARIABLES: [&str; 3] = ["GPTOSS_CONFIG", "GPTOSS_STATE_DIR", "GPTOSS_CACHE_DIR"];

/// More threads than any machine has cores; the system would be asked for each of them.
pub const MOST_THREADS: usize = 4096;

/// Refuses variables that begin as ours and mean nothing; empty ones say nothing.
pub(super) fn check_variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(), Error> {
    let known: Vec<String> = KEYS
        .iter()
        .map(|key| variable(key))
        .chain(OTHER_VARIABLES.map(str::to_owned))
        .collect();
    let unknown = variables
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("GPTOSS_") && !known.contains(name))
        .min();
    let Some(name) = unknown else { return Ok(()) };
    let nearest = known.iter().min_by_key(|known| distance(known, &name));
    let problem = match nearest.filter(|known| distance(known, &name) <= 4) {
        Some(nearest) => format!("there is no such setting; {nearest} is the nearest"),
        None => "there is no such setting; unset it".to_owned(),
    };
    Err(Error::Variable { name, problem })
}

/// How many characters must be put in, left out or replaced to make `b` of `a` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// What a source says; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Given {
    pub model: Option<String>,
    pub system: Option<String>,
    pub reasoning: Option<Reasoning>,
    pub temperature: Option<f32>,
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub seed: Option<u64>,
    pub max_tokens: Option<usize>,
    pub context: Option<usize>,
    pub context_source: Option<Source>,
    pub kv_type: Option<KvType>,
    pub device: Option<DeviceChoice>,
    pub gpu_layers: Option<usize>,
    pub gpu_memory: Option<u64>,
    pub compute: Option<Choice<Compute>>,
    pub dense: Option<Dense>,
    pub kernels: Option<Choice<String>>,
    pub threads: Option<usize>,
    pub theme: Option<ThemeName>,
    pub mouse: Option<bool>,
    pub save: Option<bool>,
    pub show_thinking: Option<bool>,
}

/// A value as a source has it.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A string of a file.
    Text(String),
    /// A number, a switch or a date of a file.
    Literal(String),
    /// What no setting is: a list, a table.
    Other(&'static str),
    /// A variable, where everything is text.
    Variable(String),
}

impl Given {
    /// What `self` says, and `other` where it says nothing.
    pub fn or(self, other: Self) -> Self {
        Self {
            model: self.model.or(other.model),
            system: self.system.or(other.system),
            reasoning: self.reasoning.or(other.reasoning),
            temperature: self.temperature.or(other.temperature),
            top_k: self.top_k.or(other.top_k),
            top_p: self.top_p.or(other.top_p),
            min_p: self.min_p.or(other.min_p),
            repetition_penalty: self.repetition_penalty.or(other.repetition_penalty),
            seed: self.seed.or(other.seed),
            max_tokens: self.max_tokens.or(other.max_tokens),
            context: self.context.or(other.context),
            context_source: self.context_source.or(other.context_source),
            kv_type: self.kv_type.or(other.kv_type),
            device: self.device.or(other.device),
            gpu_layers: self.gpu_layers.or(other.gpu_layers),
            gpu_memory: self.gpu_memory.or(other.gpu_memory),
            compute: self.compute.or(other.compute),
            dense: self.dense.or(other.dense),
            kernels: self.kernels.or(other.kernels),
            threads: self.threads.or(other.threads),
            theme: self.theme.or(other.theme),
            mouse: self.mouse.or(other.mouse),
            save: self.save.or(other.save),
            show_thinking: self.show_thinking.or(other.show_thinking),
        }
    }

    /// The sampling values, defaults where nothing is said; flags are not validated yet.
    pub fn sampling(&self) -> Sampling {
        let default = Sampling::default();
        Sampling {
            temperature: self.temperature.unwrap_or(default.temperature),
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            min_p: self.min_p.unwrap_or(default.min_p),
            repetition_penalty: self
                .repetition_penalty
                .unwrap_or(default.repetition_penalty),
            seed: self.seed.or(default.seed),
        }
    }

    /// Everything, defaults where nothing is said.
    pub fn settings(self) -> Settings {
        let default = Settings::default();
        Settings {
            sampling: self.sampling(),
            model: self.model.unwrap_or(default.model),
            system: self.system.filter(|text| !text.trim().is_empty()),
            reasoning: self.reasoning.unwrap_or(default.reasoning),
            max_tokens: self.max_tokens,
            context: self.context,
            context_source: self.context_source.unwrap_or(default.context_source),
            kv_type: self.kv_type.unwrap_or(default.kv_type),
            device: self.device.unwrap_or(default.device),
            gpu_layers: self.gpu_layers,
            gpu_memory: self.gpu_memory,
            compute: self.compute.and_then(Choice::chosen),
            dense: self.dense.unwrap_or(default.dense),
            kernels: self.kernels.and_then(Choice::chosen),
            threads: self.threads,
            theme: self.theme.unwrap_or(default.theme),
            mouse: self.mouse.unwrap_or(default.mouse),
            save: self.save.unwrap_or(default.save),
            show_thinking: self.show_thinking.unwrap_or(default.show_thinking),
        }
    }

    /// What the variables `GPTOSS_*` say; empty ones say nothing.
    pub(super) fn from_env(env: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let mut given = Self::default();
        for key in KEYS {
            let name = variable(key);
            let Some(value) = env(&name).filter(|value| !value.is_empty()) else {
                continue;
            };
            value
                .into_string()
                .map_err(|value| format!("`{}` is not UTF-8", value.display()))
                .and_then(|text| given.set(key, Value::Variable(text)))
                .map_err(|problem| Error::Variable { name, problem })?;
        }
        Ok(given)
    }

    /// Takes the value of a key, checked; a problem says what was expected.
    pub(super) fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match key {
            "model" => self.model = Some(value.non_empty(key, "the name of a model")?),
            "system" => self.system = Some(value.text(key)?),
            "reasoning" => {
                self.reasoning = Some(value.one_of(key, &Reasoning::ALL.map(|x| (x.as_str(), x)))?);
            }
            "temperature" => {
                self.temperature = Some(value.sampling(key, |all, x| all.temperature = x)?);
            }
            "top-k" => self.top_k = Some(value.whole(key, 0)?),
            "top-p" => self.top_p = Some(value.sampling(key, |all, x| all.top_p = x)?),
            "min-p" => self.min_p = Some(value.sampling(key, |all, x| all.min_p = x)?),
            "repetition-penalty" => {
                self.repetition_penalty =
                    Some(value.sampling(key, |all, x| all.repetition_penalty = x)?);
            }
            "seed" => self.seed = Some(value.whole(key, 0)?),
            "max-tokens" => self.max_tokens = Some(value.whole(key, 1)?),
            "context" => self.context = Some(value.whole(key, 1)?),
            "kv-type" => self.kv_type = Some(value.named(key, KV_TYPES)?),
            "device" => {
                let text = value.clone().text(key)?;
                let choice = text.parse();
                self.device = Some(choice.map_err(|_| value.wrong(key, DeviceChoice::EXPECTED))?);
            }
            "gpu-layers" => self.gpu_layers = Some(value.whole(key, 0)?),
            "gpu-memory" => self.gpu_memory = Some(value.size(key)?),
            "compute" => self.compute = Some(value.named(key, COMPUTE)?),
            "dense" => self.dense = Some(value.named(key, DENSE)?),
            "kernels" => {
                let name = value.non_empty(key, "\"auto\" or the name of a set")?;
                self.kernels = Some(name.as_str().into());
            }
            "threads" => self.threads = Some(value.threads(key)?),
            "theme" => {
                self.theme = Some(value.one_of(key, &ThemeName::ALL.map(|x| (x.as_str(), x)))?);
            }
            "mouse" => self.mouse = Some(value.switch(key)?),
            "save" => self.save = Some(value.switch(key)?),
            "show-thinking" => self.show_thinking = Some(value.switch(key)?),
            _ => {
                return Err(format!(
                    "there is no setting `{key}`: expected {}",
                    listed(&KEYS)
                ));
            }
        }
        Ok(())
    }
}

impl Value {
    fn wrong(&self, key: &str, expected: &str) -> String {
        let found = match self {
            Self::Text(text) => format!("\"{text}\""),
            Self::Literal(text) => text.clone(),
            Self::Variable(text) => format!("`{text}`"),
            Self::Other(kind) => (*kind).to_owned(),
        };
        format!("`{key}` is {found}, expected {expected}")
    }

    fn text(self, key: &str) -> Result<String, String> {
        match self {
            Self::Text(text) | Self::Variable(text) => Ok(text),
            Self::Literal(_) | Self::Other(_) => Err(self.wrong(key, "text in quotes")),
        }
    }

    fn non_empty(self, key: &str, expected: &str) -> Result<String, String> {
        let text = self.text(key)?;
        if text.trim().is_empty() {
            return Err(format!("`{key}` is empty, expected {expected}"));
        }
        Ok(text)
    }

    fn named<T: Copy>(self, key: &str, known: &[Named<T>]) -> Result<T, String> {
        let known: Vec<_> = known
            .iter()
            .map(|(name, value, _)| (*name, *value))
            .collect();
        self.one_of(key, &known)
    }

    fn one_of<T: Copy>(self, key: &str, known: &[(&str, T)]) -> Result<T, String> {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let text = self.clone().text(key).ok();
        known
            .iter()
            .find(|(name, _)| Some(*name) == text.as_deref())
            .map(|(_, value)| *value)
            .ok_or_else(|| self.wrong(key, &quoted(&names, &self)))
    }

    /// The text of what may be a number; of what cannot be one it is empty.
    fn number(&self) -> &str {
        match self {
            Self::Literal(text) | Self::Variable(text) => text.trim(),
            Self::Text(_) | Self::Other(_) => "",
        }
    }

    fn whole<T: TryFrom<u64>>(self, key: &str, least: u64) -> Result<T, String> {
        number::whole(self.number(), least).map_err(|expected| self.wrong(key, &expected))
    }

    fn threads(self, key: &str) -> Result<usize, String> {
        number::within(self.number(), 1..=MOST_THREADS)
            .map_err(|expected| self.wrong(key, &expected))
    }

    fn size(self, key: &str) -> Result<u64, String> {
        match &self {
            Self::Text(text) | Self::Literal(text) | Self::Variable(text) => number::size(text),
            Self::Other(_) => Err(SIZE.to_owned()),
        }
        .map_err(|expected| self.wrong(key, &expected))
    }

    /// A value of [`Sampling`], checked as such.
    fn sampling(self, key: &str, set: impl FnOnce(&mut Sampling, f32)) -> Result<f32, String> {
        let number =
            number::decimal(self.number()).map_err(|expected| self.wrong(key, &expected))?;
        let mut sampling = Sampling::default();
        set(&mut sampling, number);
        match sampling.validate() {
            Ok(()) => Ok(number),
            Err(error) => Err(error.to_string()),
        }
    }

    fn switch(self, key: &str) -> Result<bool, String> {
        match &self {
            Self::Literal(text) if text == "true" => Ok(true),
            Self::Literal(text) if text == "false" => Ok(false),
            Self::Variable(text) => match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Ok(true),
                "0" | "false" | "no" | "off" => Ok(false),
                _ => Err(self.wrong(key, "true or false")),
            },
            _ => Err(self.wrong(key, "true or false (without quotes)")),
        }
    }
}

/// `a`, `b` or `c`, as a file or a variable would have them.
fn quoted(names: &[&str], value: &Value) -> String {
    if let Value::Variable(_) = value {
        return listed(names);
    }
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    listed(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
    }
}
