//! Few tokens: the keys that a token sees are split over cubes, and a second launch puts the parts together.

use cubecl::prelude::*;

use super::{Buffer, Gpu, History, NOTHING, Queries, Shape, UNITS};
use super::{KvType, checked, cube_dim, dot, first_visible, four};

/// The most parts that the keys of a token are split into: with eight key heads, 512 cubes.
pub(super) const MOST_SPLITS: usize = 64;
/// Fewer keys are not worth a part.
const LEAST_KEYS: usize = 64;
/// As many keys are not worth a second launch.
const ONE_LAUNCH: usize = 256;
/// Keys whose scores are in shared memory at once.
const BLOCK: u32 = 256;
/// Keys, and then values, that a unit has under way at once.
const AHEAD: u32 = 4;
/// Units of a cube that puts parts together.
const COMBINE_UNITS: u32 = 256;

/// Into how many parts the keys are split, and the keys of a part.
fn splits(keys: usize) -> (usize, usize) {
    if keys <= ONE_LAUNCH {
        return (1, keys);
    }
    let part = keys.div_ceil(MOST_SPLITS).max(LEAST_KEYS);
    (keys.div_ceil(part), part)
}

/// Words of shared memory for the scores of a block, and for what the units of a cube have of a head.
const fn scores_len(shape: Shape) -> u32 {
    let (block, head) = (
        BLOCK * shape.group as u32,
        UNITS * 4 * shape.per_load() as u32,
    );
    if block > head { block } else { head }
}

/// See [`attention`](super::attention).
pub(super) fn decode<R: Runtime>(
    gpu: &Gpu<R>,
    q: &Buffer,
    history: &History,
    queries: Queries,
    sinks: &Buffer,
    work: &Buffer,
    out: &Buffer,
) {
    let group = checked(history, queries, q, sinks, out);
    let Queries {
        n, start, heads, ..
    } = queries;
    let d = history.head_dim;
    let (splits, part) = splits(queries.most_keys());
    let stats = n * heads * splits * d;
    assert!(splits == 1 || work.len >= stats + n * heads * splits * 2);
    let mut shape = Shape {
        head_dim: d,
        group,
        kv_type: history.kv_type,
        plane: false,
    };
    let (dim, plane) = cube_dim(gpu, UNITS, shape.loads() as u32);
    shape.plane = plane;
    gpu.count();
    // SAFETY: keys are below `start + n`, which the history has room for; the lengths of all else are asserted above.
    #[allow(unsafe_code, reason = "launches without bounds checks")]
    unsafe {
        decode_kernel::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static(history.kv_heads as u32, splits as u32, n as u32),
            dim,
            history.kv_type.load(),
            q.arg(),
            history.k.arg(),
            history.v.arg(),
            history.scales.arg(),
            sinks.arg(),
            if splits == 1 { out.arg() } else { work.arg() },
            start as u32,
            queries.window_or_all(),
            part as u32,
            stats as u32,
            1.0 / (d as f32).sqrt(),
            shape,
            splits == 1,
        );
    }
    if splits == 1 {
        return;
    }
    gpu.count();
    // SAFETY: a cube for each head of each token, whose parts lie in `work` and whose values in `out`.
    #[allow(unsafe_code, reason = "launches without bounds checks")]
    unsafe {
        combine_kernel::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static(heads as u32, n as u32, 1),
            CubeDim::new_1d(COMBINE_UNITS),
            work.arg(),
            out.arg(),
            splits as u32,
            stats as u32,
            d as u32,
        );
    }
}

