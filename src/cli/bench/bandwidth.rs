//! How fast memory is read here, with as many threads as the engine has.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// How long one reading takes, without filling the buffer.
const TIME: Duration = Duration::from_millis(300);
/// The buffer, all threads together.
const LEAST: usize = 128 << 20;
const MOST: usize = 512 << 20;

/// Bytes a second that `threads` threads read from memory of their own, each from beginning to end again and
/// again, as the weights are read.
pub fn measure(threads: usize) -> f64 {
    reading(threads, buffer(last_cache()) / threads, TIME)
}

/// Four times the last cache, so that little of it is still there when its turn comes again.
fn buffer(last_cache: Option<usize>) -> usize {
    last_cache.map_or(2 * LEAST, |size| (4 * size).clamp(LEAST, MOST))
}

fn reading(threads: usize, bytes: usize, time: Duration) -> f64 {
    let begin = Barrier::new(threads);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let words = vec![1_u64; bytes.div_ceil(size_of::<u64>())];
                    begin.wait();
                    let start = Instant::now();
                    let mut passes = 0;
                    while start.elapsed() < time {
                        black_box(sum(black_box(&words)));
                        passes += 1;
                    }
                    (passes * size_of_val(&*words)) as f64 / start.elapsed().as_secs_f64()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .sum()
    })
}

/// The compiler makes vector code of it that waits for memory alone.
fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// Bytes of the largest cache of the first core, where the system tells (Linux).
fn last_cache() -> Option<usize> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    caches
        .filter_map(|cache| std::fs::read_to_string(cache.ok()?.path().join("size")).ok())
        .filter_map(|size| Some(size.trim().strip_suffix('K')?.parse::<usize>().ok()? << 10))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_larger_than_the_last_cache_and_at_most_512_mb() {
        assert_eq!(buffer(Some(32 << 20)), 128 << 20);
        assert_eq!(buffer(Some(96 << 20)), 384 << 20);
        assert_eq!(buffer(Some(1 << 30)), 512 << 20);
        assert_eq!(buffer(None), 256 << 20);
    }

    #[test]
    fn every_word_is_read() {
        let words: Vec<u64> = (0..1600).collect();
        assert_eq!(sum(&words), 1600 * 1599 / 2);
    }

    #[test]
    fn a_reading_is_a_believable_number_of_bytes_a_second() {
        let bandwidth = reading(2, 1 << 20, Duration::from_millis(5));
        assert!((1e8..1e13).contains(&bandwidth), "{bandwidth}");
    }
}
