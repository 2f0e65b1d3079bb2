//! The loop: prefix reuse, chunked prefill, decode, stops, cancel, figures.

use super::{Cancel, Error, LanguageModel, Sampling};
use std::time::Duration;

/// One generation.
pub struct Request<'a> {
    /// The whole conversation so far, as tokens; what the cache already holds of it is not read again.
    pub prompt: &'a [u32],
    pub sampling: Sampling,
    /// `None`: until a stop or the context is full.
    pub max_tokens: Option<usize>,
    /// Ids that end generation; they are part of the output.
    pub stop: &'a [u32],
    pub cancel: Cancel,
}

/// What happens during a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `done` of `total` prompt tokens are in the cache, `reused` of them from before.
    Prefill {
        done: usize,
        total: usize,
        reused: usize,
    },
    /// One token was made.
    Token(u32),
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// This stop id was made.
    Stop(u32),
    /// `max_tokens` reached.
    Length,
    /// The context is full.
    Context,
    Cancelled,
}

/// The figures of one generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub prompt_tokens: usize,
    /// Of `prompt_tokens`, those the cache already held.
    pub cached_tokens: usize,
    pub prefill: Duration,
    /// From the call to the first token.
    pub time_to_first_token: Option<Duration>,
    pub generated_tokens: usize,
    /// From the first token to the last.
    pub decode: Duration,
    pub seed: u64,
}

impl Stats {
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        todo!()
    }
    /// N tokens over N intervals; the first token belongs to the prefill.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        todo!()
    }
}

/// What a generation made.
#[derive(Clone, Debug)]
pub struct Output {
    pub tokens: Vec<u32>,
    pub finish: Finish,
    pub stats: Stats,
}

/// Drives a [`LanguageModel`]; remembers which tokens its cache holds.
pub struct Generator {
    model: Box<dyn LanguageModel>,
}

impl Generator {
    pub fn new(model: Box<dyn LanguageModel>) -> Self {
        Self { model }
    }
    pub fn model(&self) -> &dyn LanguageModel {
        self.model.as_ref()
    }
    pub fn generate(
        &mut self,
        request: &Request<'_>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Output, Error> {
        let _ = (request, on_event);
        todo!()
    }
}
