//! The loop: what of the prompt is already held, prefill in chunks, decode, stops, cancel, figures.

use std::time::{Duration, Instant};

use super::sampler::Needs;
use super::{Cancel, Error, LanguageModel, Sampler, Sampling};

/// Prompt tokens per forward pass.
pub const CHUNK: usize = 512;

/// One generation.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The whole conversation so far as tokens; what the cache already holds of it is not read again.
    pub prompt: &'a [u32],
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// `None`: until a stop or the context is full.
    pub max_tokens: Option<usize>,
    /// Ids that end the generation; they are part of the output.
    pub stop: &'a [u32],
    /// Asks to stop early.
    pub cancel: Cancel,
}

/// What happens during a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `done` of `total` prompt tokens are in the cache, `reused` of them from before.
    Prefill {
        /// Prompt tokens in the cache now.
        done: usize,
        /// Prompt tokens.
        total: usize,
        /// Those that the cache held before.
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
    /// As many tokens as asked for.
    Length,
    /// The context is full.
    Context,
    /// The request's [`Cancel`].
    Cancelled,
}

/// The figures of one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, those the cache already held.
    pub cached_tokens: usize,
    /// From the call until the whole prompt was read; zero where it was not.
    pub prefill: Duration,
    /// From the call to the first token.
    pub time_to_first_token: Option<Duration>,
    /// Tokens made, a stop id among them.
    pub generated_tokens: usize,
    /// From the first token to the last.
    pub decode: Duration,
    /// The seed in use, given or drawn.
    pub seed: u64,
}

impl Stats {
    /// Prompt tokens read per second, without those that were held. `None` where the prompt was not read to its end.
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        rate(self.prompt_tokens - self.cached_tokens, self.prefill)
    }

    /// N tokens over N intervals: the first token ends the prefill and belongs to it. `None` below two tokens.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        rate(self.generated_tokens.saturating_sub(1), self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}

/// What a generation made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// In order; the stop id is the last one.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// What it cost.
    pub stats: Stats,
}

/// Drives a [`LanguageModel`] and remembers which tokens its cache holds.
pub struct Generator {
    model: Box<dyn LanguageModel>,
    /// One per committed position.
    held: Vec<u32>,
    clock: Box<dyn FnMut() -> Instant + Send>,
}

impl Generator {
    /// A generator over a model whose cache is empty.
    pub fn new(model: Box<dyn LanguageModel>) -> Self {
        Self::with_clock(model, Box::new(Instant::now))
    }

    /// As [`new`](Self::new), with a clock of one's own.
    pub fn with_clock(
        mut model: Box<dyn LanguageModel>,
        clock: Box<dyn FnMut() -> Instant + Send>,
    ) -> Self {
        model.truncate(0);
        Self {
            model,
            held: Vec::new(),
            clock,
        }
    }

    /// What is driven.
    pub fn model(&self) -> &dyn LanguageModel {
        self.model.as_ref()
    }

    /// The tokens whose keys and values the cache holds.
    pub fn held(&self) -> &[u32] {
        &self.held
    }

    /// Reads what is new of the prompt, then makes tokens until something ends it. Whatever ends it, the cache
    /// holds what was read and made, and the next call goes on from there.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::PromptTooLong`], [`Error::TokenOutOfRange`] and [`Error::Sampling`] before
    /// anything runs; [`Error::NotFinite`] and [`Error::Device`] on the way.
    pub fn generate(
        &mut self,
        request: &Request<'_>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Output, Error> {
        let begin = (self.clock)();
        let mut sampler = Sampler::new(request.sampling.clone())?;
        self.check(request.prompt)?;
        let mut output = Output {
            tokens: Vec::new(),
            finish: Finish::Length,
            stats: Stats {
                prompt_tokens: request.prompt.len(),
                seed: sampler.seed(),
                ..Stats::default()
            },
        };
        if request.max_tokens == Some(0) {
            return Ok(output);
        }

        let prefilled = self.prefill(request, &mut sampler, &mut output.stats, on_event)?;
        let Some(mut token) = prefilled else {
            output.finish = Finish::Cancelled;
            return Ok(output);
        };
        output.stats.prefill = (self.clock)() - begin;

        let mut first = None;
        output.finish = loop {
            output.tokens.push(token);
            let now = (self.clock)();
            let first = *first.get_or_insert(now);
            output.stats.generated_tokens += 1;
            output.stats.time_to_first_token = Some(first - begin);
            output.stats.decode = now - first;
            on_event(Event::Token(token));

            if request.stop.contains(&token) {
                break Finish::Stop(token);
            } else if request
                .max_tokens
                .is_some_and(|max| output.tokens.len() >= max)
            {
                break Finish::Length;
            } else if self.held.len() >= self.model.context() {
                break Finish::Context;
            }
            match self.next(&[token], &mut sampler, &request.cancel)? {
                Some(next) => token = next,
                None => break Finish::Cancelled,
            }
        };
        Ok(output)
    }

