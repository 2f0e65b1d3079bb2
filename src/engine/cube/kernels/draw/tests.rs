use cubecl::wgpu::WgpuRuntime;

use super::super::testing::{Numbers, gpus, read_words};
use super::*;

/// How far from the border between two ids either may be found.
const BORDER: f64 = 1e-5;
/// The largest f64 below 1.
const LAST: f64 = 1.0 - f64::EPSILON / 2.0;

/// The probabilities in f64, and their sums up to and with each id.
fn twin(logits: &[f32], temperature: f32, min_p: f32) -> (Vec<f64>, Vec<f64>) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let probability = |&logit: &f32| {
        let p = ((f64::from(logit) - f64::from(largest)) / f64::from(temperature)).exp();
        if p < f64::from(min_p) { 0.0 } else { p }
    };
    let mut probabilities: Vec<f64> = logits.iter().map(probability).collect();
    let total: f64 = probabilities.iter().sum();
    let mut sum = 0.0;
    let sums = probabilities.iter_mut().map(|p| {
        *p /= total;
        sum += *p;
        sum
    });
    let sums = sums.collect();
    (probabilities, sums)
}

fn run(gpu: &Gpu<WgpuRuntime>, logits: &Buffer, one: Draw) -> Drawn {
    let found = gpu.upload(&[77_u32; DRAWN]);
    let candidates = Candidates::new(gpu, logits.len);
    draw(gpu, logits, one, &candidates, &found);
    drawn(&read_words(gpu, &found))
}

fn check_at(gpu: &Gpu<WgpuRuntime>, logits: &[f32], temperature: f32, min_p: f32, ats: &[f64]) {
    let (probabilities, sums) = twin(logits, temperature, min_p);
    let uploaded = gpu.upload(logits);
    for &at in ats {
        let one = Draw {
            temperature,
            min_p,
            at,
        };
        let id = run(gpu, &uploaded, one).unwrap() as usize;
        let what = format!("{id} of {} by {one:?}", logits.len());
        // A probability that f32 does not have is none.
        assert!(probabilities[id] as f32 > 0.0, "{what} cannot be");
        let (from, to) = (sums[id] - probabilities[id], sums[id]);
        assert!(
            from - BORDER <= at && at < to + BORDER,
            "{what}, which has {from} to {to}"
        );
    }
}

/// At both ends and between.
fn check(gpu: &Gpu<WgpuRuntime>, logits: &[f32], temperature: f32, min_p: f32) {
    let ats = [0.0, 1e-3, 0.25, 0.499, 0.7123, 0.999, 1.0 - 1e-7, LAST];
    check_at(gpu, logits, temperature, min_p, &ats);
}

fn logits(seed: u64, vocab: usize, size: f32) -> Vec<f32> {
    let values = Numbers::new(seed).values(vocab);
    values.iter().map(|x| size * x).collect()
}

#[test]
fn draws_fall_where_the_softmax_has_them() {
    for gpu in gpus() {
        for vocab in [1, 2, 255, 1023, 1024, 1025, 2944, 20_011] {
            let logits = logits(5, vocab, 8.0);
            for temperature in [0.01, 0.7, 1.0, 100.0] {
                check(&gpu, &logits, temperature, 0.0);
                check(&gpu, &logits, temperature, 0.3);
            }
        }
    }
}

#[test]
fn the_whole_vocabulary() {
    let mut logits = logits(6, 201_088, 6.0);
    // As a model is: most of it in a few tokens.
    for (id, logit) in [(7, 15.0), (120_000, 16.5), (201_087, 14.0)] {
        logits[id] = logit;
    }
    for gpu in gpus() {
        let ats: Vec<f64> = (0..64).map(|i| f64::from(i) / 64.0 + 0.003).collect();
        for (min_p, launches) in [(0.0, 2), (1e-4, 3)] {
            check(&gpu, &logits, 1.0, min_p);
            let before = gpu.launches();
            check_at(&gpu, &logits, 1.0, min_p, &ats);
            assert_eq!(gpu.launches() - before, 64 * launches);
        }
    }
}

#[test]
fn more_blocks_than_units() {
    // Two blocks to a unit, of which some have nothing.
    let blocks = UNITS + 37;
    let mut logits = logits(7, blocks * BLOCK - 5, 3.0);
    logits[9 * BLOCK..14 * BLOCK].fill(-500.0);
    logits[280 * BLOCK..].fill(-500.0);
    for gpu in gpus() {
        check(&gpu, &logits, 1.0, 0.0);
        check(&gpu, &logits, 1.0, 0.1);
    }
}

