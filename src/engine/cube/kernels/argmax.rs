//! The best of the logits: the largest, or the `k` largest. Only they are read back.
//!
//! Logits are compared as whole numbers in the same order, since devices may flush subnormal floats, or assume that
//! there is no NaN.

use cubecl::prelude::*;

use super::{Buffer, Gpu};

/// The most logits that [`top_k`] finds.
pub const MOST: usize = 64;

const UNITS: usize = 256;
/// The most cubes that search for the largest logit, before one cube compares what they found.
const CUBES: usize = 64;
/// Logits that one cube sorts.
const CHUNK: usize = 1024;

/// Room for what goes from one launch to the next: pairs of key and id, or what else a search among logits keeps of each
/// chunk of them.
pub struct Candidates {
    first: Buffer,
    second: Buffer,
}

impl Candidates {
    /// Room for the best of `vocab` logits.
    pub fn new<R: Runtime>(gpu: &Gpu<R>, vocab: usize) -> Self {
        let chunks = vocab.div_ceil(CHUNK);
        let again = (chunks * MOST).div_ceil(CHUNK);
        Self {
            first: gpu.empty(2 * MOST * chunks),
            second: gpu.empty(2 * MOST * again),
        }
    }

    /// Both rooms, each for at least a pair of words of each 1024 logits.
    pub const fn pairs(&self) -> (&Buffer, &Buffer) {
        (&self.first, &self.second)
    }
}

/// Words that [`argmax`] (`k = 1`) and [`top_k`] write: `k` ids, `k` values (the bits of f32) and a last word that is
/// 0 where all logits were finite.
pub const fn best_len(k: usize) -> usize {
    2 * k + 1
}

/// Ids and values of what was read back, or nothing where some logit was NaN or infinite.
pub fn best(words: &[u32]) -> Option<Vec<(u32, f32)>> {
    let (&not_finite, pairs) = words.split_last()?;
    let (ids, values) = pairs.split_at(pairs.len() / 2);
    let pair = |(&id, &bits)| (id, f32::from_bits(bits));
    (not_finite == 0).then(|| ids.iter().zip(values).map(pair).collect())
}

/// The key of what is not finite: above all others, so that it is found.
const NOT_FINITE: u32 = u32::MAX;
/// The id beside key 0, which no logit has.
const NOTHING: u32 = u32::MAX;
const SIGN: u32 = 0x8000_0000;
const EXPONENT: u32 = 0x7F80_0000;

/// Whether the logit with these bits is.
#[cube]
pub(super) fn is_finite(bits: u32) -> bool {
    (bits & EXPONENT) != EXPONENT
}

/// A number in the order of the logit with these bits. Both zeros are the same.
#[cube]
fn key_of(bits: u32) -> u32 {
    let bits = select(bits == SIGN, 0u32, bits);
    let key = bits ^ select(bits >= SIGN, u32::MAX, SIGN);
    select(is_finite(bits), key, NOT_FINITE)
}

/// The bits of the logit with this key.
#[cube]
fn bits_of(key: u32) -> u32 {
    key ^ select(key >= SIGN, SIGN, u32::MAX)
}

/// Whether a candidate comes before another: by value, then by id.
#[cube]
fn before(key: u32, id: u32, other_key: u32, other_id: u32) -> bool {
    key > other_key || (key == other_key && id < other_id)
}

/// Key and id of candidate `i`: of a logit, or of a pair of an earlier launch.
#[cube]
fn candidate(from: &Array<u32>, i: u32, #[comptime] logits: bool) -> (u32, u32) {
    if comptime!(logits) {
        (key_of(from[i as usize]), i)
    } else {
        let at = i as usize * 2;
        (from[at], from[at + 1])
    }
}

/// Writes the `i`-th best of `k` for the caller.
#[cube]
fn write_best(to: &mut Array<u32>, i: u32, k: u32, key: u32, id: u32) {
    to[i as usize] = id;
    to[(k + i) as usize] = bits_of(key);
    if i == 0u32 {
        to[(k * 2u32) as usize] = select(key == NOT_FINITE, 1u32, 0u32);
    }
}

/// Each cube finds the best of every `CUBE_COUNT_X`-th stretch of candidates.
#[cube(launch_unchecked)]
fn largest(
    from: &Array<u32>,
    to: &mut Array<u32>,
    count: u32,
    #[comptime] logits: bool,
    #[comptime] last: bool,
) {
    let mut keys = SharedMemory::<u32>::new(UNITS);
    let mut ids = SharedMemory::<u32>::new(UNITS);
    let unit = UNIT_POS as usize;
    let mut key = 0u32;
    let mut id = NOTHING.runtime();
    let mut i = CUBE_POS_X * comptime!(UNITS as u32) + UNIT_POS;
    while i < count {
        let (other_key, other_id) = candidate(from, i, logits);
        let better = before(other_key, other_id, key, id);
        key = select(better, other_key, key);
        id = select(better, other_id, id);
        i += CUBE_COUNT_X * comptime!(UNITS as u32);
    }
    keys[unit] = key;
    ids[unit] = id;
    sync_cube();
    let mut half = comptime!(UNITS / 2).runtime();
    while half > 0 {
        if unit < half && before(keys[unit + half], ids[unit + half], keys[unit], ids[unit]) {
            keys[unit] = keys[unit + half];
            ids[unit] = ids[unit + half];
        }
        sync_cube();
        half /= 2;
    }
    if unit == 0 {
        if comptime!(last) {
            write_best(to, 0u32, 1u32, keys[0], ids[0]);
        } else {
            to[CUBE_POS_X as usize * 2] = keys[0];
            to[CUBE_POS_X as usize * 2 + 1] = ids[0];
        }
    }
}

