//! The tests on a thread of their own: a stop need not wait for a device that has its work already, and cannot be told to
//! leave it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::measure::{Bench, PerToken, Sample, Test};
use crate::engine::Error;
use crate::session::memory;

/// Between two looks at the stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long after a stop what is under way may take to end by itself.
const PATIENCE: Duration = Duration::from_millis(200);

/// What came of the tests, all of them or those until a stop.
#[derive(Default)]
pub struct Outcome {
    /// The time to read a short prompt.
    pub first_token: Option<Duration>,
    /// Bytes that the process had made the system read from the disk until then.
    pub from_disk: Option<u64>,
    /// Of each test the times of its repetitions.
    pub times: Vec<Vec<Duration>>,
    /// On a device, what the dearest decoded token cost.
    pub per_token: Option<PerToken>,
    /// On a device, bytes of its memory that were taken at last.
    pub memory: Option<u64>,
    /// What was measured; `None` where a stop did not wait for it.
    pub bench: Option<Bench>,
}

enum News {
    FirstToken(Duration, Option<u64>),
    Sample(usize, Sample),
    End(Result<Bench, Error>),
}

/// Measures the first token after `short` tokens, then `tests`. What ends a test of `bench` by a stop ends them all.
///
/// # Errors
/// [`Error::Device`], [`Error::NotFinite`]
pub fn run(bench: Bench, short: usize, tests: &[Test]) -> Result<Outcome, Error> {
    let cancel = bench.cancel.clone();
    let (sender, news) = channel();
    let all = tests.to_vec();
    let worker = thread::Builder::new()
        .name("bench".to_owned())
        .spawn(move || work(bench, short, &all, &sender))
        .map_err(|error| Error::Device(format!("no thread can be started: {error}")))?;
    let mut outcome = Outcome {
        times: vec![Vec::new(); tests.len()],
        ..Outcome::default()
    };
    if !outcome.listen(&news, || cancel.is_cancelled())?
        && let Err(panic) = worker.join()
    {
        std::panic::resume_unwind(panic);
    }
    Ok(outcome)
}

fn work(mut bench: Bench, short: usize, tests: &[Test], sender: &Sender<News>) {
    // Nobody listens any more after a stop.
    let tell = |news| drop(sender.send(news));
    let mut all = || -> Result<(), Error> {
        let Some(time) = bench.first_token(short)? else {
            return Ok(());
        };
        tell(News::FirstToken(time, memory::read_from_disk()));
        for (index, test) in tests.iter().enumerate() {
            bench.run(*test, &mut |sample| tell(News::Sample(index, sample)))?;
            if bench.cancel.is_cancelled() {
                break;
            }
            bench.progress.done();
        }
        Ok(())
    };
    let ended = all();
    tell(News::End(ended.map(|()| bench)));
}

impl Outcome {
    /// Takes what comes until the end, or for [`PATIENCE`] after a stop; whether the other side is still there.
    fn listen(&mut self, news: &Receiver<News>, stopped: impl Fn() -> bool) -> Result<bool, Error> {
        let mut until: Option<Instant> = None;
        loop {
            match news.recv_timeout(LOOK) {
                Ok(News::FirstToken(time, from_disk)) => {
                    (self.first_token, self.from_disk) = (Some(time), from_disk);
                }
                Ok(News::Sample(test, sample)) => self.take(test, sample),
                Ok(News::End(bench)) => {
                    self.bench = Some(bench?);
                    return Ok(true);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
            if stopped()
                && Instant::now() >= *until.get_or_insert_with(|| Instant::now() + PATIENCE)
            {
                return Ok(true);
            }
        }
    }

    fn take(&mut self, test: usize, sample: Sample) {
        self.times[test].push(sample.time);
        self.memory = sample.memory.or(self.memory);
        if let Some(cost) = sample.per_token {
            let dearest = self.per_token.get_or_insert(cost);
            if cost.launches > dearest.launches {
                *dearest = cost;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(milliseconds: u64, launches: f64) -> News {
        News::Sample(
            0,
            Sample {
                time: Duration::from_millis(milliseconds),
                memory: Some(milliseconds),
                per_token: Some(PerToken {
                    launches,
                    crossed: 16.0,
                }),
            },
        )
    }

    fn outcome() -> Outcome {
        Outcome {
            times: vec![Vec::new()],
            ..Outcome::default()
        }
    }

    #[test]
    fn a_stop_waits_a_moment_and_keeps_what_came() {
        let (sender, news) = channel();
        sender.send(sample(3, 70.0)).unwrap();
        sender.send(sample(4, 65.0)).unwrap();
        let (mut outcome, start) = (outcome(), Instant::now());
        // The other side goes on and on.
        assert_eq!(outcome.listen(&news, || true), Ok(true));
        assert!((PATIENCE..10 * PATIENCE).contains(&start.elapsed()));
        assert!(outcome.bench.is_none());
        assert_eq!(outcome.times, [[3, 4].map(Duration::from_millis)]);
        assert_eq!(outcome.memory, Some(4));
        let dearest = PerToken {
            launches: 70.0,
            crossed: 16.0,
        };
        assert_eq!(outcome.per_token, Some(dearest));
    }

    #[test]
    fn an_error_and_a_panic_of_the_other_side_are_seen() {
        let (sender, news) = channel();
        sender.send(News::End(Err(Error::EmptyPrompt))).unwrap();
        let ended = outcome().listen(&news, || false);
        assert_eq!(ended, Err(Error::EmptyPrompt));
        drop(sender);
        assert_eq!(outcome().listen(&news, || false), Ok(false));
    }
}
