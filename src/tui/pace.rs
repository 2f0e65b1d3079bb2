//! When to draw and when to tick: at most about sixty pictures a second, and none where nothing changed.

use std::time::{Duration, Instant};

/// Between two pictures.
const FRAME: Duration = Duration::from_millis(16);
/// Between two ticks, while something moves.
const TICK: Duration = Duration::from_millis(100);

/// What was drawn last, and what has happened since.
#[derive(Debug, Default)]
pub struct Pace {
    dirty: bool,
    drawn: Option<Instant>,
    ticked: Option<Instant>,
}

impl Pace {
    /// The state is not the one on the screen any more.
    pub fn changed(&mut self) {
        self.dirty = true;
    }

    /// The state is on the screen.
    pub fn drawn(&mut self, now: Instant) {
        self.dirty = false;
        self.drawn = Some(now);
    }

    /// Whether to draw now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.dirty && left(self.drawn, FRAME, now).is_zero()
    }

    /// Whether a tick is due; then it counts as given.
    pub fn ticks(&mut self, now: Instant) -> bool {
        let due = left(self.ticked, TICK, now).is_zero();
        if due {
            self.ticked = Some(now);
        }
        due
    }

    /// How long nothing is to be done, unless something happens; `None` for ever.
    pub fn wait(&self, now: Instant, animated: bool) -> Option<Duration> {
        let frame = self.dirty.then(|| left(self.drawn, FRAME, now));
        let tick = animated.then(|| left(self.ticked, TICK, now));
        match (frame, tick) {
            (Some(frame), Some(tick)) => Some(frame.min(tick)),
            (one, other) => one.or(other),
        }
    }
}

/// What of `period` is left since `last`.
fn left(last: Option<Instant>, period: Duration, now: Instant) -> Duration {
    last.map_or(Duration::ZERO, |last| {
        (last + period).saturating_duration_since(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changes_in_one_frame_are_one_picture() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut pace = Pace::default();
        assert!(!pace.is_due(start), "nothing has changed");
        let mut pictures = 0;
        // A token every millisecond for a second.
        for millisecond in 0..1000 {
            pace.changed();
            if pace.is_due(at(millisecond)) {
                pictures += 1;
                pace.drawn(at(millisecond));
            }
        }
        assert_eq!(pictures, 63);
        pace.drawn(at(1008));
        assert!(!pace.is_due(at(5000)));
    }

    #[test]
    fn waits_for_the_next_picture_or_tick_and_otherwise_for_ever() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.wait(start, false), None);
        assert_eq!(pace.wait(start, true), Some(Duration::ZERO));
        assert!(pace.ticks(start));
        assert!(!pace.ticks(start));
        assert_eq!(pace.wait(start, true), Some(TICK));
        pace.drawn(start);
        pace.changed();
        assert_eq!(pace.wait(start, true), Some(FRAME));
        assert_eq!(pace.wait(start + FRAME, true), Some(Duration::ZERO));
    }
}
