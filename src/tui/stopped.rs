//! Time in which the whole program was stopped, by Ctrl-Z or a signal: clocks go on meanwhile, and figures must not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// All of it since the start, in microseconds; for the thread that times the model.
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// A wait that took so much longer than it should was no wait.
const GAP: Duration = Duration::from_millis(300);
/// A gap and the signal that explains it come together.
const TOGETHER: Duration = Duration::from_secs(1);

/// All of it since the start.
pub fn total() -> Duration {
    Duration::from_micros(TOTAL.load(Ordering::SeqCst))
}

/// Finds the time between a stop, of which a process is not told, and the signal that it goes on, which may be noticed first.
#[derive(Debug, Default)]
pub struct Watch {
    gap: Option<(Instant, Duration)>,
    continued: Option<Instant>,
}

impl Watch {
    /// A wait for at most `wait` ended at `now` and took `took`.
    pub fn waited(&mut self, wait: Duration, took: Duration, now: Instant) -> Option<Duration> {
        let more = took.saturating_sub(wait);
        if more >= GAP {
            self.gap = Some((now, more));
        }
        self.stopped(now)
    }

    /// The signal came.
    pub fn continued(&mut self, now: Instant) -> Option<Duration> {
        self.continued = Some(now);
        self.stopped(now)
    }

    /// How long the program was stopped, once both are known.
    fn stopped(&mut self, now: Instant) -> Option<Duration> {
        let old = |at: Instant| now.saturating_duration_since(at) > TOGETHER;
        self.gap.take_if(|(at, _)| old(*at));
        self.continued.take_if(|at| old(*at));
        if self.gap.is_none() || self.continued.is_none() {
            return None;
        }
        self.continued = None;
        self.gap.take().map(|(_, time)| time)
    }
}

/// Notes that it was so long.
pub fn note(time: Duration) {
    let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    TOTAL.fetch_add(time, Ordering::SeqCst);
}

/// What of a time that began at `before` of [`total`] is left without what was stopped.
pub fn without(time: Duration, before: Duration, after: Duration) -> Duration {
    time.saturating_sub(after.saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_and_the_signal_are_a_stop_in_any_order() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let (wait, long) = (Duration::from_millis(100), Duration::from_millis(5100));
        let stopped = Some(Duration::from_secs(5));
        let mut watch = Watch::default();
        assert_eq!(watch.waited(wait, long, at(0)), None);
        assert_eq!(watch.continued(at(10)), stopped);
        assert_eq!(watch.continued(at(9000)), None);
        assert_eq!(watch.waited(wait, long, at(9010)), stopped);
        // A slow machine is not stopped, and a short stop is none.
        assert_eq!(watch.waited(wait, long, at(20_000)), None);
        assert_eq!(watch.waited(wait, wait, at(25_000)), None);
        assert_eq!(watch.continued(at(25_010)), None);
        assert_eq!(watch.waited(wait, wait * 2, at(25_020)), None);
    }

    #[test]
    fn what_was_stopped_is_no_time() {
        let seconds = Duration::from_secs;
        assert_eq!(without(seconds(9), seconds(1), seconds(6)), seconds(4));
        assert_eq!(without(seconds(9), seconds(0), seconds(20)), seconds(0));
    }
}
