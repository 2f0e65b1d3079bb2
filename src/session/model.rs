//! A loaded checkpoint, and completion without harmony.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::repetition::RepetitionWatch;
use super::{Cancel, Error, Event, Finish, LoadOptions, Stats, TurnOptions};
use crate::checkpoint::Checkpoint;
use crate::engine::{self, Generator, LanguageModel};
use crate::tokenizer::{Tokenizer, Utf8Stream};

/// A loaded checkpoint: weights, cache, vocabulary, and what ends a generation.
pub struct Model {
    generator: Generator,
    tokenizer: Arc<Tokenizer>,
    stop: Vec<u32>,
    load_time: Duration,
}

impl Model {
    /// Loads `checkpoint` onto the device.
    ///
    /// # Errors
    /// [`Error::NoTokenizer`], [`Error::Tokenizer`] and [`Error::OtherTokenizer`] for the vocabulary, [`Error::Engine`] for the rest.
    pub fn load(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Self, Error> {
        let started = Instant::now();
        let Some(file) = &checkpoint.tokenizer else {
            return Err(Error::NoTokenizer {
                checkpoint: checkpoint.source.clone(),
            });
        };
        // The real vocabulary takes a second to read: it goes on beside the weights.
        let (tokenizer, model) = std::thread::scope(|scope| {
            let name = file.path.display().to_string();
            let tokenizer = scope.spawn(move || Tokenizer::from_json(&file.json, &name));
            let model = engine::load(checkpoint, options);
            let tokenizer = tokenizer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (tokenizer, model)
        });
        let (model, tokenizer) = (model?, tokenizer?);
        let vocab_size = model.vocab_size();
        if let Some(id) = tokenizer
            .special()
            .ids()
            .find(|id| *id as usize >= vocab_size)
        {
            return Err(Error::OtherTokenizer {
                file: file.path.clone(),
                token: tokenizer.decode(&[id]),
                id,
                vocab_size,
            });
        }
        let mut loaded = Self::new(model, Arc::new(tokenizer), &checkpoint.eos_token_ids);
        loaded.load_time = started.elapsed();
        Ok(loaded)
    }

    /// A model from its parts. Generation ends at `eos` and at harmony's `<|return|>` and `<|call|>`.
    pub fn new(model: Box<dyn LanguageModel>, tokenizer: Arc<Tokenizer>, eos: &[u32]) -> Self {
        let special = tokenizer.special();
        let mut stop = eos.to_vec();
        // `<|end|>` ends a message only, whatever a configuration says.
        stop.retain(|id| *id != special.end);
        stop.extend([special.return_, special.call]);
        stop.extend(special.endoftext);
        stop.sort_unstable();
        stop.dedup();
        Self {
            generator: Generator::new(model),
            tokenizer,
            stop,
            load_time: Duration::ZERO,
        }
    }

    /// The checkpoint's vocabulary.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// How long [`Model::load`] took.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }

    /// What it runs on, for the figures.
    pub fn device(&self) -> String {
        self.generator.model().describe()
    }

    /// Whether it holds memory of a device other than the CPU.
    pub fn is_on_device(&self) -> bool {
        self.generator.model().device_figures().is_some()
    }

    /// Positions the history can hold.
    pub fn context(&self) -> usize {
        self.generator.model().context()
    }

    /// Continues `prompt` as it is, without harmony. Special tokens in the output are given by name,
    /// save the one that ends it.
    ///
    /// # Errors
    /// [`Error::Engine`]: the prompt is empty or too long, or the logits are not finite.
    pub fn complete(
        &mut self,
        prompt: &[u32],
        options: &TurnOptions,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Completion, Error> {
        let tokenizer = self.tokenizer.clone();
        let stop = self.stop.clone();
        let mut bytes = Utf8Stream::default();
        let mut text = String::new();
        let output = self.generate(prompt, options, cancel, &mut |event| {
            let more = match event {
                Event::Token(id) if !stop.contains(&id) => tokenizer
                    .token_bytes(id)
                    .map(|token| bytes.push(token))
                    .unwrap_or_default(),
                _ => String::new(),
            };
            on_event(event);
            if !more.is_empty() {
                text.push_str(&more);
                on_event(Event::Text(more));
            }
        })?;
        let rest = bytes.finish();
        if !rest.is_empty() {
            text.push_str(&rest);
            on_event(Event::Text(rest));
        }
        Ok(Completion {
            text,
            finish: output.finish.into(),
            token_ids: output.tokens,
            stats: output.stats,
        })
    }

    /// The generator, with its events turned into ours and loops noticed.
    pub(super) fn generate(
        &mut self,
        prompt: &[u32],
        options: &TurnOptions,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<engine::Output, Error> {
        let request = engine::Request {
            prompt,
            sampling: options.sampling.clone(),
            max_tokens: options.max_tokens,
            stop: &self.stop,
            cancel: cancel.clone(),
        };
        let mut watch = RepetitionWatch::default();
        let output = self
            .generator
            .generate(&request, &mut |event| match event {
                engine::Event::Prefill {
                    done,
                    total,
                    reused,
                } => on_event(Event::Prefill {
                    done,
                    total,
                    reused,
                }),
                engine::Event::Token(id) => {
                    on_event(Event::Token(id));
                    if let Some(repetition) = watch.push(id) {
                        on_event(Event::Repeating(repetition));
                    }
                }
            })?;
        Ok(output)
    }
}

/// What [`Model::complete`] made.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The text, without the token that ended it.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// The tokens made, the one that ended it included.
    pub token_ids: Vec<u32>,
    /// The figures.
    pub stats: Stats,
}
