//! Many tokens: a cube has a tile of tokens with all query heads of a key head, and goes through the keys in tiles.

use cubecl::prelude::*;

use super::{Buffer, Gpu, History, NOTHING, Queries, Shape, UNITS};
use super::{KvType, checked, cube_dim, dot, first_visible, four};

/// Rows of a tile: query heads of tokens.
const ROWS: u32 = 32;
/// Rows of a unit, side by side in one vector.
const OWN: u32 = 4;
/// Units that share their rows, each with other keys, and then other values of the head.
const COLS: u32 = UNITS * OWN / ROWS;

/// Keys of a tile, as many as shared memory has room for.
const fn tile_keys(head_dim: usize) -> u32 {
    2048 / head_dim as u32
}

/// See [`attention`](super::attention).
pub(super) fn prefill<R: Runtime>(
    gpu: &Gpu<R>,
    q: &Buffer,
    history: &History,
    queries: Queries,
    sinks: &Buffer,
    out: &Buffer,
) {
    let group = checked(history, queries, q, sinks, out);
    let Queries { n, start, .. } = queries;
    let d = history.head_dim;
    let tiles = n.div_ceil(ROWS as usize / group);
    assert!(tiles <= 65535, "{n} tokens at once");
    let (dim, plane) = cube_dim(gpu, UNITS, COLS);
    let shape = Shape {
        head_dim: d,
        group,
        kv_type: history.kv_type,
        plane,
    };
    gpu.count();
    // SAFETY: tokens and keys past the last are replaced by the last, and not written; the lengths are asserted above.
    #[allow(unsafe_code, reason = "launches without bounds checks")]
    unsafe {
        prefill_kernel::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static(history.kv_heads as u32, tiles as u32, 1),
            dim,
            history.kv_type.load(),
            q.arg(),
            history.k.arg(),
            history.v.arg(),
            history.scales.arg(),
            sinks.arg(),
            out.arg(),
            n as u32,
            start as u32,
            queries.window_or_all(),
            1.0 / (d as f32).sqrt(),
            shape,
        );
    }
}