/// A cube has one key head, one part of the keys and one token. Units in a row have one key together, each one load of
/// it.
///
/// Writes `[token, head, head_dim]` where one part is the `whole`, else `[token, head, part, head_dim]` not yet divided,
/// and from `stats` on `[token, head, part, 2]`, the largest score and the sum.
#[cube(launch_unchecked)]
fn decode_kernel<N: Size>(
    q: &Array<Vector<f32, Const<4>>>,
    k: &Array<Vector<u32, N>>,
    v: &Array<Vector<u32, N>>,
    scales: &Array<f32>,
    sinks: &Array<f32>,
    out: &mut Array<f32>,
    start: u32,
    window: u32,
    part: u32,
    stats: u32,
    scale: f32,
    #[comptime] shape: Shape,
    #[comptime] whole: bool,
) {
    let group = comptime!(shape.group as u32);
    let fours = comptime!(shape.fours() as u32);
    let per_load = comptime!(shape.per_load());
    let lanes = comptime!(shape.loads() as u32);
    let slots = comptime!(UNITS / lanes);
    let step = comptime!(slots * AHEAD);

    let kv_head = CUBE_POS_X;
    let kv_heads = CUBE_COUNT_X;
    let split = CUBE_POS_Y;
    let token = CUBE_POS_Z;
    let unit = UNIT_POS;
    // Of token and first head, in heads.
    let row = (token * kv_heads + kv_head) * group;

    let position = start + token;
    let first = first_visible(position, window) + split * part;
    let last = u32::min(first + part, position + 1u32);
    // The first of several tokens may see fewer parts than the last.
    let count = select(last > first, last - first, 0u32);

    let mut queries =
        SharedMemory::<Vector<f32, Const<4>>>::new(comptime!((group * fours) as usize));
    let mut i = unit;
    while i < comptime!(group * fours) {
        queries[i as usize] = q[(row * fours + i) as usize] * Vector::new(scale);
        i += UNITS;
    }

    // Scores, then weights: `[BLOCK, group]`. In the end, parts of the output.
    let mut scores = SharedMemory::<f32>::new(comptime!(scores_len(shape) as usize));
    // One value for each unit, or one for each of its heads where their sums come about here.
    let each = comptime!(if shape.plane { 1 } else { group });
    let mut exchange = SharedMemory::<f32>::new(comptime!((UNITS * each) as usize));
    // One value for each head.
    let mut factors = SharedMemory::<f32>::new(comptime!(group as usize));

    // In the softmax a unit has every so many keys of one head.
    let head = unit % group;
    let key_part = unit / group;
    let key_parts = comptime!(UNITS / group);
    let mut top = f32::new(NOTHING);
    let mut total = 0.0f32;
    if split == 0u32 {
        top = sinks[(kv_head * group + head) as usize];
        total = select(key_part == 0u32, 1.0f32, 0.0f32);
    }

    let sums_len = comptime!(shape.group * per_load);
    let mut sums = Array::<Vector<f32, Const<4>>>::new(sums_len);
    #[unroll]
    for i in 0..sums_len {
        sums[i] = Vector::new(0.0f32);
    }
    sync_cube();

    let mut block = 0u32;
    while block < count {
        let keys = u32::min(BLOCK, count - block);
        // Of the first key, in heads.
        let first_row = (first + block) * kv_heads + kv_head;

        score(
            &mut scores,
            &mut exchange,
            &queries,
            k,
            scales,
            first_row,
            keys,
            shape,
        );
        sync_cube();

        let mut largest = top;
        let mut key = key_part;
        while key < keys {
            largest = f32::max(largest, scores[(key * group + head) as usize]);
            key += key_parts;
        }
        exchange[unit as usize] = largest;
        sync_cube();
        #[unroll(key_parts <= 16)]
        for i in 0..key_parts {
            largest = f32::max(largest, exchange[(i * group + head) as usize]);
        }
        let factor = f32::exp(top - largest);
        top = largest;
        if key_part == 0u32 {
            factors[head as usize] = factor;
        }
        total *= factor;
        let filled = (keys + comptime!(step - 1)) / step * step;
        let mut key = key_part;
        while key < filled {
            let mut weight = 0.0f32;
            if key < keys {
                weight = f32::exp(scores[(key * group + head) as usize] - largest);
                total += weight;
                weight *= key_scale(scales, first_row + key * kv_heads, 1u32, shape.kv_type);
            }
            scores[(key * group + head) as usize] = weight;
            key += key_parts;
        }
        sync_cube();

        add(&mut sums, &scores, &factors, v, first_row, keys, shape);
        sync_cube();
        block += BLOCK;
    }

    exchange[unit as usize] = total;
    sync_cube();
    let mut total = 0.0f32;
    for i in 0..key_parts {
        total += exchange[(i * group + head) as usize];
    }
    if key_part == 0u32 {
        if whole {
            factors[head as usize] = 1.0f32 / total;
        } else {
            let to = stats + ((row + head) * CUBE_COUNT_Y + split) * 2u32;
            out[to as usize] = top;
            out[(to + 1u32) as usize] = total;
        }
    }

    write(out, &sums, &mut scores, &factors, row, split, shape, whole);
}

