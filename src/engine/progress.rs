//! How far a load is, and whether it is to go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::{Cancel, Error};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// A load under way, shared by who does it and who waits for it. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct LoadProgress {
    state: Arc<State>,
    cancel: Cancel,
}

#[derive(Debug, Default)]
struct State {
    done: AtomicU64,
    total: AtomicU64,
    compiling: AtomicBool,
}

/// What a load is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStep {
    /// It reads what is on this machine.
    Opening,
    /// It writes weights to a device.
    Uploading {
        /// Bytes that are there.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// It runs every kernel once, so that those which are not on the disk from an earlier start are compiled.
    Compiling,
}

impl LoadProgress {
    /// What is done now.
    pub fn step(&self) -> LoadStep {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        match read(&self.state.total) {
            _ if self.state.compiling.load(Ordering::Relaxed) => LoadStep::Compiling,
            0 => LoadStep::Opening,
            total => LoadStep::Uploading {
                done: read(&self.state.done).min(total),
                total,
            },
        }
    }

    /// Asks the load to stop before its next step. What goes on without steps, as on the CPU, is not stopped.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Does `work`, and lets `look` see meanwhile how far it is.
    pub fn watched<T>(&self, mut look: impl FnMut(LoadStep) + Send, work: impl FnOnce() -> T) -> T {
        let (done, end) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    look(self.step());
                }
            });
            let result = work();
            drop(done);
            result
        })
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`Error::Stopped`] where not.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.cancel.is_cancelled() {
            Err(Error::Stopped)
        } else {
            Ok(())
        }
    }
}

/// For what is not the CPU.
#[cfg(any(test, feature = "wgpu", feature = "cuda"))]
impl LoadProgress {
    /// So many bytes are to be uploaded.
    pub(super) fn upload(&self, total: u64) {
        self.state.total.store(total, Ordering::Relaxed);
    }

    /// So many more are there.
    pub(super) fn uploaded(&self, bytes: usize) {
        self.state.done.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// All are.
    pub(super) fn compile(&self) {
        self.state.compiling.store(true, Ordering::Relaxed);
    }

    /// What stops a forward pass of the load.
    #[cfg_attr(test, allow(dead_code, reason = "in builds without devices"))]
    pub(super) const fn stop(&self) -> &Cancel {
        &self.cancel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_opens_uploads_and_compiles() {
        let progress = LoadProgress::default();
        assert_eq!(progress.step(), LoadStep::Opening);
        progress.upload(100);
        progress.clone().uploaded(70);
        let uploading = |done| LoadStep::Uploading { done, total: 100 };
        assert_eq!(progress.step(), uploading(70));
        progress.uploaded(40);
        assert_eq!(progress.step(), uploading(100));
        progress.compile();
        assert_eq!(progress.step(), LoadStep::Compiling);
        assert_eq!(progress.check(), Ok(()));
        progress.clone().cancel();
        assert_eq!(progress.check(), Err(Error::Stopped));
    }

    #[test]
    fn who_waits_sees_it_and_stops_with_the_work() {
        let progress = LoadProgress::default();
        let (seen, looks) = channel();
        let look = move |step| {
            let _ = seen.send(step);
        };
        let result = progress.watched(look, || {
            progress.upload(2);
            looks.recv().unwrap()
        });
        assert_eq!(result, LoadStep::Uploading { done: 0, total: 2 });
        assert!(looks.iter().count() < 1000);
    }
}