#[cube(launch_unchecked)]
fn prefill_kernel<N: Size>(
    q: &Array<Vector<f32, Const<4>>>,
    k: &Array<Vector<u32, N>>,
    v: &Array<Vector<u32, N>>,
    scales: &Array<f32>,
    sinks: &Array<f32>,
    out: &mut Array<Vector<f32, Const<4>>>,
    all_tokens: u32,
    start: u32,
    window: u32,
    scale: f32,
    #[comptime] shape: Shape,
) {
    let group = comptime!(shape.group as u32);
    let fours = comptime!(shape.fours() as u32);
    let tile = comptime!(tile_keys(shape.head_dim));
    let tokens = comptime!(ROWS / group);
    let own_keys = comptime!(tile / COLS);
    let own_fours = comptime!(fours / COLS);
    // One more than there are, so that units with neighbouring rows read from different banks.
    let stride = comptime!(fours + 1);
    let weights_stride = comptime!(ROWS / OWN + 1);

    let kv_head = CUBE_POS_X;
    let kv_heads = CUBE_COUNT_X;
    // The last tokens see the most keys, and begin first.
    let tiles = (all_tokens + comptime!(tokens - 1)) / tokens;
    let first_token = (tiles - 1u32 - CUBE_POS_Y) * tokens;
    let col = UNIT_POS % COLS;
    let rows = UNIT_POS / COLS;

    let mut queries =
        SharedMemory::<Vector<f32, Const<4>>>::new(comptime!((ROWS * stride) as usize));
    let mut held = SharedMemory::<Vector<f32, Const<4>>>::new(comptime!((tile * stride) as usize));
    // `[tile, ROWS / 4]`
    let mut weights =
        SharedMemory::<Vector<f32, Const<4>>>::new(comptime!((tile * weights_stride) as usize));
    let exchange_len = comptime!(if shape.plane { 1 } else { UNITS as usize });
    let mut exchange = SharedMemory::<Vector<f32, Const<4>>>::new(exchange_len);

    let mut i = UNIT_POS;
    while i < comptime!(ROWS * fours) {
        let row = i / fours;
        let token = u32::min(first_token + row / group, all_tokens - 1u32);
        let from = ((token * kv_heads + kv_head) * group + row % group) * fours + i % fours;
        queries[(row * stride + i % fours) as usize] = q[from as usize] * Vector::new(scale);
        i += UNITS;
    }

    // The sink is the first score of every row; one of the units that share the row counts it.
    let mut top = Vector::<f32, Const<4>>::empty();
    #[unroll]
    for r in 0..OWN {
        let head = kv_head * group + (rows * OWN + r) % group;
        top[r as usize] = sinks[head as usize];
    }
    let mut total = Vector::<f32, Const<4>>::new(select(col == 0u32, 1.0f32, 0.0f32));
    let sums_len = comptime!((OWN * own_fours) as usize);
    let mut sums = Array::<Vector<f32, Const<4>>>::new(sums_len);
    #[unroll]
    for i in 0..sums_len {
        sums[i] = Vector::new(0.0f32);
    }

    let mut base = first_visible(start + first_token, window);
    let end = start + u32::min(first_token + tokens, all_tokens);
    while base < end {
        hold(&mut held, k, scales, base, end, 0u32, stride, shape);
        sync_cube();

        let mut scores = Array::<f32>::new(comptime!((own_keys * OWN) as usize));
        score(&mut scores, &queries, &held, own_keys, stride, fours);
        let mut largest = top;
        #[unroll]
        for r in 0..OWN {
            let position = start + first_token + (rows * OWN + r) / group;
            #[unroll]
            for j in 0..own_keys {
                let key = base + col + j * COLS;
                let n = comptime!((j * OWN + r) as usize);
                if key > position || position - key >= window {
                    scores[n] = f32::new(NOTHING);
                }
                largest[r as usize] = f32::max(largest[r as usize], scores[n]);
            }
        }
        let largest = across(largest, &mut exchange, col, true, shape.plane);
        // Keys are no longer needed once every unit has come to `across` and the next line.
        sync_cube();
        hold(&mut held, v, scales, base, end, 1u32, stride, shape);

        let mut factor = Vector::<f32, Const<4>>::empty();
        #[unroll]
        for r in 0..comptime!(OWN as usize) {
            factor[r] = f32::exp(top[r] - largest[r]);
        }
        top = largest;
        total *= factor;
        #[unroll]
        for j in 0..own_keys {
            let mut weight = Vector::<f32, Const<4>>::empty();
            #[unroll]
            for r in 0..comptime!(OWN as usize) {
                weight[r] = f32::exp(scores[comptime!(j as usize * OWN as usize + r)] - largest[r]);
            }
            total += weight;
            weights[((col + j * COLS) * weights_stride + rows) as usize] = weight;
        }
        #[unroll]
        for r in 0..OWN {
            #[unroll]
            for i in 0..own_fours {
                let n = comptime!((r * own_fours + i) as usize);
                sums[n] *= Vector::new(factor[r as usize]);
            }
        }
        sync_cube();

        add(&mut sums, &held, &weights, tile, stride, own_fours);
        sync_cube();
        base += tile;
    }

    let total = across(total, &mut exchange, col, false, shape.plane);
    #[unroll]
    for r in 0..OWN {
        let row = rows * OWN + r;
        let token = first_token + row / group;
        if token < all_tokens {
            let to = ((token * kv_heads + kv_head) * group + row % group) * fours + col;
            #[unroll]
            for i in 0..own_fours {
                let sum = sums[comptime!((r * own_fours + i) as usize)];
                out[(to + i * COLS) as usize] = sum / Vector::new(total[r as usize]);
            }
        }
    }
}

/// Scores of a unit's own keys with its own rows, `[own_keys, 4]`.
#[cube]
fn score(
    scores: &mut Array<f32>,
    queries: &SharedMemory<Vector<f32, Const<4>>>,
    keys: &SharedMemory<Vector<f32, Const<4>>>,
    #[comptime] own_keys: u32,
    #[comptime] stride: u32,
    #[comptime] fours: u32,
) {
    let col = UNIT_POS % COLS;
    let rows = UNIT_POS / COLS;
    #[unroll]
    for i in 0..comptime!((own_keys * OWN) as usize) {
        scores[i] = 0.0f32;
    }
    for i in 0..fours {
        let mut own = Array::<Vector<f32, Const<4>>>::new(comptime!(own_keys as usize));
        #[unroll]
        for j in 0..own_keys {
            own[j as usize] = keys[((col + j * COLS) * stride + i) as usize];
        }
        #[unroll]
        for r in 0..OWN {
            let query = queries[((rows * OWN + r) * stride + i) as usize];
            #[unroll]
            for j in 0..own_keys {
                scores[comptime!((j * OWN + r) as usize)] += dot(query, own[j as usize]);
            }
        }
    }
}

