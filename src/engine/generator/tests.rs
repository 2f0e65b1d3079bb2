use std::sync::{Arc, Mutex};

use super::*;
use crate::engine::{Draw, Drawn};

const VOCAB: usize = 10;
const STOP: u32 = 9;

/// A model without weights: after token `t` comes `t + 1`, and it writes down what it was asked.
#[derive(Default)]
struct Counting {
    len: usize,
    context: usize,
    forwards: Arc<Mutex<Vec<(usize, usize, usize)>>>,
    cancel_at: Option<usize>,
    poison_at: Option<usize>,
    clock: Arc<Mutex<Duration>>,
    seconds_per_token: Duration,
}

impl LanguageModel for Counting {
    fn vocab_size(&self) -> usize {
        VOCAB
    }

    fn context(&self) -> usize {
        self.context
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn forward(
        &mut self,
        tokens: &[u32],
        logits: usize,
        _: &Cancel,
    ) -> Result<Option<Vec<f32>>, Error> {
        self.forwards
            .lock()
            .unwrap()
            .push((self.len, tokens.len(), logits));
        *self.clock.lock().unwrap() += self.seconds_per_token * tokens.len() as u32;
        if self.cancel_at.is_some_and(|at| self.len >= at) {
            return Ok(None);
        }
        self.len += tokens.len();
        let mut rows = Vec::new();
        for &token in &tokens[tokens.len() - logits..] {
            let mut row = vec![0.0; VOCAB];
            row[(token as usize + 1) % VOCAB] = 10.0;
            if self.poison_at.is_some_and(|at| self.len >= at) {
                row[3] = f32::NAN;
            }
            rows.extend(row);
        }
        Ok(Some(rows))
    }

    fn describe(&self) -> String {
        "counting".to_owned()
    }
}

fn counting() -> Counting {
    Counting {
        context: 4096,
        ..Counting::default()
    }
}

fn request(prompt: &[u32]) -> Request<'_> {
    Request {
        prompt,
        sampling: Sampling {
            seed: Some(1),
            ..Sampling::greedy()
        },
        max_tokens: None,
        stop: &[STOP],
        cancel: Cancel::new(),
    }
}

fn tokens(n: usize) -> Vec<u32> {
    (0..n).map(|i| (i % 7) as u32).collect()
}

#[test]
fn it_goes_on_until_a_stop_id_and_keeps_it() {
    let mut generator = Generator::new(Box::new(counting()));
    let output = generator.generate(&request(&[3, 5]), &mut |_| {}).unwrap();
    assert_eq!(output.tokens, [6, 7, 8, 9]);
    assert_eq!(output.finish, Finish::Stop(STOP));
    // The stop id was made, not read.
    assert_eq!(generator.held(), [3, 5, 6, 7, 8]);
}

#[test]
fn max_tokens_and_the_context_end_it() {
    let mut generator = Generator::new(Box::new(counting()));
    let output = generator
        .generate(
            &Request {
                max_tokens: Some(2),
                ..request(&[1])
            },
            &mut |_| {},
        )
        .unwrap();
    assert_eq!((output.tokens, output.finish), (vec![2, 3], Finish::Length));

    let mut generator = Generator::new(Box::new(Counting {
        context: 4,
        ..counting()
    }));
    let output = generator.generate(&request(&[1, 2]), &mut |_| {}).unwrap();
    assert_eq!(
        (output.tokens, output.finish),
        (vec![3, 4, 5], Finish::Context)
    );
}

#[test]
fn the_prompt_is_read_in_chunks_and_only_its_last_token_gets_logits() {
    let forwards = Arc::new(Mutex::new(Vec::new()));
    let model = Counting {
        forwards: forwards.clone(),
        ..counting()
    };
    let prompt = tokens(2 * CHUNK + 3);
    let mut events = Vec::new();
    Generator::new(Box::new(model))
        .generate(
            &Request {
                max_tokens: Some(1),
                ..request(&prompt)
            },
            &mut |event| events.push(event),
        )
        .unwrap();
    assert_eq!(
        *forwards.lock().unwrap(),
        [(0, CHUNK, 0), (CHUNK, CHUNK, 0), (2 * CHUNK, 3, 1)]
    );
    let total = prompt.len();
    let prefill = |done| Event::Prefill {
        done,
        total,
        reused: 0,
    };
    let made = Event::Token((prompt[total - 1] + 1) % 10);
    assert_eq!(
        events,
        [
            prefill(0),
            prefill(CHUNK),
            prefill(2 * CHUNK),
            prefill(total),
            made
        ]
    );
}

