//! How fast a download is, and how long it takes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The rate is that of this time.
const WINDOW: Duration = Duration::from_secs(5);
/// Without bytes for so long, the network is what is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The download under way.
#[derive(Debug, Default)]
pub(crate) struct Download {
    /// What was there when, over the last [`WINDOW`].
    samples: VecDeque<(Instant, u64)>,
    /// Since when nothing more came.
    still: Option<(Instant, u64)>,
}

impl Download {
    /// So much is there now.
    pub fn tick(&mut self, now: Instant, done: u64) {
        if self.still.is_none_or(|(_, before)| before != done) {
            self.still = Some((now, done));
        }
        self.samples.push_back((now, done));
        while let Some((at, _)) = self.samples.get(1)
            && now.saturating_duration_since(*at) >= WINDOW
        {
            self.samples.pop_front();
        }
    }

    /// Bytes per second, once that can be told.
    pub fn rate(&self) -> Option<f64> {
        let (since, before) = self.samples.front()?;
        let (now, done) = self.samples.back()?;
        let seconds = now.saturating_duration_since(*since).as_secs_f64();
        let more = done.saturating_sub(*before);
        (more > 0 && seconds >= 0.5).then(|| more as f64 / seconds)
    }

    /// How long the rest takes.
    pub fn left(&self, total: u64) -> Option<Duration> {
        let (_, done) = self.samples.back()?;
        let seconds = total.saturating_sub(*done) as f64 / self.rate()?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Nothing has come for a while.
    pub fn is_waiting(&self) -> bool {
        match (self.still, self.samples.back()) {
            (Some((since, _)), Some((now, _))) => now.saturating_duration_since(since) >= PATIENCE,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds_and_silence_is_noticed() {
        let start = Instant::now();
        let mut download = Download::default();
        let mut done = 0;
        let mut second = 0;
        let mut go = |download: &mut Download, seconds: u64, rate: u64| {
            for _ in 0..seconds {
                second += 1;
                done += rate;
                download.tick(start + Duration::from_secs(second), done);
            }
        };
        go(&mut download, 1, 100);
        assert_eq!(download.rate(), None);
        go(&mut download, 10, 100);
        assert_eq!(download.rate(), Some(100.0));
        assert_eq!(download.left(2100), Some(Duration::from_secs(10)));
        go(&mut download, 5, 200);
        assert_eq!(download.rate(), Some(200.0));
        go(&mut download, 4, 0);
        assert!(!download.is_waiting());
        go(&mut download, 1, 0);
        assert!(download.is_waiting());
        assert_eq!((download.rate(), download.left(9999)), (None, None));
        go(&mut download, 1, 1);
        assert!(!download.is_waiting());
    }
}