/// Scores of `keys` keys, for all query heads: `[keys, group]`.
#[cube]
fn score<N: Size>(
    scores: &mut SharedMemory<f32>,
    exchange: &mut SharedMemory<f32>,
    queries: &SharedMemory<Vector<f32, Const<4>>>,
    k: &Array<Vector<u32, N>>,
    scales: &Array<f32>,
    first_row: u32,
    keys: u32,
    #[comptime] shape: Shape,
) {
    let group = comptime!(shape.group as u32);
    let per_load = comptime!(shape.per_load());
    let lanes = comptime!(shape.loads() as u32);
    let slots = comptime!(UNITS / lanes);
    let fours = comptime!(shape.fours() as u32);
    let step = comptime!(slots * AHEAD);
    let kv_heads = CUBE_COUNT_X;
    let unit = UNIT_POS;
    let lane = unit % lanes;
    let slot = unit / lanes;

    let mut at = 0u32;
    while at < keys {
        let mut loaded = Array::<Vector<u32, N>>::new(comptime!(AHEAD as usize));
        #[unroll]
        for j in 0..AHEAD {
            let key = u32::min(at + j * slots + slot, keys - 1u32);
            let from = (first_row + key * kv_heads) * lanes + lane;
            loaded[j as usize] = k[from as usize];
        }
        let mut parts = Array::<f32>::new(comptime!((AHEAD * group) as usize));
        #[unroll]
        for j in 0..AHEAD {
            #[unroll]
            for g in 0..group {
                parts[comptime!((j * group + g) as usize)] = 0.0f32;
            }
            #[unroll]
            for i in 0..per_load {
                let x = four(loaded[j as usize], i, shape.kv_type);
                let from = lane * comptime!(per_load as u32) + comptime!(i as u32);
                #[unroll]
                for g in 0..group {
                    let query = queries[(from + g * fours) as usize];
                    parts[comptime!((j * group + g) as usize)] += dot(query, x);
                }
            }
        }
        #[unroll]
        for j in 0..AHEAD {
            let from = comptime!(j * group);
            if comptime!(shape.plane) {
                fold_plane(&mut parts, from, lane, lanes, group);
                // Lanes in a row now have the same head.
                let same = comptime!(lanes / group);
                let key = at + j * slots + slot;
                if lane % same == 0u32 && key < keys {
                    let score = parts[comptime!(from as usize)]
                        * key_scale(scales, first_row + key * kv_heads, 0u32, shape.kv_type);
                    scores[(key * group + lane / same) as usize] = score;
                }
            } else {
                let score = fold_shared(&parts, exchange, from, lanes, group);
                let key = at + j * slots + unit / group;
                if unit < comptime!(slots * group) && key < keys {
                    let score =
                        score * key_scale(scales, first_row + key * kv_heads, 0u32, shape.kv_type);
                    scores[(key * group + unit % group) as usize] = score;
                }
            }
        }
        at += step;
    }
}