#[test]
fn the_second_turn_reads_only_what_changed() {
    let forwards = Arc::new(Mutex::new(Vec::new()));
    let mut generator = Generator::new(Box::new(Counting {
        forwards: forwards.clone(),
        ..counting()
    }));
    let first: Vec<u32> = vec![1, 2, 3, 4];
    generator
        .generate(
            &Request {
                max_tokens: Some(3),
                ..request(&first)
            },
            &mut |_| {},
        )
        .unwrap();
    assert_eq!(generator.held(), [1, 2, 3, 4, 5, 6]);

    forwards.lock().unwrap().clear();
    let second = vec![1, 2, 3, 4, 5, 0, 0];
    let output = generator
        .generate(
            &Request {
                max_tokens: Some(1),
                ..request(&second)
            },
            &mut |_| {},
        )
        .unwrap();
    assert_eq!(*forwards.lock().unwrap(), [(5, 2, 1)]);
    assert_eq!(
        (output.stats.prompt_tokens, output.stats.cached_tokens),
        (7, 5)
    );
}

#[test]
fn the_same_prompt_again_reads_its_last_token_alone() {
    let forwards = Arc::new(Mutex::new(Vec::new()));
    let mut generator = Generator::new(Box::new(Counting {
        forwards: forwards.clone(),
        ..counting()
    }));
    let prompt = tokens(300);
    let one = Request {
        max_tokens: Some(1),
        ..request(&prompt)
    };
    let first = generator.generate(&one, &mut |_| {}).unwrap();
    forwards.lock().unwrap().clear();
    let again = generator.generate(&one, &mut |_| {}).unwrap();
    assert_eq!(*forwards.lock().unwrap(), [(299, 1, 1)]);
    assert_eq!(first.tokens, again.tokens);
}

#[test]
fn a_cancel_keeps_what_was_read_and_made() {
    // In prefill: the first chunk stays.
    let model = Counting {
        cancel_at: Some(CHUNK),
        ..counting()
    };
    let mut generator = Generator::new(Box::new(model));
    let prompt = tokens(CHUNK + 5);
    let output = generator.generate(&request(&prompt), &mut |_| {}).unwrap();
    assert_eq!((output.tokens, output.finish), (vec![], Finish::Cancelled));
    assert_eq!(generator.held().len(), CHUNK);
    assert_eq!(output.stats.prefill_tokens_per_second(), None);

    // Between tokens, by the caller.
    let mut generator = Generator::new(Box::new(counting()));
    let cancel = Cancel::new();
    let seen = cancel.clone();
    let output = generator
        .generate(
            &Request {
                cancel,
                ..request(&[0])
            },
            &mut |event| {
                if event == Event::Token(3) {
                    seen.cancel();
                }
            },
        )
        .unwrap();
    assert_eq!(
        (output.tokens, output.finish),
        (vec![1, 2, 3], Finish::Cancelled)
    );
    assert_eq!(generator.held(), [0, 1, 2]);
}

#[test]
fn what_cannot_run_is_refused_before_anything_runs() {
    let mut generator = Generator::new(Box::new(Counting {
        context: 4,
        ..counting()
    }));
    let mut refusal = |prompt: &[u32]| {
        generator
            .generate(&request(prompt), &mut |_| {})
            .unwrap_err()
    };
    assert_eq!(refusal(&[]), Error::EmptyPrompt);
    assert_eq!(
        refusal(&[1, 2, 3, 4, 5]),
        Error::PromptTooLong {
            prompt: 5,
            context: 4
        }
    );
    assert_eq!(
        refusal(&[1, 10]),
        Error::TokenOutOfRange {
            id: 10,
            vocab_size: VOCAB
        }
    );
}

/// Every way to choose a token: the likeliest, a draw among all and one that needs all logits.
fn samplings() -> [Sampling; 3] {
    let seed = Some(1);
    let sampled = Sampling {
        seed,
        ..Sampling::default()
    };
    [
        Sampling {
            seed,
            ..Sampling::greedy()
        },
        sampled.clone(),
        Sampling {
            top_p: 0.9,
            ..sampled
        },
    ]
}

#[test]
fn logits_that_are_not_numbers_end_the_run_and_clear_the_cache() {
    for sampling in samplings() {
        let mut generator = Generator::new(Box::new(Counting {
            poison_at: Some(3),
            ..counting()
        }));
        let mut made = Vec::new();
        let request = Request {
            sampling,
            ..request(&[4])
        };
        let error = generator
            .generate(&request, &mut |event| made.push(event))
            .unwrap_err();
        assert_eq!(error, Error::NotFinite { position: 2 });
        assert_eq!(
            made.iter()
                .filter(|event| matches!(event, Event::Token(_)))
                .count(),
            2
        );
        assert!(generator.held().is_empty());
    }
}

/// A model that draws by itself, and writes down each draw.
struct Drawing {
    model: Counting,
    draws: Arc<Mutex<Vec<Draw>>>,
}

