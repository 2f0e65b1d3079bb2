//! Going back in a conversation on the built-in model: only what changed is read, and the logits are, bit for bit, those of
//! a conversation that never was any other way.

use std::sync::{Arc, Mutex};

use gptoss::checkpoint::Checkpoint;
use gptoss::engine::{self, LanguageModel};
use gptoss::session::{
    Cancel, ChatSession, Compute, KvType, LoadOptions, Message, Model, Sampling, Setup, Turn,
    TurnOptions,
};
use gptoss::tokenizer::Tokenizer;

/// What a model was made to do.
#[derive(Debug, Default, PartialEq)]
struct Done {
    /// Tokens it read, those that it made included.
    read: usize,
    /// The logits that it gave, one row for each token made.
    logits: Vec<Vec<f32>>,
}

/// A model that is watched.
struct Watched {
    model: Box<dyn LanguageModel>,
    done: Arc<Mutex<Done>>,
}

impl LanguageModel for Watched {
    fn vocab_size(&self) -> usize {
        self.model.vocab_size()
    }
    fn context(&self) -> usize {
        self.model.context()
    }
    fn truncate(&mut self, len: usize) {
        self.model.truncate(len);
    }
    fn forward(
        &mut self,
        tokens: &[u32],
        logits: usize,
        cancel: &Cancel,
    ) -> Result<Option<Vec<f32>>, engine::Error> {
        let rows = self.model.forward(tokens, logits, cancel)?;
        let mut done = self.done.lock().unwrap();
        done.read += tokens.len();
        done.logits
            .extend(rows.clone().filter(|rows| !rows.is_empty()));
        Ok(rows)
    }
    fn describe(&self) -> String {
        self.model.describe()
    }
}

/// A conversation with the built-in model.
struct Chat {
    session: ChatSession,
    done: Arc<Mutex<Done>>,
    kv_type: KvType,
}

impl Chat {
    fn new(kv_type: KvType) -> Self {
        let checkpoint = Checkpoint::tiny();
        let options = LoadOptions {
            kv_type,
            // With nothing rounded, prefill and decode give the same bits.
            compute: Some(Compute::F32),
            ..LoadOptions::default()
        };
        let done = Arc::default();
        let model = Watched {
            model: engine::load(&checkpoint, &options).unwrap(),
            done: Arc::clone(&done),
        };
        let json = checkpoint.tokenizer.unwrap().json;
        let tokenizer = Arc::new(Tokenizer::from_json(&json, "tiny").unwrap());
        let model = Model::new(Box::new(model), tokenizer, &checkpoint.eos_token_ids);
        let setup = Setup {
            date: Some("2025-06-28".to_owned()),
            ..Setup::default()
        };
        Self {
            session: ChatSession::new(model, setup),
            done,
            kv_type,
        }
    }

    /// The model answers. The logits are those of a conversation that never was another, and what it reads is less by
    /// what it says it kept.
    #[track_caller]
    fn answer(&mut self) -> Turn {
        let history = self.session.history.clone();
        let (turn, done) = self.turn();
        let mut fresh = Self::new(self.kv_type);
        fresh.session.history = history;
        let (expected, in_full) = fresh.turn();
        assert_eq!(expected.stats.cached_tokens, 0);
        assert_eq!(turn.token_ids, expected.token_ids);
        // Not assert_eq, which would print them.
        assert!(done.logits == in_full.logits, "the logits are others");
        assert_eq!(done.logits.len(), turn.token_ids.len());
        assert_eq!(done.read, in_full.read - turn.stats.cached_tokens);
        turn
    }

    fn turn(&mut self) -> (Turn, Done) {
        *self.done.lock().unwrap() = Done::default();
        // Draws from the whole distribution, so that conversations are of all kinds.
        let options = TurnOptions {
            sampling: Sampling {
                seed: Some(11),
                ..Sampling::default()
            },
            max_tokens: Some(60),
        };
        let session = &mut self.session;
        let turn = session.turn(&options, &Cancel::new(), &mut |_| {}).unwrap();
        (turn, std::mem::take(&mut *self.done.lock().unwrap()))
    }

    fn say(&mut self, text: &str) -> Turn {
        self.session.push_user(text);
        self.answer()
    }

    /// Goes back to before the message.
    fn back_to(&mut self, text: &str) {
        let is_it = |message: &Message| message.text() == text;
        let at = self.session.history.iter().position(is_it).unwrap();
        self.session.history.truncate(at);
    }
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// For both ways to keep the history.
fn each(test: impl Fn(Chat)) {
    for kv_type in [KvType::F32, KvType::Bf16] {
        test(Chat::new(kv_type));
    }
}

const QUESTIONS: [&str; 4] = [
    "Hello!",
    "What is the opposite of hot?",
    "Count to five.",
    "What is the capital of France?",
];

#[test]
fn the_second_turn_reads_only_the_tail_that_changed() {
    each(|mut chat| {
        chat.session.push_user("What is the capital of France?");
        let first_prompt = chat.session.prompt();
        let first = chat.answer();
        // All but the last token made is in the cache.
        let held = [
            &first_prompt[..],
            &first.token_ids[..first.token_ids.len() - 1],
        ]
        .concat();
        chat.session.push_user("And of Italy?");
        let prompt = chat.session.prompt();
        let second = chat.answer();
        assert_eq!(second.stats.cached_tokens, common(&held, &prompt));
        // The dropped thinking ends what is common; the first prompt is held at least.
        assert!(second.stats.cached_tokens >= first_prompt.len());
    });
}

#[test]
fn regenerating_reads_one_token() {
    each(|mut chat| {
        chat.say("Hello!");
        chat.session.push_user("Tell me a story.");
        let history = chat.session.history.clone();
        let first = chat.answer();
        for _ in 0..2 {
            chat.session.history.clone_from(&history);
            let again = chat.answer();
            assert_eq!(again.stats.cached_tokens, again.stats.prompt_tokens - 1);
            assert_eq!(again.token_ids, first.token_ids);
        }
    });
}

#[test]
fn every_message_can_be_edited_and_is_read_from_the_edit_on() {
    each(|mut chat| {
        for k in (0..QUESTIONS.len()).rev() {
            chat.session.history.clear();
            for text in QUESTIONS {
                chat.say(text);
            }
            let left = chat.session.history.clone();
            // The prompt of the last turn, which is held with what was made after it.
            let last = QUESTIONS[QUESTIONS.len() - 1];
            chat.back_to(last);
            chat.session.push_user(last);
            let held = chat.session.prompt();

            chat.back_to(QUESTIONS[k]);
            chat.session.push_user(format!("{} And why?", QUESTIONS[k]));
            let prompt = chat.session.prompt();
            let turn = chat.answer();
            assert_eq!(
                turn.stats.cached_tokens,
                common(&held, &prompt),
                "message {k}"
            );
            assert!(turn.stats.cached_tokens < prompt.len() - 1, "message {k}");

            // And back to the branch that was left.
            chat.session.history = left;
            chat.say("Thanks!");
        }
    });
}

#[test]
fn an_exchange_that_is_taken_back_leaves_no_trace() {
    each(|mut chat| {
        for text in QUESTIONS {
            chat.say(text);
        }
        for k in (1..QUESTIONS.len()).rev() {
            chat.back_to(QUESTIONS[k]);
            let turn = chat.say("What is your name?");
            assert!(turn.stats.cached_tokens > 0, "without message {k}");
            chat.back_to("What is your name?");
        }
    });
}
