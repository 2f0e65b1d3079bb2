//! A draw among all tokens, as [`sampler::draw`](crate::engine::sampler::draw) makes it: of the logits nothing is read
//! back but the id.
//!
//! Each cube adds up what its block of logits weighs, relative to the largest of them; then one cube joins the blocks,
//! finds the one in which the draw lies, and the token in it. Tokens below `min_p` can only be told once the
//! largest logit of all is known: then the blocks are weighed again.
#![allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "kernels lend shared memory"
)]

use cubecl::prelude::*;

use super::argmax::{Candidates, is_finite};
use super::sums::joined;
use super::{Buffer, Gpu};
use crate::engine::{Draw, Drawn};

/// Words that [`draw`] writes: the id, and one that is 0 where all logits were finite.
pub const DRAWN: usize = 2;

const UNITS: usize = 256;
/// Logits of one unit, which lie side by side.
const EACH: usize = 4;
/// Logits of one cube.
const BLOCK: usize = UNITS * EACH;
/// Units whose weights are added up in their order; so many such groups are a cube.
const GROUP: usize = 16;

/// Where the exponent is cut: below it, a weight is no normal f32, and devices may take it for 0.
const FURTHEST: f32 = 87.0;
/// The weight of what is not finite: more than all the others can make up for.
const NOT_FINITE: f32 = -1e30;
/// A logit that no other is below.
const LOWEST: f32 = f32::MIN;

/// The id of what was read back, or nothing where some logit was NaN or infinite.
pub fn drawn(words: &[u32]) -> Drawn {
    let (&id, &not_finite) = (words.first()?, words.get(1)?);
    (not_finite == 0).then_some(id)
}

/// `exp((logit - largest) / temperature)`, or 0 for a logit that is further than `span` below the largest.
#[cube]
fn share(logit: f32, largest: f32, temperature: f32, span: f32) -> f32 {
    let x = f32::max((logit - largest) / temperature, -FURTHEST);
    select(logit >= largest - span, f32::exp(x), 0.0f32)
}

/// The [`share()`] of logit `i`: [`NOT_FINITE`] where it is not, 0 behind the last.
#[cube]
fn weight(
    logits: &Array<f32>,
    i: u32,
    count: u32,
    largest: f32,
    temperature: f32,
    span: f32,
) -> f32 {
    let logit = logits[u32::min(i, count - 1u32) as usize];
    let weight = share(logit, largest, temperature, span);
    let weight = select(is_finite(u32::reinterpret(logit)), weight, NOT_FINITE);
    select(i < count, weight, 0.0f32)
}

/// What block `i` of `blocks`, pairs of a largest logit and the weight relative to it, weighs relative to `largest`; 0
/// behind the last.
#[cube]
fn block_weight(
    blocks: &Array<f32>,
    i: u32,
    count: u32,
    largest: f32,
    temperature: f32,
    span: f32,
) -> f32 {
    let at = u32::min(i, count - 1u32) as usize * 2;
    let weight = blocks[at + 1] * share(blocks[at], largest, temperature, span);
    let weight = select(blocks[at + 1] < 0.0f32, NOT_FINITE, weight);
    select(i < count, weight, 0.0f32)
}

/// The logits of this cube: writes `largest` and what all of them weigh relative to it.
#[cube]
fn weigh_block(
    room: &mut SharedMemory<f32>,
    logits: &Array<f32>,
    blocks: &mut Array<f32>,
    count: u32,
    largest: f32,
    temperature: f32,
    span: f32,
) {
    let first = CUBE_POS_X * comptime!(BLOCK as u32) + UNIT_POS;
    let mut sum = 0.0f32;
    #[unroll]
    for part in 0..EACH {
        let i = first + comptime!((part * UNITS) as u32);
        sum += weight(logits, i, count, largest, temperature, span);
    }
    let sum = joined(room, sum, UNITS, false);
    if UNIT_POS == 0 {
        blocks[CUBE_POS_X as usize * 2] = largest;
        blocks[CUBE_POS_X as usize * 2 + 1] = sum;
    }
}

