//! Which tests are run: what was asked for, or of the defaults what the context holds.

use std::fmt::Display;

use crate::cli::error::Failure;

const PROMPT: [usize; 2] = [128, 512];
const GENERATE: [usize; 1] = [64];
const DEPTH: [usize; 2] = [0, 2048];

/// Lengths and depths as given; `None` where the defaults are to be taken.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// `--prompt`
    pub prompt: Option<Vec<usize>>,
    /// `--gen`
    pub generate: Option<Vec<usize>>,
    /// `--depth`
    pub depth: Option<Vec<usize>>,
}

/// Lengths and depths that fit the context in every combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Tokens to prefill.
    pub prompt: Vec<usize>,
    /// Tokens to decode.
    pub generate: Vec<usize>,
    /// Tokens before them, rising.
    pub depth: Vec<usize>,
    /// What of the defaults does not fit.
    pub left_out: Option<String>,
}

impl Plan {
    /// The plan for a context of `context` tokens.
    ///
    /// # Errors
    /// When something that was asked for does not fit.
    pub fn new(asked: &Asked, context: usize) -> Result<Self, Failure> {
        let mut left_out = Vec::new();
        for &depth in asked.depth.iter().flatten() {
            if depth >= context {
                let range = format!("0 to {}", context - 1);
                return Err(too_long("--depth", depth, &range, context));
            }
        }
        let deepest = asked.depth.iter().flatten().copied().max().unwrap_or(0);
        let room = context - deepest;
        let lengths = |flag: &str,
                       given: &Option<Vec<usize>>,
                       defaults: &[usize],
                       left_out: &mut Vec<String>| {
            let Some(given) = given else {
                let fitting: Vec<usize> = only(defaults, |&n| n <= room, flag, left_out);
                return Ok(if fitting.is_empty() {
                    vec![room]
                } else {
                    fitting
                });
            };
            match given.iter().find(|&&n| n > room) {
                Some(&n) if deepest == 0 => {
                    Err(too_long(flag, n, &format!("1 to {room}"), context))
                }
                Some(&n) => {
                    let range = format!("1 to {room} after --depth {deepest}");
                    Err(too_long(flag, n, &range, context))
                }
                None => Ok(unique(given)),
            }
        };
        let prompt = lengths("--prompt", &asked.prompt, &PROMPT, &mut left_out)?;
        let generate = lengths("--gen", &asked.generate, &GENERATE, &mut left_out)?;
        let longest = prompt.iter().chain(&generate).copied().max().unwrap_or(0);
        let depth = match &asked.depth {
            Some(given) => {
                let mut depth = unique(given);
                depth.sort_unstable();
                depth
            }
            None => only(
                &DEPTH,
                |&n| n + longest <= context,
                "--depth",
                &mut left_out,
            ),
        };
        Ok(Self {
            prompt,
            generate,
            depth,
            left_out: (!left_out.is_empty()).then(|| {
                format!(
                    "left out, the context holds {context} tokens: {}",
                    left_out.join(", ")
                )
            }),
        })
    }

    /// Positions that the longest test reaches.
    pub fn positions(&self) -> usize {
        let longest = self.prompt.iter().chain(&self.generate).copied().max();
        longest.unwrap_or(0) + self.depth.last().copied().unwrap_or(0)
    }
}

fn too_long(flag: &str, value: impl Display, range: &str, context: usize) -> Failure {
    Failure::usage(
        format!(
            "{flag} {value} is more than the context of {context} tokens holds, expected {range}"
        ),
        "--context N makes it shorter, never longer than the model allows",
    )
}

/// The defaults that fit; the others are noted.
fn only(
    defaults: &[usize],
    fits: impl Fn(&usize) -> bool,
    flag: &str,
    left_out: &mut Vec<String>,
) -> Vec<usize> {
    let (fitting, others): (Vec<usize>, Vec<usize>) = defaults.iter().copied().partition(fits);
    left_out.extend(others.iter().map(|n| format!("{flag} {n}")));
    fitting
}

/// Each number once, in the order given.
fn unique(numbers: &[usize]) -> Vec<usize> {
    let mut unique = Vec::new();
    for number in numbers {
        if !unique.contains(number) {
            unique.push(*number);
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(prompt: &[usize], generate: &[usize], depth: &[usize]) -> Asked {
        let given = |list: &[usize]| (!list.is_empty()).then(|| list.to_vec());
        Asked {
            prompt: given(prompt),
            generate: given(generate),
            depth: given(depth),
        }
    }

    fn plan(prompt: &[usize], generate: &[usize], depth: &[usize], left_out: Option<&str>) -> Plan {
        Plan {
            prompt: prompt.to_vec(),
            generate: generate.to_vec(),
            depth: depth.to_vec(),
            left_out: left_out.map(str::to_owned),
        }
    }

    #[test]
    fn takes_the_defaults_or_what_is_asked_for() {
        let defaults = Plan::new(&Asked::default(), 131_072).unwrap();
        assert_eq!(defaults, plan(&[128, 512], &[64], &[0, 2048], None));
        assert_eq!(defaults.positions(), 2560);
        let given = asked(&[512, 128, 512], &[64, 8], &[8192, 0]);
        let expected = plan(&[512, 128], &[64, 8], &[0, 8192], None);
        assert_eq!(Plan::new(&given, 131_072).unwrap(), expected);
        assert_eq!(expected.positions(), 8704);
    }

    #[test]
    fn cuts_the_defaults_down_to_what_the_context_holds_and_says_so() {
        let of = |asked: &Asked, context| Plan::new(asked, context).unwrap();
        assert_eq!(
            of(&Asked::default(), 512),
            plan(
                &[128, 512],
                &[64],
                &[0],
                Some("left out, the context holds 512 tokens: --depth 2048")
            )
        );
        let left_out = "left out, the context holds 40 tokens: --prompt 128, --prompt 512, --gen 64, --depth 2048";
        assert_eq!(
            of(&Asked::default(), 40),
            plan(&[40], &[40], &[0], Some(left_out))
        );
        let left_out = "left out, the context holds 1000 tokens: --prompt 512";
        assert_eq!(
            of(&asked(&[], &[10], &[600, 700]), 1000),
            plan(&[128], &[10], &[600, 700], Some(left_out))
        );
    }

    #[test]
    fn refuses_what_does_not_fit_with_flag_value_and_range() {
        let refused = |asked: &Asked| Plan::new(asked, 4096).unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                refused(&asked(&[128, 4097], &[], &[])),
                refused(&asked(&[], &[5000], &[0])),
                refused(&asked(&[], &[], &[4096])),
                refused(&asked(&[512], &[], &[0, 4000])),
            ]
            .join("\n"),
            @r"
        --prompt 4097 is more than the context of 4096 tokens holds, expected 1 to 4096
        --gen 5000 is more than the context of 4096 tokens holds, expected 1 to 4096
        --depth 4096 is more than the context of 4096 tokens holds, expected 0 to 4095
        --prompt 512 is more than the context of 4096 tokens holds, expected 1 to 96 after --depth 4000
        "
        );
    }
}