/// Adds the values of a tile by weight to a unit's own part of its own rows, `[4, own_fours]`.
#[cube]
fn add(
    sums: &mut Array<Vector<f32, Const<4>>>,
    values: &SharedMemory<Vector<f32, Const<4>>>,
    weights: &SharedMemory<Vector<f32, Const<4>>>,
    #[comptime] tile: u32,
    #[comptime] stride: u32,
    #[comptime] own_fours: u32,
) {
    let col = UNIT_POS % COLS;
    let rows = UNIT_POS / COLS;
    for key in 0..tile {
        let weight = weights[(key * comptime!(ROWS / OWN + 1) + rows) as usize];
        #[unroll]
        for i in 0..own_fours {
            let value = values[(key * stride + col + i * COLS) as usize];
            #[unroll]
            for r in 0..OWN {
                let n = comptime!((r * own_fours + i) as usize);
                sums[n] += value * Vector::new(weight[r as usize]);
            }
        }
    }
}

/// Brings a tile of keys or values (`of_v` 1) from position `base` on into shared memory.
#[cube]
fn hold<N: Size>(
    held: &mut SharedMemory<Vector<f32, Const<4>>>,
    from: &Array<Vector<u32, N>>,
    scales: &Array<f32>,
    base: u32,
    end: u32,
    of_v: u32,
    #[comptime] stride: u32,
    #[comptime] shape: Shape,
) {
    let kv_heads = CUBE_COUNT_X;
    let loads = comptime!(shape.loads() as u32);
    let rounds = comptime!(tile_keys(shape.head_dim) * loads / UNITS);
    #[unroll]
    for round in 0..rounds {
        let i = UNIT_POS + round * UNITS;
        let key = i / loads;
        let load = i % loads;
        let at = u32::min(base + key, end - 1u32) * kv_heads + CUBE_POS_X;
        let words = from[(at * loads + load) as usize];
        let mut scale = 1.0f32;
        if comptime!(shape.kv_type == KvType::Q8) {
            scale = scales[(2u32 * at + of_v) as usize];
        }
        #[unroll]
        for j in 0..comptime!(shape.per_load()) {
            let mut x = four(words, j, shape.kv_type);
            if comptime!(shape.kv_type == KvType::Q8) {
                x *= Vector::new(scale);
            }
            let to = key * stride + load * comptime!(shape.per_load() as u32) + comptime!(j as u32);
            held[to as usize] = x;
        }
    }
}

/// The largest, or the sum, of what the units that share rows have.
#[cube]
fn across(
    x: Vector<f32, Const<4>>,
    shared: &mut SharedMemory<Vector<f32, Const<4>>>,
    col: u32,
    #[comptime] largest: bool,
    #[comptime] plane: bool,
) -> Vector<f32, Const<4>> {
    let mut all = x;
    if plane {
        #[unroll]
        for step in 0..comptime!(COLS.ilog2()) {
            #[unroll]
            for r in 0..comptime!(OWN as usize) {
                let other = plane_shuffle_xor(all[r], comptime!(1u32 << step));
                all[r] = joined(all[r], other, largest);
            }
        }
    } else {
        shared[UNIT_POS as usize] = x;
        sync_cube();
        let first = UNIT_POS - col;
        all = shared[first as usize];
        #[unroll]
        for i in 1..COLS {
            let other = shared[(first + i) as usize];
            #[unroll]
            for r in 0..comptime!(OWN as usize) {
                all[r] = joined(all[r], other[r], largest);
            }
        }
    }
    all
}

#[cube]
fn joined(a: f32, b: f32, #[comptime] largest: bool) -> f32 {
    if largest { f32::max(a, b) } else { a + b }
}
