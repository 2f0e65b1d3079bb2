//! A model that says what was recorded: the chat can be shown and tested without weights.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{Cancel, Error, Model};
use crate::checkpoint::Checkpoint;
use crate::engine::{self, LanguageModel};
use crate::tokenizer::Tokenizer;

/// How often a wait looks whether it should end.
const STEP: Duration = Duration::from_millis(5);

/// One token of a recording, a line of JSON.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Recorded {
    id: u32,
    /// How long it took.
    #[serde(default)]
    delay_ms: u64,
}

impl Model {
    /// A model that makes the tokens of `recording` (lines of `{"id": 1, "delay_ms": 20}`), one turn after the
    /// other, and ends every turn from there on at once. `checkpoint` has the vocabulary.
    ///
    /// # Errors
    /// [`Error::Recording`] with the line that is wrong; [`Error::NoTokenizer`] and [`Error::Tokenizer`].
    pub fn replay(recording: &str, checkpoint: &Checkpoint) -> Result<Self, Error> {
        let Some(file) = &checkpoint.tokenizer else {
            return Err(Error::NoTokenizer {
                checkpoint: checkpoint.source.clone(),
            });
        };
        let tokenizer = Arc::new(Tokenizer::from_json(
            &file.json,
            &file.path.display().to_string(),
        )?);
        let vocab_size = checkpoint.config.vocab_size;
        let tokens = parse(recording, vocab_size)?;
        let model = Replay {
            tokens,
            end: tokenizer.special().return_,
            vocab_size,
            context: checkpoint.config.max_position_embeddings,
        };
        Ok(Self::new(
            Box::new(model),
            tokenizer,
            &checkpoint.eos_token_ids,
        ))
    }
}

fn parse(recording: &str, vocab_size: usize) -> Result<VecDeque<Recorded>, Error> {
    let lines = recording.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            let refuse = |reason: String| Error::Recording {
                line: number + 1,
                reason,
            };
            let token: Recorded =
                serde_json::from_str(line).map_err(|error| refuse(error.to_string()))?;
            if token.id as usize >= vocab_size {
                return Err(refuse(format!(
                    "{} is no id of a vocabulary of {vocab_size}",
                    token.id
                )));
            }
            Ok(token)
        })
        .collect()
}

struct Replay {
    tokens: VecDeque<Recorded>,
    /// Made when the recording is over.
    end: u32,
    vocab_size: usize,
    context: usize,
}

impl LanguageModel for Replay {
    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn context(&self) -> usize {
        self.context
    }

    fn truncate(&mut self, _len: usize) {}

    fn forward(
        &mut self,
        _tokens: &[u32],
        logits: usize,
        cancel: &Cancel,
    ) -> Result<Option<Vec<f32>>, engine::Error> {
        let mut rows = vec![0.0; logits * self.vocab_size];
        if logits > 0 {
            let next = self.tokens.front().copied();
            let made = Instant::now() + Duration::from_millis(next.map_or(0, |next| next.delay_ms));
            while Instant::now() < made {
                if cancel.is_cancelled() {
                    return Ok(None);
                }
                std::thread::sleep(STEP.min(made.saturating_duration_since(Instant::now())));
            }
            self.tokens.pop_front();
            let id = next.map_or(self.end, |next| next.id) as usize;
            // Certain enough for any temperature and any penalty.
            rows[(logits - 1) * self.vocab_size + id] = 1e9;
        }
        Ok(Some(rows))
    }

    fn describe(&self) -> String {
        "replay".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{ChatSession, Finish, Kind, Setup, TurnOptions};

    fn recording(text: &str) -> String {
        let file = Checkpoint::tiny().tokenizer.unwrap();
        let tokenizer = Tokenizer::from_json(&file.json, "tiny").unwrap();
        let special = tokenizer.special();
        let mut ids = vec![special.channel];
        ids.extend(tokenizer.encode("final"));
        ids.push(special.message);
        ids.extend(tokenizer.encode(text));
        ids.push(special.return_);
        let line = |id: &u32| format!("{{\"id\": {id}, \"delay_ms\": 1}}");
        let lines: Vec<String> = ids.iter().map(line).collect();
        lines.join("\n") + "\n"
    }

    #[test]
    fn says_what_was_recorded_and_then_nothing() {
        let text = recording("Hello there") + &recording("Again");
        let model = Model::replay(&text, &Checkpoint::tiny()).unwrap();
        let mut session = ChatSession::new(model, Setup::default());
        let mut said = Vec::new();
        for _ in 0..3 {
            session.push_user("Hi");
            let turn = session
                .turn(&TurnOptions::default(), &Cancel::new(), &mut |_| {})
                .unwrap();
            assert_eq!(turn.finish, Finish::Stop);
            said.extend(
                turn.messages
                    .iter()
                    .filter(|message| message.kind() == Kind::Final)
                    .map(|message| message.text().into_owned()),
            );
        }
        said.retain(|text| !text.is_empty());
        assert_eq!(said, ["Hello there", "Again"]);
    }

    #[test]
    fn a_wait_ends_when_the_turn_is_cancelled() {
        let text = "{\"id\": 5, \"delay_ms\": 600000}";
        let model = Model::replay(text, &Checkpoint::tiny()).unwrap();
        let mut session = ChatSession::new(model, Setup::default());
        session.push_user("Hi");
        let cancel = Cancel::new();
        let turn = session
            .turn(&TurnOptions::default(), &cancel, &mut |event| {
                if matches!(event, crate::session::Event::Prefill { .. }) {
                    cancel.cancel();
                }
            })
            .unwrap();
        assert_eq!(turn.finish, Finish::Cancelled);
    }

    #[test]
    fn names_the_line_that_is_wrong() {
        let said = |text: &str| {
            let error = Model::replay(text, &Checkpoint::tiny()).err().unwrap();
            error.to_string()
        };
        assert!(said("{\"id\": 1}\n\n{\"no\": 1}").starts_with("line 3 of the recording"));
        assert_eq!(
            said("{\"id\": 99999}"),
            "line 1 of the recording: 99999 is no id of a vocabulary of 2944"
        );
    }
}