impl LanguageModel for Drawing {
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
    ) -> Result<Option<Vec<f32>>, Error> {
        self.model.forward(tokens, logits, cancel)
    }

    fn draw(
        &mut self,
        tokens: &[u32],
        draw: Draw,
        cancel: &Cancel,
    ) -> Result<Option<Drawn>, Error> {
        self.draws.lock().unwrap().push(draw);
        self.model.draw(tokens, draw, cancel)
    }

    fn describe(&self) -> String {
        self.model.describe()
    }
}

#[test]
fn the_model_draws_where_all_tokens_may_come_and_the_sequence_is_that_of_the_seed() {
    for seed in 0..20 {
        let sampling = Sampling {
            temperature: 5.0,
            seed: Some(seed),
            ..Sampling::default()
        };
        let draws = Arc::new(Mutex::new(Vec::new()));
        let model = Drawing {
            model: counting(),
            draws: draws.clone(),
        };
        let request = Request {
            sampling: sampling.clone(),
            max_tokens: Some(12),
            stop: &[],
            ..request(&[2, 3])
        };
        let output = Generator::new(Box::new(model))
            .generate(&request, &mut |_| {})
            .unwrap();
        assert_eq!(draws.lock().unwrap().len(), 12);

        let (mut model, mut sampler) = (counting(), Sampler::new(sampling).unwrap());
        let mut last = 3;
        for &token in &output.tokens {
            let logits = model.forward(&[last], 1, &Cancel::new()).unwrap();
            last = sampler.sample(&mut logits.unwrap(), &[]);
            assert_eq!(token, last, "seed {seed}");
        }
    }
}

#[test]
fn the_model_draws_nothing_where_the_sampler_needs_more() {
    for (sampling, expected) in samplings().into_iter().zip([0, 3, 0]) {
        let draws = Arc::new(Mutex::new(Vec::new()));
        let model = Drawing {
            model: counting(),
            draws: draws.clone(),
        };
        let request = Request {
            sampling,
            max_tokens: Some(3),
            stop: &[],
            ..request(&[2, 3])
        };
        let output = Generator::new(Box::new(model))
            .generate(&request, &mut |_| {})
            .unwrap();
        assert_eq!(output.tokens.len(), 3);
        assert_eq!(draws.lock().unwrap().len(), expected);
    }
}

/// A clock that only the model moves, at `per_token` for every token it reads.
fn timed(per_token: Duration) -> Generator {
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let model = Counting {
        clock: clock.clone(),
        seconds_per_token: per_token,
        ..counting()
    };
    let begin = Instant::now();
    Generator::with_clock(
        Box::new(model),
        Box::new(move || begin + *clock.lock().unwrap()),
    )
}

#[test]
fn decode_speed_is_tokens_over_the_intervals_between_them() {
    let mut generator = timed(Duration::from_millis(10));
    let output = generator
        .generate(
            &Request {
                max_tokens: Some(11),
                stop: &[],
                ..request(&[0])
            },
            &mut |_| {},
        )
        .unwrap();
    // 11 tokens, 10 ms apart: 10 / 0.1, not 11 / 0.1.
    assert_eq!(output.stats.decode_tokens_per_second(), Some(100.0));
}

#[test]
fn a_long_prompt_does_not_change_the_decode_speed() {
    let mut generator = timed(Duration::from_millis(10));
    let prompt = tokens(1000);
    let output = generator
        .generate(
            &Request {
                max_tokens: Some(11),
                stop: &[],
                ..request(&prompt)
            },
            &mut |_| {},
        )
        .unwrap();
    assert_eq!(output.stats.decode_tokens_per_second(), Some(100.0));
    assert_eq!(output.stats.prefill_tokens_per_second(), Some(100.0));
    assert_eq!(
        output.stats.time_to_first_token,
        Some(Duration::from_secs(10))
    );
}

#[test]
fn one_token_has_no_decode_speed() {
    let mut generator = timed(Duration::from_millis(10));
    let output = generator
        .generate(
            &Request {
                max_tokens: Some(1),
                ..request(&[0])
            },
            &mut |_| {},
        )
        .unwrap();
    assert_eq!(output.stats.decode_tokens_per_second(), None);
}

#[test]
fn a_score_gives_the_logits_after_each_of_the_last_tokens() {
    let mut generator = Generator::new(Box::new(counting()));
    let logits = generator
        .score(&[1, 2, 3, 4, 5], 3, &Cancel::new())
        .unwrap()
        .unwrap();
    let likeliest: Vec<usize> = logits
        .chunks(VOCAB)
        .map(|row| row.iter().position(|&l| l > 0.0).unwrap())
        .collect();
    assert_eq!(likeliest, [4, 5, 6]);
    assert_eq!(generator.held(), [1, 2, 3, 4, 5]);
}
