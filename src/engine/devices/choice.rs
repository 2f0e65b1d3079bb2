//! What `--device` takes.

use std::fmt;
use std::str::FromStr;

use super::Api;

/// Which device is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The best that there is and the model fits.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// A device of that API: this one, or the best of them.
    Gpu(Api, Option<usize>),
}

impl Choice {
    /// What is accepted.
    pub const EXPECTED: &str =
        "auto, cpu, vulkan, metal or cuda; a number chooses among several: vulkan:1";

    /// Asks for something other than the CPU by name.
    pub const fn is_gpu(&self) -> bool {
        matches!(self, Self::Gpu(..))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(api, None) => f.write_str(api.name()),
            Self::Gpu(api, Some(index)) => write!(f, "{}:{index}", api.name()),
        }
    }
}

/// A text that is no [`Choice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", Choice::EXPECTED)]
pub struct NoChoice;

impl FromStr for Choice {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Self, NoChoice> {
        match text {
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            _ => {}
        }
        let (name, index) = match text.split_once(':') {
            Some((name, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => {
                (name, Some(index.parse().map_err(|_| NoChoice)?))
            }
            Some(_) => return Err(NoChoice),
            None => (text, None),
        };
        let api = Api::ALL.into_iter().find(|api| api.name() == name);
        Ok(Self::Gpu(api.ok_or(NoChoice)?, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_shown() {
        for text in ["auto", "cpu", "vulkan", "metal:0", "cuda", "cuda:12"] {
            let choice: Choice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
        }
        for text in [
            "",
            "gpu",
            "Vulkan",
            "cpu:0",
            "auto:1",
            "vulkan:",
            "vulkan:x",
            "vulkan:-1",
            "vulkan:+1",
            "cuda:1:2",
            "cuda:99999999999999999999",
        ] {
            assert_eq!(text.parse::<Choice>(), Err(NoChoice), "{text}");
        }
    }
}