/// The largest of the logits `[vocab]`, the smallest id of those that are equal: `found`, [`best_len`]`(1)` words.
pub fn argmax<R: Runtime>(gpu: &Gpu<R>, logits: &Buffer, candidates: &Candidates, found: &Buffer) {
    let vocab = logits.len;
    assert!(vocab > 0 && vocab < 1 << 31, "{vocab} logits");
    assert_eq!(found.len, best_len(1));
    let cubes = vocab.div_ceil(UNITS).min(CUBES);
    let between = &candidates.first;
    assert!(between.len >= 2 * cubes, "candidates of fewer logits");
    let launch = |cubes: usize, from: &Buffer, to: &Buffer, count: usize, logits, last| {
        gpu.count();
        // SAFETY: candidates are guarded by their number; `to` has room for a pair of each cube, or for the best.
        #[allow(unsafe_code, reason = "a kernel without bounds checks")]
        unsafe {
            largest::launch_unchecked::<R>(
                &gpu.client,
                CubeCount::new_1d(cubes as u32),
                CubeDim::new_1d(UNITS as u32),
                from.arg(),
                to.arg(),
                count as u32,
                logits,
                last,
            );
        }
    };
    launch(cubes, logits, between, vocab, true, false);
    launch(1, between, found, cubes, false, true);
}

/// Each cube sorts [`CHUNK`] candidates and hands on the `k` best of them, in order.
#[cube(launch_unchecked)]
fn best_of_chunk(
    from: &Array<u32>,
    to: &mut Array<u32>,
    count: u32,
    k: u32,
    #[comptime] logits: bool,
    #[comptime] last: bool,
) {
    let mut keys = SharedMemory::<u32>::new(CHUNK);
    let mut ids = SharedMemory::<u32>::new(CHUNK);
    let unit = UNIT_POS as usize;
    #[unroll]
    for part in 0..comptime!(CHUNK / UNITS) {
        let at = part * UNITS + unit;
        let i = CUBE_POS_X * comptime!(CHUNK as u32) + at as u32;
        keys[at] = 0u32;
        ids[at] = NOTHING.runtime();
        if i < count {
            let (key, id) = candidate(from, i, logits);
            keys[at] = key;
            ids[at] = id;
        }
    }
    sync_cube();

    // A bitonic sort: runs of `size` are sorted, every other one backwards, until one run is all.
    let mut size = 2usize.runtime();
    while size <= CHUNK {
        let mut stride = size / 2;
        while stride > 0 {
            #[unroll]
            for part in 0..comptime!(CHUNK / UNITS / 2) {
                let pair = part * UNITS + unit;
                let low = 2 * pair - (pair & (stride - 1));
                let high = low + stride;
                let (low_key, low_id) = (keys[low], ids[low]);
                let (high_key, high_id) = (keys[high], ids[high]);
                let forwards = (low & size) == 0;
                if before(high_key, high_id, low_key, low_id) == forwards {
                    keys[low] = high_key;
                    ids[low] = high_id;
                    keys[high] = low_key;
                    ids[high] = low_id;
                }
            }
            sync_cube();
            stride /= 2;
        }
        size *= 2;
    }

    if UNIT_POS < k {
        if comptime!(last) {
            write_best(to, UNIT_POS, k, keys[unit], ids[unit]);
        } else {
            let at = (CUBE_POS_X * k + UNIT_POS) as usize * 2;
            to[at] = keys[unit];
            to[at + 1] = ids[unit];
        }
    }
}

/// The `k` largest of the logits `[vocab]`, falling, of equal ones the smaller id first: `found`, [`best_len`]`(k)`
/// words. `k` is no more than [`MOST`] or the number of logits.
pub fn top_k<R: Runtime>(
    gpu: &Gpu<R>,
    logits: &Buffer,
    k: usize,
    candidates: &Candidates,
    found: &Buffer,
) {
    let vocab = logits.len;
    assert!(vocab < 1 << 31, "{vocab} logits");
    assert!(k > 0 && k <= MOST && k <= vocab, "the best {k} of {vocab}");
    assert_eq!(found.len, best_len(k));
    let (mut from, mut count) = (logits, vocab);
    let (mut to, mut next) = (&candidates.first, &candidates.second);
    loop {
        let cubes = count.div_ceil(CHUNK);
        let last = cubes == 1;
        if last {
            to = found;
        } else {
            assert!(to.len >= 2 * k * cubes, "candidates of fewer logits");
        }
        gpu.count();
        // SAFETY: candidates are guarded by their number; `to` has room for k pairs of each cube, or for the best.
        #[allow(unsafe_code, reason = "a kernel without bounds checks")]
        unsafe {
            best_of_chunk::launch_unchecked::<R>(
                &gpu.client,
                CubeCount::new_1d(cubes as u32),
                CubeDim::new_1d(UNITS as u32),
                from.arg(),
                to.arg(),
                count as u32,
                k as u32,
                std::ptr::eq(from, logits),
                last,
            );
        }
        if last {
            return;
        }
        (from, count) = (to, cubes * k);
        (to, next) = (next, to);
    }
}

#[cfg(test)]
mod tests;