/// Adds `keys` values by weight to what a unit has of each head, corrected by the factors.
#[cube]
fn add<N: Size>(
    sums: &mut Array<Vector<f32, Const<4>>>,
    weights: &SharedMemory<f32>,
    factors: &SharedMemory<f32>,
    v: &Array<Vector<u32, N>>,
    first_row: u32,
    keys: u32,
    #[comptime] shape: Shape,
) {
    let group = comptime!(shape.group as u32);
    let per_load = comptime!(shape.per_load());
    let lanes = comptime!(shape.loads() as u32);
    let slots = comptime!(UNITS / lanes);
    let step = comptime!(slots * AHEAD);
    let kv_heads = CUBE_COUNT_X;
    let lane = UNIT_POS % lanes;
    let slot = UNIT_POS / lanes;

    #[unroll]
    for g in 0..group {
        let factor = factors[g as usize];
        #[unroll]
        for i in 0..per_load {
            let n = comptime!(g as usize * per_load + i);
            sums[n] *= Vector::new(factor);
        }
    }
    let mut at = 0u32;
    while at < keys {
        let mut loaded = Array::<Vector<u32, N>>::new(comptime!(AHEAD as usize));
        #[unroll]
        for j in 0..AHEAD {
            let key = u32::min(at + j * slots + slot, keys - 1u32);
            let from = (first_row + key * kv_heads) * lanes + lane;
            loaded[j as usize] = v[from as usize];
        }
        #[unroll]
        for j in 0..AHEAD {
            let key = at + j * slots + slot;
            #[unroll]
            for i in 0..per_load {
                let x = four(loaded[j as usize], i, shape.kv_type);
                #[unroll]
                for g in 0..group {
                    let n = comptime!(g as usize * per_load + i);
                    let weight = weights[(key * group + g) as usize];
                    sums[n] += x * Vector::new(weight);
                }
            }
        }
        at += step;
    }
}

/// Sums over the units what each has of a head, and writes it.
#[cube]
fn write(
    out: &mut Array<f32>,
    sums: &Array<Vector<f32, Const<4>>>,
    shared: &mut SharedMemory<f32>,
    factors: &SharedMemory<f32>,
    row: u32,
    split: u32,
    #[comptime] shape: Shape,
    #[comptime] whole: bool,
) {
    let group = comptime!(shape.group as u32);
    let per_load = comptime!(shape.per_load());
    let lanes = comptime!(shape.loads() as u32);
    let slots = comptime!(UNITS / lanes);
    let d = comptime!(shape.head_dim as u32);
    let unit = UNIT_POS;
    let lane = unit % lanes;
    let slot = unit / lanes;

    // As many heads at once as there is room for.
    let together = comptime!(u32::min(
        group,
        scores_len(shape) / (UNITS * 4 * per_load as u32)
    ));
    #[unroll]
    for round in 0..comptime!(group / together) {
        #[unroll]
        for h in 0..together {
            #[unroll]
            for i in 0..per_load {
                let g = comptime!((round * together + h) as usize);
                let sum = sums[comptime!(g * per_load + i)];
                let to = (h * slots + slot) * d
                    + (lane * comptime!(per_load as u32) + comptime!(i as u32)) * 4u32;
                #[unroll]
                for c in 0..4u32 {
                    shared[(to + c) as usize] = sum[c as usize];
                }
            }
        }
        sync_cube();
        let mut i = unit;
        while i < comptime!(together * d) {
            let h = i / d;
            let mut sum = 0.0f32;
            #[unroll]
            for s in 0..slots {
                sum += shared[((h * slots + s) * d + i % d) as usize];
            }
            let head = comptime!(round * together) + h;
            if whole {
                out[((row + head) * d + i % d) as usize] = sum * factors[head as usize];
            } else {
                out[(((row + head) * CUBE_COUNT_Y + split) * d + i % d) as usize] = sum;
            }
            i += UNITS;
        }
        sync_cube();
    }
}

