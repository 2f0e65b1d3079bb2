//! Logits to token id: repetition penalty, temperature, top-k, top-p, min-p, and a seeded draw.
#![allow(
    clippy::float_cmp,
    reason = "values that switch a step off are compared as they were given"
)]

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use rand::rngs::SysRng;
use rand::{RngExt, SeedableRng, TryRng};
use rand_chacha::ChaCha8Rng;

use super::Error;

/// The values that choose a token. The defaults are what OpenAI recommends for gpt-oss.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 is argmax.
    pub temperature: f32,
    /// Keeps this many of the likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the likeliest tokens until they hold this much of the probability.
    pub top_p: f32,
    /// Keeps tokens of at least this share of the likeliest one's probability.
    pub min_p: f32,
    /// Divides positive logits, and multiplies negative ones, of tokens that occurred; 1 is off.
    /// "CTRL: A Conditional Transformer Language Model", arXiv 1909.05858, section 4.1.
    pub repetition_penalty: f32,
    /// The same seed gives the same tokens; `None` draws one from the system.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: None,
        }
    }
}

impl Sampling {
    /// Argmax.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            ..Self::default()
        }
    }

    /// Checks every value against its interval.
    ///
    /// # Errors
    /// [`Error::Sampling`] with the name, the value and the accepted interval.
    pub fn validate(&self) -> Result<(), Error> {
        let check =
            |name, value: f32, accepted: RangeInclusive<f32>, open_start: bool, expected| {
                if accepted.contains(&value) && !(open_start && value == *accepted.start()) {
                    Ok(())
                } else {
                    Err(Error::Sampling {
                        name,
                        value: value.to_string(),
                        expected,
                    })
                }
            };
        check(
            "temperature",
            self.temperature,
            0.0..=100.0,
            false,
            "0 (the likeliest token) to 100",
        )?;
        check(
            "top-p",
            self.top_p,
            0.0..=1.0,
            true,
            "above 0, at most 1 (keeps all)",
        )?;
        check("min-p", self.min_p, 0.0..=1.0, false, "0 (keeps all) to 1")?;
        check(
            "repetition-penalty",
            self.repetition_penalty,
            0.0..=100.0,
            true,
            "above 0, at most 100; 1 is off",
        )
    }
}

/// What a [`Sampler`] chooses by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// So many of the [`likeliest`] tokens, for [`Sampler::sample_likeliest`].
    Likeliest(usize),
    /// [`draw`] with the [`Sampler::next_draw`].
    Draw,
    /// All logits, for [`Sampler::sample`].
    All,
}

/// One draw among all tokens by their probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Divides the logits; above 0.
    pub temperature: f32,
    /// Tokens of less than this share of the likeliest one's probability are left out.
    pub min_p: f32,
    /// The share of the probability that is passed over, from 0 to below 1.
    pub at: f64,
}

/// Draws tokens; owns the random state of one generation.
pub struct Sampler {
    sampling: Sampling,
    seed: u64,
    rng: ChaCha8Rng,
    /// Token ids with their logits, later probabilities; kept between draws for its memory.
    candidates: Vec<(u32, f32)>,
}

impl Sampler {
    /// A sampler at the start of its random sequence.
    ///
    /// # Errors
    /// [`Error::Sampling`] for a value outside its interval.
    pub fn new(sampling: Sampling) -> Result<Self, Error> {
        sampling.validate()?;
        let seed = match sampling.seed {
            Some(seed) => seed,
            None => SysRng
                .try_next_u64()
                .map_err(|error| Error::Device(format!("no random seed: {error}")))?,
        };
        Ok(Self {
            sampling,
            seed,
            rng: ChaCha8Rng::seed_from_u64(seed),
            candidates: Vec::new(),
        })
    }

    /// The seed in use, given or drawn.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// What of the logits decides: the least of it that does.
    pub const fn needs(&self) -> Needs {
        if self.sampling.repetition_penalty != 1.0 {
            Needs::All
        } else if self.sampling.temperature == 0.0 {
            Needs::Likeliest(1)
        } else if self.sampling.top_k > 0 {
            Needs::Likeliest(self.sampling.top_k)
        } else if self.sampling.top_p < 1.0 {
            Needs::All
        } else {
            Needs::Draw
        }
    }

    /// The next draw of the random sequence: with it [`draw`] gives what [`sample`](Self::sample) would, where that is
    /// all a sampler [`needs`](Self::needs).
    pub fn next_draw(&mut self) -> Draw {
        Draw {
            temperature: self.sampling.temperature,
            min_p: self.sampling.min_p,
            at: self.rng.random(),
        }
    }

    /// Chooses a token id by `logits`, `[vocab]`, all finite. `history` is what the repetition penalty looks at.
    pub fn sample(&mut self, logits: &mut [f32], history: &[u32]) -> u32 {
        if self.sampling.repetition_penalty != 1.0 {
            penalise(logits, history, self.sampling.repetition_penalty);
        }
        if self.sampling.temperature == 0.0 {
            return argmax(logits);
        }
        self.candidates.clear();
        self.candidates.extend((0..).zip(logits.iter().copied()));
        self.draw_candidate()
    }

