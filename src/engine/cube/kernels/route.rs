//! The router's choice: which experts a token uses, and how much of each.

use cubecl::prelude::*;

use super::{Buffer, Gpu};

/// Where NaN is ordered: above everything, so that it is chosen and seen in the result.
const NAN_KEY: u32 = 0xFFFF_FFFF;

/// The `top_k` experts of each of `n` tokens by their logits `[n, experts]`, falling, of equal logits the first.
///
/// Writes their numbers to `ids` `[n, top_k]` (u32) and the softmax over the chosen logits alone to `weights`
/// `[n, top_k]` (f32). All ids are below `experts`, whatever the logits are.
pub fn route<R: Runtime>(
    gpu: &Gpu<R>,
    logits: &Buffer,
    n: usize,
    experts: usize,
    top_k: usize,
    ids: &Buffer,
    weights: &Buffer,
) {
    assert!(n > 0 && 0 < top_k && top_k <= experts && experts <= 256);
    assert!(logits.len >= n * experts && ids.len >= n * top_k && weights.len >= n * top_k);
    let units = experts.next_multiple_of(32) as u32;
    // wgpu has no more cubes than this in one dimension.
    let across = (n as u32).min(65_535);
    gpu.count();
    // SAFETY: a cube of a token below n reads `experts` logits of it and writes its `top_k` entries, one of each
    // rank; the lengths are asserted above.
    #[allow(unsafe_code, reason = "kernels without bounds checks")]
    unsafe {
        choose::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static(across, (n as u32).div_ceil(across), 1),
            CubeDim::new_1d(units),
            logits.arg(),
            ids.arg(),
            weights.arg(),
            n as u32,
            experts as u32,
            top_k,
            units as usize,
        );
    }
}

/// One cube for each token, one unit for each expert: its rank is the number of experts before it.
#[cube(launch_unchecked)]
fn choose(
    logits: &Array<f32>,
    ids: &mut Array<u32>,
    weights: &mut Array<f32>,
    n: u32,
    experts: u32,
    #[comptime] top_k: usize,
    #[comptime] units: usize,
) {
    let token = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
    if token >= n {
        terminate!();
    }
    let mut keys = SharedMemory::<u32>::new(units);
    let mut chosen = SharedMemory::<f32>::new(top_k);
    let expert = UNIT_POS_X;
    let logit = logits[(token * experts + u32::min(expert, experts - 1)) as usize];
    let key = order_key(logit);
    keys[expert as usize] = key;
    sync_cube();

    let mut rank = 0u32;
    for other in 0..experts {
        let above = keys[other as usize];
        let before = above > key || (above == key && other < expert);
        rank += select(before, 1u32, 0u32);
    }
    let taken = expert < experts && rank < top_k as u32;
    if taken {
        chosen[rank as usize] = logit;
        ids[token as usize * top_k + rank as usize] = expert;
    }
    sync_cube();

    if taken {
        let mut sum = 0.0f32;
        #[unroll]
        for i in 0..top_k {
            sum += f32::exp(chosen[i] - chosen[0]);
        }
        weights[token as usize * top_k + rank as usize] = f32::exp(logit - chosen[0]) / sum;
    }
}

/// A whole number that is ordered as the f32 is, with both zeros equal. Whole numbers, since compilers may take it
/// that no f32 is NaN.
#[cube]
fn order_key(x: f32) -> u32 {
    let bits = u32::reinterpret(x);
    let magnitude = bits & 0x7FFF_FFFFu32;
    let negative = magnitude != bits && magnitude != 0u32;
    let key = select(negative, !bits, magnitude | 0x8000_0000u32);
    select(magnitude > 0x7F80_0000u32, NAN_KEY, key)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Numbers, gpus, read, read_words};
    use super::*;

    /// The obvious choice: a stable sort by falling logit.
    fn twin(logits: &[f32], top_k: usize) -> (Vec<u32>, Vec<f64>) {
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        ids.sort_by(|&a, &b| {
            logits[b as usize]
                .partial_cmp(&logits[a as usize])
                .expect("numbers")
        });
        ids.truncate(top_k);
        let chosen: Vec<f64> = ids
            .iter()
            .map(|&id| f64::from(logits[id as usize]))
            .collect();
        let exps: Vec<f64> = chosen
            .iter()
            .map(|logit| (logit - chosen[0]).exp())
            .collect();
        let sum: f64 = exps.iter().sum();
        (ids, exps.iter().map(|exp| exp / sum).collect())
    }

    fn routed(logits: &[f32], n: usize, top_k: usize) -> Vec<(Vec<u32>, Vec<f32>)> {
        gpus()
            .iter()
            .map(|gpu| {
                let uploaded = gpu.upload(logits);
                let (ids, weights) = (gpu.empty(n * top_k), gpu.empty(n * top_k));
                route(gpu, &uploaded, n, logits.len() / n, top_k, &ids, &weights);
                assert_eq!(gpu.launches(), 1);
                (read_words(gpu, &ids), read(gpu, &weights))
            })
            .collect()
    }

    fn check(logits: &[f32], n: usize, top_k: usize) {
        for (ids, weights) in routed(logits, n, top_k) {
            for (token, logits) in logits.chunks(logits.len() / n).enumerate() {
                let (expected_ids, expected_weights) = twin(logits, top_k);
                assert_eq!(ids[token * top_k..][..top_k], expected_ids, "token {token}");
                for (found, expected) in weights[token * top_k..].iter().zip(expected_weights) {
                    assert!(
                        (f64::from(*found) - expected).abs() < 1e-6,
                        "{found}, expected {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_largest_logits_of_each_token() {
        for (n, experts, top_k) in [
            (1, 32, 4),
            (3, 128, 4),
            (17, 8, 2),
            (2, 33, 4),
            (5, 4, 4),
            (1, 1, 1),
        ] {
            let logits: Vec<f32> = Numbers::new(experts as u64)
                .values(n * experts)
                .iter()
                .map(|v| 20.0 * v)
                .collect();
            check(&logits, n, top_k);
        }
    }

    #[test]
    fn of_equal_logits_the_first() {
        check(&[1.0; 32], 1, 4);
        check(&[-2.0, 0.5, -3.0, 0.5, -2.0, 0.5, -2.0, -2.0], 1, 4);
        // Both zeros are one number.
        check(&[-1.0, -0.0, 0.0, -1.0, 0.0, -0.0, -5.0, -7.0], 1, 4);
        check(
            &[
                f32::MIN,
                -1.0e-30,
                1.0e-30,
                f32::MAX / 4.0,
                -1.0,
                -100.0,
                -3.0e-30,
                -0.5,
            ],
            1,
            4,
        );
    }

    #[test]
    fn more_tokens_than_a_row_of_cubes() {
        let n = 65_536 + 3;
        let logits = Numbers::new(1).values(n * 2);
        check(&logits, n, 1);
    }

    #[test]
    fn nan_is_chosen_and_seen_and_ids_stay_ids() {
        let mut logits = Numbers::new(9).values(32);
        logits[5] = f32::NAN;
        logits[20] = -f32::NAN;
        for (ids, weights) in routed(&logits, 1, 4) {
            assert_eq!(ids[..2], [5, 20]);
            assert!(ids[2..].iter().all(|&id| id < 32 && id != 5 && id != 20));
            assert!(weights.iter().all(|weight| weight.is_nan()));
        }
        for (ids, _) in routed(&[f32::NAN; 32], 1, 4) {
            assert_eq!(ids, [0, 1, 2, 3]);
        }
    }
}
