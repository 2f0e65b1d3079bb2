//! The tests themselves: what is timed, and what is held before the clock starts.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::progress::Progress;
use crate::engine::{CHUNK, Cancel, DeviceFigures, Error, LanguageModel};
use crate::session::memory::Resident;

/// Tokens that are decoded before the clock starts.
const WARM_UP: usize = 8;
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(5);

/// What a test does with its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reads them in chunks.
    Prefill,
    /// Reads them one by one, with logits after each, as if it had made them.
    Decode,
}

impl Kind {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// One test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// What is done.
    pub kind: Kind,
    /// With so many tokens.
    pub tokens: usize,
    /// After so many.
    pub depth: usize,
}

/// A model, the tokens it is given, and how many of them it holds.
pub struct Bench {
    /// What is measured.
    pub model: Box<dyn LanguageModel>,
    /// One stream for all tests, so that each prefix of it serves all that are deeper.
    pub tokens: Vec<u32>,
    /// Of these, what the cache holds.
    pub held: usize,
    /// The last logits, looked at when the clock stands.
    pub logits: Vec<f32>,
    /// Timed runs of each test.
    pub repetitions: usize,
    /// Ends it all.
    pub cancel: Cancel,
    /// The most memory so far.
    pub peak: Arc<Peak>,
    /// For the person who waits.
    pub progress: Progress,
}

/// One timed run of a test.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// How long it took.
    pub time: Duration,
    /// On a device, what a decoded token cost.
    pub per_token: Option<PerToken>,
    /// On a device, bytes of its memory that are taken now.
    pub memory: Option<u64>,
}

/// What a decoded token costs a device, averaged over a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerToken {
    /// Kernels launched.
    pub launches: f64,
    /// Bytes between host and device.
    pub crossed: f64,
}

impl PerToken {
    /// Of `n` tokens between two readings.
    fn of(n: usize, before: DeviceFigures, after: DeviceFigures) -> Self {
        let each = |before, after| (after - before) as f64 / n as f64;
        Self {
            launches: each(before.launches, after.launches),
            crossed: each(before.crossed, after.crossed),
        }
    }
}

impl Bench {
    /// The time to read `tokens` tokens into an empty cache and have logits after the last; `None` when cancelled.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::NotFinite`]
    pub fn first_token(&mut self, tokens: usize) -> Result<Option<Duration>, Error> {
        self.truncate(0);
        let (peak, start) = (Arc::clone(&self.peak), Instant::now());
        if !peak.watch(|| self.prefill(tokens))? {
            return Ok(None);
        }
        let time = start.elapsed();
        self.check_finite()?;
        Ok(Some(time))
    }

    /// Gives `on_sample` each repetition; fewer, or none, when cancelled.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::NotFinite`]
    pub fn run(&mut self, test: Test, on_sample: &mut dyn FnMut(Sample)) -> Result<(), Error> {
        let Test {
            kind,
            tokens,
            depth,
        } = test;
        self.progress.test(&test, 0);
        let warm_up = match kind {
            Kind::Prefill => tokens.min(CHUNK),
            Kind::Decode => tokens.min(WARM_UP),
        };
        let peak = Arc::clone(&self.peak);
        if !self.hold(depth)? || !peak.watch(|| self.pass(kind, warm_up))? {
            return Ok(());
        }
        self.check_finite()?;
        for repetition in 1..=self.repetitions {
            if self.cancel.is_cancelled() {
                break;
            }
            self.progress.test(&test, repetition);
            self.truncate(depth);
            let before = self.model.device_figures();
            let start = Instant::now();
            if !self.pass(kind, tokens)? {
                break;
            }
            let time = start.elapsed();
            self.check_finite()?;
            let after = self.model.device_figures();
            let both = before.zip(after).filter(|_| kind == Kind::Decode);
            on_sample(Sample {
                time,
                per_token: both.map(|(before, after)| PerToken::of(tokens, before, after)),
                memory: after.map(|after| after.memory),
            });
            self.peak.look();
        }
        Ok(())
    }