/// Each cube weighs its block relative to the largest logit in it.
#[cube(launch_unchecked)]
fn weigh(logits: &Array<f32>, blocks: &mut Array<f32>, count: u32, temperature: f32, span: f32) {
    let mut room = SharedMemory::<f32>::new(UNITS);
    let first = CUBE_POS_X * comptime!(BLOCK as u32) + UNIT_POS;
    let mut largest = LOWEST.runtime();
    #[unroll]
    for part in 0..EACH {
        let i = first + comptime!((part * UNITS) as u32);
        // The last logit once more is no larger.
        let logit = logits[u32::min(i, count - 1u32) as usize];
        largest = f32::max(
            largest,
            select(is_finite(u32::reinterpret(logit)), logit, LOWEST),
        );
    }
    let largest = joined(&mut room, largest, UNITS, true);
    weigh_block(&mut room, logits, blocks, count, largest, temperature, span);
}

/// Each cube weighs its block relative to the largest of all logits, which is that of `weighed`.
#[cube(launch_unchecked)]
fn weigh_again(
    logits: &Array<f32>,
    weighed: &Array<f32>,
    blocks: &mut Array<f32>,
    count: u32,
    temperature: f32,
    span: f32,
) {
    let mut room = SharedMemory::<f32>::new(UNITS);
    let mut largest = LOWEST.runtime();
    let mut block = UNIT_POS;
    while block < CUBE_COUNT_X {
        largest = f32::max(largest, weighed[block as usize * 2]);
        block += comptime!(UNITS as u32);
    }
    let largest = joined(&mut room, largest, UNITS, true);
    weigh_block(&mut room, logits, blocks, count, largest, temperature, span);
}

/// A value of each unit, for all of them to read.
#[cube]
fn hold(units: &mut SharedMemory<f32>, value: f32) {
    // What was held before has been read.
    sync_cube();
    units[UNIT_POS as usize] = value;
    sync_cube();
}

/// Adds up the weights of all units in their order: `units` holds them, `groups` the sum of each group, and the result is
/// the sum of all.
#[cube]
fn add_up(units: &mut SharedMemory<f32>, groups: &mut SharedMemory<f32>, weight: f32) -> f32 {
    hold(units, weight);
    let unit = UNIT_POS as usize;
    if unit < comptime!(UNITS / GROUP) {
        let mut sum = 0.0f32;
        for i in 0..GROUP {
            sum += units[unit * GROUP + i];
        }
        groups[unit] = sum;
    }
    sync_cube();
    let mut total = 0.0f32;
    for i in 0..comptime!(UNITS / GROUP) {
        total += groups[i];
    }
    total
}

/// In which of the `weights` from `first` to before `end` it lies what is `left` further on, and how far into that.
///
/// What rounding leaves at the end falls into the last that weighs anything. Nothing of weight 0 is found beside others.
#[cube]
fn walk(weights: &SharedMemory<f32>, first: u32, end: u32, left: f32) -> (u32, f32) {
    let mut left = left;
    let mut index = first;
    let mut into = 0.0f32;
    for i in first..end {
        let weight = weights[i as usize];
        // Below 0 once it was found.
        let before = left >= 0.0f32;
        let here = before && weight > 0.0f32;
        index = select(here, i, index);
        into = select(here, f32::min(left, weight), into);
        left = select(before, left - weight, left);
    }
    (index, into)
}

/// The unit that [`walk()`] finds after [`add_up()`], and how far into it.
#[cube]
fn walk_units(units: &SharedMemory<f32>, groups: &SharedMemory<f32>, left: f32) -> (u32, f32) {
    let (group, into) = walk(groups, 0u32, comptime!((UNITS / GROUP) as u32), left);
    let first = group * comptime!(GROUP as u32);
    walk(units, first, first + comptime!(GROUP as u32), into)
}