    /// The logits that predict the tokens after each of the last `n` of `tokens`, `[n, vocab_size]`; `None` when cancelled.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn score(
        &mut self,
        tokens: &[u32],
        n: usize,
        cancel: &Cancel,
    ) -> Result<Option<Vec<f32>>, Error> {
        self.check(tokens)?;
        let n = n.clamp(1, tokens.len());
        self.reuse(&tokens[..tokens.len() - n]);
        while self.held.len() < tokens.len() - n {
            let end = (self.held.len() + CHUNK).min(tokens.len() - n);
            let chunk = tokens[self.held.len()..end].to_vec();
            if self.forward(&chunk, 0, cancel)?.is_none() {
                return Ok(None);
            }
        }
        let mut all = Vec::with_capacity(n * self.model.vocab_size());
        while self.held.len() < tokens.len() {
            let end = (self.held.len() + CHUNK).min(tokens.len());
            let chunk = tokens[self.held.len()..end].to_vec();
            match self.forward(&chunk, chunk.len(), cancel)? {
                Some(logits) => all.extend(logits),
                None => return Ok(None),
            }
        }
        self.check_finite(&all)?;
        Ok(Some(all))
    }

    fn check(&self, prompt: &[u32]) -> Result<(), Error> {
        let (context, vocab_size) = (self.model.context(), self.model.vocab_size());
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if prompt.len() > context {
            return Err(Error::PromptTooLong {
                prompt: prompt.len(),
                context,
            });
        }
        match prompt.iter().find(|&&id| id as usize >= vocab_size) {
            Some(&id) => Err(Error::TokenOutOfRange { id, vocab_size }),
            None => Ok(()),
        }
    }

    /// Brings the whole prompt into the cache and gives the token after its last one; `None` when cancelled.
    fn prefill(
        &mut self,
        request: &Request<'_>,
        sampler: &mut Sampler,
        stats: &mut Stats,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Option<u32>, Error> {
        let total = request.prompt.len();
        // The last token is always read: its logits are not kept.
        let reused = self.reuse(&request.prompt[..total - 1]);
        stats.cached_tokens = reused;
        on_event(Event::Prefill {
            done: reused,
            total,
            reused,
        });
        loop {
            let done = self.held.len();
            let end = (done + CHUNK).min(total);
            let (chunk, mut next) = (&request.prompt[done..end], None);
            if end == total {
                next = self.next(chunk, sampler, &request.cancel)?;
            } else {
                self.forward(chunk, 0, &request.cancel)?;
            }
            if self.held.len() < end {
                return Ok(None);
            }
            on_event(Event::Prefill {
                done: end,
                total,
                reused,
            });
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    /// Keeps of the cache what `tokens` begins with, and gives its length.
    fn reuse(&mut self, tokens: &[u32]) -> usize {
        let common = self
            .held
            .iter()
            .zip(tokens)
            .take_while(|(held, token)| held == token)
            .count();
        self.model.truncate(common);
        self.held.truncate(common);
        common
    }

    fn forward(
        &mut self,
        tokens: &[u32],
        logits: usize,
        cancel: &Cancel,
    ) -> Result<Option<Vec<f32>>, Error> {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let result = self.model.forward(tokens, logits, cancel)?;
        if result.is_some() {
            self.held.extend_from_slice(tokens);
        }
        Ok(result)
    }

    /// Runs `tokens` and chooses the next one; `None` when cancelled. Of the logits the model gives no more than the
    /// sampler needs.
    fn next(
        &mut self,
        tokens: &[u32],
        sampler: &mut Sampler,
        cancel: &Cancel,
    ) -> Result<Option<u32>, Error> {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let chosen = match sampler.needs() {
            Needs::Likeliest(k) => {
                let likeliest = self.model.likeliest(tokens, k, cancel)?;
                likeliest.map(|found| found.map(|ids| sampler.sample_likeliest(&ids)))
            }
            Needs::Draw => self.model.draw(tokens, sampler.next_draw(), cancel)?,
            Needs::All => {
                let Some(mut logits) = self.forward(tokens, 1, cancel)? else {
                    return Ok(None);
                };
                self.check_finite(&logits)?;
                return Ok(Some(sampler.sample(&mut logits, &self.held)));
            }
        };
        let Some(chosen) = chosen else {
            return Ok(None);
        };
        self.held.extend_from_slice(tokens);
        match chosen {
            Some(token) => Ok(Some(token)),
            None => Err(self.not_finite(self.held.len() - 1)),
        }
    }

    /// NaN would be drawn as token 0 for ever: it ends the run instead, and the cache that led to it is dropped.
    fn check_finite(&mut self, logits: &[f32]) -> Result<(), Error> {
        let Some(at) = logits.iter().position(|logit| !logit.is_finite()) else {
            return Ok(());
        };
        let vocab_size = self.model.vocab_size();
        let first_row = self.held.len() - logits.len() / vocab_size;
        Err(self.not_finite(first_row + at / vocab_size))
    }

    fn not_finite(&mut self, position: usize) -> Error {
        self.reuse(&[]);
        Error::NotFinite { position }
    }
}

#[cfg(test)]
mod tests;
