//! Threads that stay awake through a forward pass. Between two products of a decoded token lie a few microseconds, and
//! to be woken takes a thread longer than that.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rayon::Yield;

/// Times that a thread asks for work at once, before it lets the system run something else in between.
const SPINS: usize = 256;

/// Runs `pass`, inside a pool, while its other threads ask for work instead of falling asleep.
pub fn awake<R: Send>(pass: impl FnOnce() -> R + Send) -> R {
    let (here, ended) = (rayon::current_thread_index(), AtomicBool::new(false));
    rayon::in_place_scope(|scope| {
        scope.spawn_broadcast(|_, thread| {
            // This thread may come by here in the middle of the pass, and has to go on with it.
            if Some(thread.index()) != here {
                ask_until(&ended);
            }
        });
        let _end = End(&ended);
        pass()
    })
}

/// Ends the asking, also where the pass panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn ask_until(ended: &AtomicBool) {
    let mut idle = 0;
    while !ended.load(Ordering::Acquire) {
        if rayon::yield_now() == Some(Yield::Executed) {
            idle = 0;
        } else if idle < SPINS {
            idle += 1;
            spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rayon::prelude::*;

    use super::awake;

    fn in_pools(test: impl Fn() + Send + Sync) {
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().unwrap().install(&test);
        }
    }

    #[test]
    fn a_pass_gives_its_result_whatever_the_pool_and_also_inside_another() {
        in_pools(|| {
            let sum = || (0..10_000_u64).into_par_iter().sum::<u64>();
            for _ in 0..20 {
                assert_eq!(awake(|| sum() + awake(sum)), 2 * 49_995_000);
            }
        });
    }

    #[test]
    fn a_pass_that_panics_leaves_the_pool_usable() {
        in_pools(|| {
            let panics = AssertUnwindSafe(|| awake(|| panic!("in the pass")));
            assert!(catch_unwind(panics).is_err());
            assert_eq!((0..10_u64).into_par_iter().sum::<u64>(), 45);
        });
    }
}