/// One cube finds the token: the block by what the blocks weigh, and in it the token by weighing its logits once more.
#[cube(launch_unchecked)]
fn choose(
    logits: &Array<f32>,
    blocks: &Array<f32>,
    to: &mut Array<u32>,
    count: u32,
    block_count: u32,
    temperature: f32,
    span: f32,
    at: f32,
) {
    let mut units = SharedMemory::<f32>::new(UNITS);
    let mut groups = SharedMemory::<f32>::new(comptime!(UNITS / GROUP));
    // Each unit has a run of blocks.
    let run = block_count.div_ceil(comptime!(UNITS as u32));
    let start = u32::min(UNIT_POS * run, block_count);
    let end = u32::min(start + run, block_count);
    let mut largest = LOWEST.runtime();
    for block in start..end {
        largest = f32::max(largest, blocks[block as usize * 2]);
    }
    let largest = joined(&mut units, largest, UNITS, true);
    let mut sum = 0.0f32;
    for block in start..end {
        sum += block_weight(blocks, block, block_count, largest, temperature, span);
    }
    let total = add_up(&mut units, &mut groups, sum);
    let (unit, into) = walk_units(&units, &groups, at * total);

    // A run is no longer than there are units.
    let start = unit * run;
    let of_block = block_weight(
        blocks,
        start + UNIT_POS,
        block_count,
        largest,
        temperature,
        span,
    );
    hold(&mut units, of_block);
    let (place, into) = walk(&units, 0u32, run, into);
    let block_sum = units[place as usize];

    let start = (start + place) * comptime!(BLOCK as u32);
    let own = start + UNIT_POS * comptime!(EACH as u32);
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..comptime!(EACH as u32) {
        sum += weight(logits, own + i, count, largest, temperature, span);
    }
    let again = add_up(&mut units, &mut groups, sum);
    // In another order the sum of the block is a little more or less.
    let (unit, into) = walk_units(&units, &groups, into / block_sum * again);

    let start = start + unit * comptime!(EACH as u32);
    let of_token = weight(logits, start + UNIT_POS, count, largest, temperature, span);
    hold(&mut units, of_token);
    let (place, _into) = walk(&units, 0u32, comptime!(EACH as u32), into);
    if UNIT_POS == 0 {
        to[0] = start + place;
        to[1] = select(total < 0.0f32, 1u32, 0u32);
    }
}

/// The id that `draw` falls on among the logits `[vocab]`: `found`, [`DRAWN`] words. Two launches, or three with a
/// `min_p`.
pub fn draw<R: Runtime>(
    gpu: &Gpu<R>,
    logits: &Buffer,
    draw: Draw,
    candidates: &Candidates,
    found: &Buffer,
) {
    let count = logits.len;
    let cubes = count.div_ceil(BLOCK);
    // wgpu has no more cubes than this in one dimension, and `choose` no more blocks for a unit than units.
    assert!(count > 0 && cubes <= 65_535, "{count} logits");
    assert_eq!(found.len, DRAWN);
    let (weighed, again) = candidates.pairs();
    assert!(
        weighed.len >= 2 * cubes && again.len >= 2 * cubes,
        "candidates of fewer logits"
    );
    let Draw {
        temperature,
        min_p,
        at,
    } = draw;
    // Devices divide by no smaller number; there is nothing but the largest logit long before.
    let temperature = temperature.max(1e-30);
    // ln(0) is far enough.
    let span = temperature * FURTHEST.min(-min_p.ln());
    let (cube_count, dim) = (
        CubeCount::new_1d(cubes as u32),
        CubeDim::new_1d(UNITS as u32),
    );
    let blocks = if min_p > 0.0 { again } else { weighed };
    gpu.count();
    // SAFETY: logits are read up to the last, and both buffers have a pair for each cube; the lengths are asserted above.
    #[allow(unsafe_code, reason = "kernels without bounds checks")]
    unsafe {
        weigh::launch_unchecked::<R>(
            &gpu.client,
            cube_count.clone(),
            dim,
            logits.arg(),
            weighed.arg(),
            count as u32,
            temperature,
            temperature * FURTHEST,
        );
    }
    if min_p > 0.0 {
        gpu.count();
        // SAFETY: as above.
        #[allow(unsafe_code, reason = "kernels without bounds checks")]
        unsafe {
            weigh_again::launch_unchecked::<R>(
                &gpu.client,
                cube_count,
                dim,
                logits.arg(),
                weighed.arg(),
                blocks.arg(),
                count as u32,
                temperature,
                span,
            );
        }
    }
    gpu.count();
    // SAFETY: blocks are read up to `cubes` and logits up to the last; `found` has both words.
    #[allow(unsafe_code, reason = "kernels without bounds checks")]
    unsafe {
        choose::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::new_1d(1),
            dim,
            logits.arg(),
            blocks.arg(),
            found.arg(),
            count as u32,
            cubes as u32,
            temperature,
            span,
            at as f32,
        );
    }
}

#[cfg(test)]
mod tests;