    /// Brings the cache to `len` tokens; `false` when cancelled.
    fn hold(&mut self, len: usize) -> Result<bool, Error> {
        self.truncate(len);
        while self.held < len {
            if self.cancel.is_cancelled() {
                return Ok(false);
            }
            self.progress.filling(self.held, len);
            if !self.forward((len - self.held).min(CHUNK), 0)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is timed: `n` tokens, from what is held on.
    fn pass(&mut self, kind: Kind, n: usize) -> Result<bool, Error> {
        match kind {
            Kind::Prefill => self.prefill(n),
            Kind::Decode => {
                for _ in 0..n {
                    if !self.decode()? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn prefill(&mut self, n: usize) -> Result<bool, Error> {
        let end = self.held + n;
        while self.held < end {
            let chunk = (end - self.held).min(CHUNK);
            let logits = usize::from(self.held + chunk == end);
            if !self.forward(chunk, logits)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One token and the likeliest after it: logits stay on the device that has them, as in an answer.
    fn decode(&mut self) -> Result<bool, Error> {
        if self.cancel.is_cancelled() {
            return Ok(false);
        }
        let token = &self.tokens[self.held..=self.held];
        let Some(likeliest) = self.model.likeliest(token, 1, &self.cancel)? else {
            return Ok(false);
        };
        self.held += 1;
        let best = likeliest.and_then(|ids| ids.first().copied());
        self.logits = vec![best.map_or(f32::NAN, |(_, logit)| logit)];
        Ok(true)
    }

    fn forward(&mut self, n: usize, logits: usize) -> Result<bool, Error> {
        if self.cancel.is_cancelled() {
            return Ok(false);
        }
        let tokens = &self.tokens[self.held..self.held + n];
        let Some(logits) = self.model.forward(tokens, logits, &self.cancel)? else {
            return Ok(false);
        };
        self.held += n;
        self.logits = logits;
        Ok(true)
    }

    /// NaN anywhere on the way spreads through the history to the end.
    fn check_finite(&self) -> Result<(), Error> {
        if self.logits.iter().all(|logit| logit.is_finite()) {
            Ok(())
        } else {
            let position = self.held - 1;
            Err(Error::NotFinite { position })
        }
    }

    fn truncate(&mut self, len: usize) {
        if len < self.held {
            self.model.truncate(len);
            self.held = len;
        }
    }
}

/// The most memory of this process over the times that were looked at.
#[derive(Debug, Default)]
pub struct Peak(Mutex<Option<Most>>);

/// Each the largest that was seen, not necessarily at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Bytes in all.
    pub total: u64,
    /// Bytes of its own.
    pub anonymous: u64,
    /// Bytes of mapped files.
    pub mapped: u64,
}

impl Peak {
    /// What was seen; `None` where the system tells nothing.
    pub fn most(&self) -> Option<Most> {
        *self.lock()
    }

    /// Looks once.
    pub fn look(&self) {
        let Some(now) = Resident::now() else { return };
        let mut most = self.lock();
        let before = most.unwrap_or_default();
        *most = Some(Most {
            total: before.total.max(now.total()),
            anonymous: before.anonymous.max(now.anonymous),
            mapped: before.mapped.max(now.mapped),
        });
    }

    /// Does `work` and looks all the while. Not for what is timed closely.
    pub fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let (done, end) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    self.look();
                }
            });
            let result = work();
            drop(done);
            self.look();
            result
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Most>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes what it is given; its logits are `logit`. Cancels with its forward pass number `cancel_at`.
    struct Notebook {
        notes: Arc<Mutex<Vec<String>>>,
        logit: f32,
        cancel_at: usize,
        passes: usize,
    }

    impl LanguageModel for Notebook {
        fn vocab_size(&self) -> usize {
            10
        }
        fn context(&self) -> usize {
            10_000
        }
        fn truncate(&mut self, len: usize) {
            self.notes.lock().unwrap().push(format!("truncate {len}"));
        }
        fn forward(
            &mut self,
            tokens: &[u32],
            logits: usize,
            cancel: &Cancel,
        ) -> Result<Option<Vec<f32>>, Error> {
            self.passes += 1;
            if self.passes == self.cancel_at {
                cancel.cancel();
                return Ok(None);
            }
            let note = format!("{}+{} {logits}", tokens[0], tokens.len());
            self.notes.lock().unwrap().push(note);
            Ok(Some(vec![self.logit; logits * 10]))
        }
        fn describe(&self) -> String {
            "a notebook".to_owned()
        }
    }

    /// Runs the tests and gives what the model saw and how many repetitions each test had.
    fn run(
        tests: &[Test],
        logit: f32,
        cancel_at: usize,
    ) -> Result<(Vec<String>, Vec<usize>), Error> {
        let notes = Arc::default();
        let mut bench = Bench {
            model: Box::new(Notebook {
                notes: Arc::clone(&notes),
                logit,
                cancel_at,
                passes: 0,
            }),
            tokens: (0..10_000).collect(),
            held: 0,
            logits: Vec::new(),
            repetitions: 2,
            cancel: Cancel::new(),
            peak: Arc::default(),
            progress: Progress::hidden(),
        };
        let mut counts = Vec::new();
        for test in tests {
            let mut count = 0;
            bench.run(*test, &mut |_| count += 1)?;
            counts.push(count);
        }
        let notes = notes.lock().unwrap().clone();
        Ok((notes, counts))
    }

    const PREFILL: Test = Test {
        kind: Kind::Prefill,
        tokens: 600,
        depth: 0,
    };
    const DECODE: Test = Test {
        kind: Kind::Decode,
        tokens: 2,
        depth: 700,
    };

    #[test]
    fn a_depth_is_filled_once_and_every_repetition_goes_back_to_it() {
        let (notes, counts) = run(&[PREFILL, DECODE], 1.0, 0).unwrap();
        assert_eq!(counts, [2, 2]);
        let warm_up = ["0+512 1", "truncate 0"];
        let prefill = ["0+512 0", "512+88 1", "truncate 0", "0+512 0", "512+88 1"];
        // What the test before has read is not read again.
        let fill = ["600+100 0"];
        let decode = ["700+1 1", "701+1 1", "truncate 700"].repeat(3);
        let expected: Vec<&str> = warm_up
            .into_iter()
            .chain(prefill)
            .chain(fill)
            .chain(decode[..8].iter().copied())
            .collect();
        assert_eq!(notes, expected);
    }

    #[test]
    fn what_was_measured_before_a_cancel_is_kept() {
        // One pass warms up, two read a prompt; the fifth is in the middle of the second repetition.
        let (_, counts) = run(&[PREFILL, DECODE], 1.0, 5).unwrap();
        assert_eq!(counts, [1, 0]);
    }

    #[test]
    fn logits_that_are_no_numbers_end_it() {
        let error = run(&[PREFILL], f32::NAN, 0).unwrap_err();
        assert_eq!(error, Error::NotFinite { position: 511 });
    }

    #[test]
    fn the_peak_is_what_was_seen_while_working() {
        let peak = Peak::default();
        let held = peak.watch(|| vec![1_u8; 32 << 20]);
        if cfg!(target_os = "linux") {
            let most = peak.most().expect("Linux tells");
            assert!(most.anonymous >= held.len() as u64, "{most:?}");
            assert!(most.total >= most.anonymous, "{most:?}");
        }
    }
}