/// What a score, or the weight of a value (`of_v` 1), has to be multiplied with.
#[cube]
fn key_scale(scales: &Array<f32>, at: u32, of_v: u32, #[comptime] kv_type: KvType) -> f32 {
    if comptime!(kv_type == KvType::Q8) {
        scales[(2u32 * at + of_v) as usize]
    } else {
        1.0f32.runtime()
    }
}

/// Sums `group` values from `from` on over `lanes` units of a plane. Each step halves the values: a unit keeps one half
/// and gives the other half away. Value `lane / (lanes / group)` is then the first.
#[cube]
fn fold_plane(
    parts: &mut Array<f32>,
    #[comptime] from: u32,
    lane: u32,
    #[comptime] lanes: u32,
    #[comptime] group: u32,
) {
    #[unroll]
    for step in 0..comptime!(lanes.ilog2()) {
        let mask = comptime!(lanes >> (step + 1));
        let half = comptime!(group >> (step + 1));
        if comptime!(half > 0) {
            let upper = (lane & mask) != 0u32;
            #[unroll]
            for i in 0..half {
                let low = parts[comptime!((from + i) as usize)];
                let high = parts[comptime!((from + i + half) as usize)];
                let given = plane_shuffle_xor(select(upper, low, high), mask);
                parts[comptime!((from + i) as usize)] = select(upper, high, low) + given;
            }
        } else {
            let low = parts[comptime!(from as usize)];
            parts[comptime!(from as usize)] = low + plane_shuffle_xor(low, mask);
        }
    }
}

/// The same through shared memory, in another order: unit `slot · group + g` has the sum of value `g` over the lanes of
/// a slot.
#[cube]
fn fold_shared(
    parts: &Array<f32>,
    shared: &mut SharedMemory<f32>,
    #[comptime] from: u32,
    #[comptime] lanes: u32,
    #[comptime] group: u32,
) -> f32 {
    #[unroll]
    for g in 0..group {
        shared[(UNIT_POS * group + g) as usize] = parts[comptime!((from + g) as usize)];
    }
    sync_cube();
    let mut sum = 0.0f32;
    let slot = UNIT_POS / group;
    if slot < comptime!(UNITS / lanes) {
        #[unroll]
        for l in 0..lanes {
            sum += shared[((slot * lanes + l) * group + UNIT_POS % group) as usize];
        }
    }
    sync_cube();
    sum
}

/// A cube has one head of one token, and puts its parts together.
#[cube(launch_unchecked)]
fn combine_kernel(work: &Array<f32>, out: &mut Array<f32>, splits: u32, stats: u32, d: u32) {
    let row = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
    let unit = UNIT_POS;
    let mut tops = SharedMemory::<f32>::new(MOST_SPLITS);
    let mut totals = SharedMemory::<f32>::new(MOST_SPLITS);
    let mut sums = SharedMemory::<f32>::new(comptime!(COMBINE_UNITS as usize));
    let from = stats + (row * splits + unit) * 2u32;
    if unit < splits {
        tops[unit as usize] = work[from as usize];
        totals[unit as usize] = work[(from + 1u32) as usize];
    }
    sync_cube();
    let mut top = tops[0];
    for i in 1..splits {
        top = f32::max(top, tops[i as usize]);
    }

    // Units share the parts where there are more of them than values in a head.
    let at = unit % d;
    let share = unit / d;
    let mut sum = 0.0f32;
    let mut i = share;
    while i < splits {
        let weight = f32::exp(tops[i as usize] - top);
        sum += weight * work[((row * splits + i) * d + at) as usize];
        i += COMBINE_UNITS / d;
    }
    sums[unit as usize] = sum;
    sync_cube();
    if unit < d {
        let mut sum = 0.0f32;
        for share in 0..COMBINE_UNITS / d {
            sum += sums[(share * d + unit) as usize];
        }
        let mut total = 0.0f32;
        for i in 0..splits {
            total += totals[i as usize] * f32::exp(tops[i as usize] - top);
        }
        out[(row * d + unit) as usize] = sum / total;
    }
}