#[test]
fn equal_logits_share_equally() {
    for gpu in gpus() {
        for vocab in [3, 1000, 5000] {
            check(&gpu, &vec![-2.5; vocab], 1.0, 0.0);
            check(&gpu, &vec![-2.5; vocab], 0.01, 1.0);
        }
        // Both zeros are one number, and the only ones that `min_p` leaves.
        let mut logits = vec![-1.0; 2100];
        for (id, zero) in [(3, -0.0), (1500, 0.0), (1501, -0.0)] {
            logits[id] = zero;
        }
        check(&gpu, &logits, 1.0, 1.0);
    }
}

#[test]
fn a_token_that_has_it_all_is_the_one() {
    for gpu in gpus() {
        for id in [0, 1023, 1024, 2051, 2999] {
            let mut logits = vec![-20.0; 3000];
            logits[id] = 100.0;
            check(&gpu, &logits, 1.0, 0.0);
            check(&gpu, &logits, 0.01, 0.9);
            // Not at this temperature.
            check(&gpu, &logits, 100.0, 0.0);
        }
    }
}

#[test]
fn nothing_of_probability_0_is_drawn_at_either_end() {
    for gpu in gpus() {
        for (first, last) in [(0, 1), (5, 7), (1000, 2100), (1024, 2048), (2047, 4000)] {
            // The least that is left out, between, before and behind.
            let mut logits = vec![-120.0; 4500];
            for logit in logits[first..last].iter_mut().step_by(3) {
                *logit = 0.5;
            }
            check(&gpu, &logits, 1.0, 0.0);
            for logit in &mut logits {
                *logit /= 100.0;
            }
            check(&gpu, &logits, 1.0, 0.9);
        }
    }
}

#[test]
fn extremes_are_finite() {
    for gpu in gpus() {
        for temperature in [1e-40, 0.01, 100.0] {
            let mut logits = vec![f32::MIN; 1300];
            check(&gpu, &logits, temperature, 0.0);
            logits[1299] = f32::MAX;
            check(&gpu, &logits, temperature, 0.0);
            check(&gpu, &logits, temperature, 0.5);
            logits[0] = f32::MAX;
            check(&gpu, &logits, temperature, 0.0);
        }
    }
}

#[test]
fn shares_of_many_draws_are_the_probabilities() {
    const GRID: usize = 2000;
    // Across the border of two blocks, with others that are left out.
    let mut logits = vec![-300.0; 1030];
    let ids: Vec<usize> = (1018..1030).step_by(2).collect();
    for (&id, logit) in ids.iter().zip([0.1, -2.0, 1.7, 0.0, -0.6, 1.1]) {
        logits[id] = logit;
    }
    for gpu in gpus() {
        let uploaded = gpu.upload(&logits);
        for (temperature, min_p) in [(1.0, 0.0), (2.5, 0.0), (1.0, 0.15)] {
            let mut counts = vec![0; logits.len()];
            for i in 0..GRID {
                let at = (i as f64 + 0.5) / GRID as f64;
                let one = Draw {
                    temperature,
                    min_p,
                    at,
                };
                counts[run(&gpu, &uploaded, one).unwrap() as usize] += 1;
            }
            let (probabilities, _) = twin(&logits, temperature, min_p);
            for (id, (&count, p)) in counts.iter().zip(probabilities).enumerate() {
                // Of an even grid, a share has its own number of points, or one more or less.
                let expected = p * GRID as f64;
                let fits = (f64::from(count) - expected).abs() <= 1.0 + 1e-3;
                assert!(fits, "id {id}: {count} draws, expected {expected}");
            }
        }
    }
}

#[test]
fn what_is_not_finite_is_reported_wherever_it_is() {
    let mut logits = logits(8, 2503, 1.0);
    for gpu in gpus() {
        for min_p in [0.0, 0.2] {
            let one = Draw {
                temperature: 1.0,
                min_p,
                at: 0.4,
            };
            for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for at in [0, 1023, 1024, 1777, 2502] {
                    let good = std::mem::replace(&mut logits[at], bad);
                    assert_eq!(run(&gpu, &gpu.upload(&logits), one), None, "{bad} at {at}");
                    logits[at] = good;
                }
            }
            assert_eq!(run(&gpu, &gpu.upload(&[f32::NAN; 5]), one), None);
            assert!(run(&gpu, &gpu.upload(&logits), one).is_some());
        }
    }
}
