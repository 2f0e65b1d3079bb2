//! Ctrl-C and SIGTERM: the first asks the run to stop and keep what it has, the second ends the process.
//! One key press or one `timeout` may arrive twice, from the terminal and from a program in between.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Exit;
use crate::session::Cancel;

/// Signals closer together than this are one: nobody presses a key twice as fast on purpose.
const ONE_SIGNAL: Duration = Duration::from_millis(150);

/// What the signal thread and the run share.
#[derive(Debug, Default)]
struct State {
    /// What to cancel; before there is anything to keep, a signal ends the process at once.
    armed: Option<Cancel>,
    /// The first signal and when it came.
    received: Option<(Exit, Instant)>,
}

/// The signals of this process, from [`Interrupt::install`] on.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Mutex<State>>);

impl Interrupt {
    /// Takes over Ctrl-C and SIGTERM; `on_exit` runs before a signal ends the process.
    ///
    /// # Errors
    /// When the system does not let the process handle signals.
    #[cfg(unix)]
    pub fn install(on_exit: impl Fn() + Send + 'static) -> io::Result<Self> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let interrupt = Self::default();
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let seen = interrupt.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    let exit = if signal == SIGTERM {
                        Exit::Terminated
                    } else {
                        Exit::Interrupted
                    };
                    if !seen.signal(exit, Instant::now()) {
                        on_exit();
                        std::process::exit(exit.code().into());
                    }
                }
            })?;
        Ok(interrupt)
    }

    /// Elsewhere the system's own handling stands: Ctrl-C ends the process.
    #[cfg(not(unix))]
    pub fn install(_on_exit: impl Fn() + Send + 'static) -> io::Result<Self> {
        Ok(Self::default())
    }

    /// From now on the first signal cancels this.
    pub fn arm(&self, cancel: &Cancel) {
        self.state().armed = Some(cancel.clone());
    }

    /// The exit code owed to a signal that came.
    pub fn received(&self) -> Option<Exit> {
        self.state().received.map(|(exit, _)| exit)
    }

    /// Takes a signal; `false` when the process is to end now.
    #[cfg_attr(not(unix), allow(dead_code))]
    fn signal(&self, exit: Exit, now: Instant) -> bool {
        let mut state = self.state();
        match (&state.armed, state.received) {
            (Some(cancel), None) => {
                cancel.cancel();
                state.received = Some((exit, now));
                true
            }
            (Some(_), Some((_, first))) => now.duration_since(first) < ONE_SIGNAL,
            (None, _) => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_cancels_and_the_second_ends_the_process() {
        let (interrupt, cancel) = (Interrupt::default(), Cancel::new());
        interrupt.arm(&cancel);
        let first = Instant::now();
        assert!(interrupt.signal(Exit::Terminated, first));
        assert!(cancel.is_cancelled());
        assert!(!interrupt.signal(Exit::Interrupted, first + Duration::from_millis(200)));
        assert_eq!(interrupt.received(), Some(Exit::Terminated));
    }

    #[test]
    fn a_signal_before_there_is_anything_to_keep_ends_the_process() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.signal(Exit::Interrupted, Instant::now()));
        assert_eq!(interrupt.received(), None);
    }

    #[test]
    fn a_signal_that_arrives_twice_is_one() {
        let interrupt = Interrupt::default();
        interrupt.arm(&Cancel::new());
        let first = Instant::now();
        for later in [0, 1, 100] {
            let now = first + Duration::from_millis(later);
            assert!(interrupt.signal(Exit::Interrupted, now), "{later} ms");
        }
        assert_eq!(interrupt.received(), Some(Exit::Interrupted));
    }
}