    /// Chooses among the [`likeliest`] tokens, at least as many as the sampler [`needs`](Self::needs), as
    /// [`sample`](Self::sample) does among all.
    pub fn sample_likeliest(&mut self, likeliest: &[(u32, f32)]) -> u32 {
        if self.sampling.temperature == 0.0 {
            return likeliest[0].0;
        }
        self.candidates.clear();
        self.candidates.extend(likeliest);
        self.draw_candidate()
    }

    /// Draws one of the candidates, ids with their logits.
    fn draw_candidate(&mut self) -> u32 {
        self.keep_candidates();
        pick(self.candidates.iter().copied(), self.rng.random())
    }

    /// Leaves of `candidates` the tokens that may be drawn, with their unnormalised probabilities: the likeliest is 1.
    fn keep_candidates(&mut self) {
        let Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            ..
        } = self.sampling;
        let candidates = &mut self.candidates;
        if top_k > 0 && top_k < candidates.len() {
            candidates.select_nth_unstable_by(top_k, likeliest_first);
            candidates.truncate(top_k);
        }
        if top_k > 0 || top_p < 1.0 {
            candidates.sort_unstable_by(likeliest_first);
        }

        let largest = candidates
            .iter()
            .fold(f32::NEG_INFINITY, |largest, &(_, logit)| largest.max(logit));
        for (_, value) in candidates.iter_mut() {
            *value = ((*value - largest) / temperature).exp();
        }
        if top_p < 1.0 {
            let total: f64 = candidates.iter().map(|&(_, p)| f64::from(p)).sum();
            let mut held = 0.0;
            let keep = candidates.iter().position(|&(_, p)| {
                held += f64::from(p);
                held >= f64::from(top_p) * total
            });
            candidates.truncate(keep.map_or(candidates.len(), |last| last + 1));
        }
        if min_p > 0.0 {
            candidates.retain(|&(_, p)| p >= min_p);
        }
    }
}

/// The first id at which the probabilities, in their order and of any sum, pass the share `at` of that sum.
fn pick(probabilities: impl DoubleEndedIterator<Item = (u32, f32)> + Clone, at: f64) -> u32 {
    let total: f64 = probabilities.clone().map(|(_, p)| f64::from(p)).sum();
    let mut left = at * total;
    for (id, p) in probabilities.clone() {
        left -= f64::from(p);
        if left < 0.0 {
            return id;
        }
    }
    // Rounding may leave a remainder at the very end.
    let mut backwards = probabilities.rev();
    backwards.find(|(_, p)| *p > 0.0).map_or(0, |(id, _)| id)
}

/// The first id, in the order of ids, at which the softmax of `logits / temperature`, `[vocab]`, passes
/// [`at`](Draw::at), tokens below [`min_p`](Draw::min_p) left out; `None` where a logit is not finite. Probabilities,
/// unnormalised, take the place of the logits.
pub fn draw(logits: &mut [f32], draw: Draw) -> Option<u32> {
    if !logits.iter().all(|logit| logit.is_finite()) {
        return None;
    }
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for value in logits.iter_mut() {
        let p = ((*value - largest) / draw.temperature).exp();
        *value = if p >= draw.min_p { p } else { 0.0 };
    }
    let ids = 0..logits.len() as u32;
    Some(pick(ids.zip(logits.iter().copied()), draw.at))
}

/// Makes tokens of `history` less likely, each once.
fn penalise(logits: &mut [f32], history: &[u32], penalty: f32) {
    let mut seen = history.to_vec();
    seen.sort_unstable();
    seen.dedup();
    for id in seen {
        if let Some(logit) = logits.get_mut(id as usize) {
            *logit = if *logit > 0.0 {
                *logit / penalty
            } else {
                *logit * penalty
            };
        }
    }
}

/// Falling by logit; equal ones by id, so that a draw never depends on the order of a sort.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as a sort compares them")]
fn likeliest_first(a: &(u32, f32), b: &(u32, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// The `k` likeliest token ids by `logits`, `[vocab]`, with their logits, falling, of equal ones the first; `None` where
/// a logit is not finite.
pub fn likeliest(logits: &[f32], k: usize) -> Option<Vec<(u32, f32)>> {
    if !logits.iter().all(|logit| logit.is_finite()) {
        return None;
    }
    if k == 1 {
        let id = argmax(logits);
        return Some(vec![(id, logits[id as usize])]);
    }
    let mut candidates: Vec<_> = (0..).zip(logits.iter().copied()).collect();
    if k < candidates.len() {
        candidates.select_nth_unstable_by(k, likeliest_first);
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(likeliest_first);
    Some(candidates)
}

/// The first of the largest.
fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests;
