//! A few tokens: each weight is read once for each token that chose its expert, as fast as memory gives it.
//!
//! A row is read by `lanes` units, 16 bytes each at a time; the rows of a cube share their input in shared memory.

use cubecl::prelude::*;

use super::super::{Buffer, Gpu};
use super::packed::{Kind, Quad, activation, byte_at, dot, scaled};
use super::{ExpertWeights, Piece};

/// How the units of a cube share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    kind: Kind,
    /// Units that share a row; a plane where `planes`.
    lanes: u32,
    /// Rows (or pairs of gate and up) of a cube.
    height: u32,
    /// Loads of 16 bytes that each unit has under way for a row.
    steps: u32,
    /// Whether the lanes add within a plane instead of through shared memory.
    planes: bool,
}

impl Shape {
    fn new<R: Runtime>(gpu: &Gpu<R>, weights: &ExpertWeights) -> Self {
        let lanes = gpu.plane.unwrap_or(32).min(128);
        let vectors = weights.vectors() as u32;
        Self {
            kind: weights.kind,
            lanes,
            height: (256 / lanes).min(8),
            // Three times 32 lanes are the 90 blocks of 2880 columns. More than four would want many registers.
            steps: vectors.div_ceil(lanes).min(96u32.div_ceil(lanes)).min(4),
            planes: gpu.plane.is_some(),
        }
    }

    /// 16-byte vectors of a row between two loads of input.
    const fn chunk(self) -> u32 {
        self.lanes * self.steps
    }

    /// Quads of input that meet one vector of weights.
    const fn quads(self) -> u32 {
        self.kind.values() as u32 / 4
    }

    /// From one of these quads to the next in shared memory: odd, so that units write to different banks.
    const fn stride(self) -> u32 {
        self.chunk() | 1
    }

    fn dim(self) -> CubeDim {
        CubeDim::new_2d(self.lanes, self.height)
    }
}

/// `t[token, slot, intermediate]`: the activation of the gate and up rows of each chosen expert.
pub fn gate_up<R: Runtime>(
    gpu: &Gpu<R>,
    x: &Buffer,
    ids: &Buffer,
    (n, top_k): (usize, usize),
    weights: &ExpertWeights,
    limit: f32,
    t: &Buffer,
) {
    let pairs = weights.rows / 2;
    assert!(x.len >= n * weights.cols && ids.len >= n * top_k && t.len >= n * top_k * pairs);
    let shape = Shape::new(gpu, weights);
    for piece in &weights.pieces {
        let Piece {
            experts,
            words,
            scales,
        } = piece;
        gpu.count();
        // SAFETY: experts outside the piece are left out, rows and vectors of rows are held below their number, and
        // the lengths of the piece, x, ids, and t are asserted for these numbers here and in `ExpertWeights`.
        #[allow(unsafe_code, reason = "kernels without bounds checks")]
        unsafe {
            gate_up_kernel::launch_unchecked::<R>(
                &gpu.client,
                CubeCount::Static((pairs as u32).div_ceil(shape.height), (n * top_k) as u32, 1),
                shape.dim(),
                words.arg(),
                scales.as_ref().unwrap_or(ids).arg(),
                weights.bias.arg(),
                x.arg(),
                ids.arg(),
                t.arg(),
                pairs as u32,
                weights.vectors() as u32,
                top_k as u32,
                experts.start as u32,
                experts.len() as u32,
                limit,
                shape,
            );
        }
    }
}

/// `y[token] = residual[token] + sum over slots of weight * (down of t[token, slot] + bias)`.
pub fn down<R: Runtime>(
    gpu: &Gpu<R>,
    t: &Buffer,
    residual: &Buffer,
    (ids, slot_weights): (&Buffer, &Buffer),
    (n, top_k): (usize, usize),
    weights: &ExpertWeights,
    y: &Buffer,
) {
    let rows = weights.rows;
    assert!(t.len >= n * top_k * weights.cols && residual.len >= n * rows && y.len >= n * rows);
    assert!(ids.len >= n * top_k && slot_weights.len >= n * top_k);
    let shape = Shape::new(gpu, weights);
    for (i, piece) in weights.pieces.iter().enumerate() {
        let Piece {
            experts,
            words,
            scales,
        } = piece;
        gpu.count();
        // SAFETY: as in `gate_up`; each element of y is read and written by one unit.
        #[allow(unsafe_code, reason = "kernels without bounds checks")]
        unsafe {
            down_kernel::launch_unchecked::<R>(
                &gpu.client,
                CubeCount::Static((rows as u32).div_ceil(shape.height), n as u32, 1),
                shape.dim(),
                words.arg(),
                scales.as_ref().unwrap_or(ids).arg(),
                weights.bias.arg(),
                t.arg(),
                ids.arg(),
                slot_weights.arg(),
                residual.arg(),
                y.arg(),
                rows as u32,
                weights.vectors() as u32,
                experts.start as u32,
                experts.len() as u32,
                top_k as u32,
                i == 0,
                shape,
            );
        }
    }
}

#[cube(launch_unchecked)]
#[allow(
    clippy::too_many_arguments,
    reason = "buffers and numbers are all that a kernel takes"
)]
fn gate_up_kernel(
    words: &Array<Quad<u32>>,
    scales: &Array<u32>,
    bias: &Array<f32>,
    x: &Array<Quad<f32>>,
    ids: &Array<u32>,
    t: &mut Array<f32>,
    pairs: u32,
    vectors: u32,
    top_k: u32,
    first: u32,
    count: u32,
    limit: f32,
    #[comptime] shape: Shape,
) {
    let slot = CUBE_POS_Y;
    let id = ids[slot as usize];
    // Below `first` this wraps to more than any count.
    let expert = id - first;
    if expert >= count {
        terminate!();
    }
    let mut input =
        SharedMemory::<Quad<f32>>::new(comptime!((shape.quads() * shape.stride()) as usize));
    let pair = CUBE_POS_X * comptime!(shape.height) + UNIT_POS_Y;
    let gate_row = (expert * pairs + u32::min(pair, pairs - 1u32)) * 2u32 * vectors;
    let up_row = gate_row + vectors;
    let from = slot / top_k * vectors;
    let mut gate = 0.0f32;
    let mut up = 0.0f32;
    let mut held = hold(comptime!(2 * shape.steps));
    let mut start = 0u32;
    while start < vectors {
        load(
            words,
            scales,
            &mut held,
            0u32,
            gate_row + start,
            up_row,
            shape,
        );
        load(
            words,
            scales,
            &mut held,
            shape.steps,
            up_row + start,
            up_row + vectors,
            shape,
        );
        stage(x, &mut input, from, start, vectors, shape);
        sync_cube();
        #[unroll]
        for step in 0..shape.steps {
            let at = step * shape.lanes + UNIT_POS_X;
            if start + at < vectors {
                let values = staged(input, at, shape);
                gate += product(&held, step, &values, shape);
                up += product(&held, comptime!(shape.steps + step), &values, shape);
            }
        }
        sync_cube();
        start += comptime!(shape.chunk());
    }
    let gate = row_sum(gate, shape);
    let up = row_sum(up, shape);
    if UNIT_POS_X == 0u32 && pair < pairs {
        let at = ((id * pairs + pair) * 2u32) as usize;
        t[(slot * pairs + pair) as usize] = activation(gate + bias[at], up + bias[at + 1], limit);
    }
}

#[cube(launch_unchecked)]
#[allow(
    clippy::too_many_arguments,
    reason = "buffers and numbers are all that a kernel takes"
)]
fn down_kernel(
    words: &Array<Quad<u32>>,
    scales: &Array<u32>,
    bias: &Array<f32>,
    t: &Array<Quad<f32>>,
    ids: &Array<u32>,
    slot_weights: &Array<f32>,
    residual: &Array<f32>,
    y: &mut Array<f32>,
    rows: u32,
    vectors: u32,
    first: u32,
    count: u32,
    #[comptime] top_k: u32,
    #[comptime] is_first: bool,
    #[comptime] shape: Shape,
) {
    let mut input =
        SharedMemory::<Quad<f32>>::new(comptime!((shape.quads() * shape.stride()) as usize));
    let token = CUBE_POS_Y;
    let row = CUBE_POS_X * comptime!(shape.height) + UNIT_POS_Y;
    let held_row = u32::min(row, rows - 1u32);
    let mut sum = 0.0f32;
    let mut biases = 0.0f32;
    let mut held = hold(comptime!(top_k * shape.steps));
    let mut start = 0u32;
    while start < vectors {
        // The rows of all slots at once: one after the other, each would wait for memory anew.
        #[unroll]
        for i in 0..top_k {
            let expert = ids[(token * top_k + i) as usize] - first;
            if expert < count {
                let of_row = (expert * rows + held_row) * vectors;
                load(
                    words,
                    scales,
                    &mut held,
                    comptime!(i * shape.steps),
                    of_row + start,
                    of_row + vectors,
                    shape,
                );
            }
        }
        #[unroll]
        for i in 0..top_k {
            let slot = token * top_k + i;
            let id = ids[slot as usize];
            if id - first < count {
                let slot_weight = slot_weights[slot as usize];
                if start == 0u32 {
                    biases += slot_weight * bias[(id * rows + held_row) as usize];
                }
                stage(t, &mut input, slot * vectors, start, vectors, shape);
                sync_cube();
                #[unroll]
                for step in 0..shape.steps {
                    let at = step * shape.lanes + UNIT_POS_X;
                    if start + at < vectors {
                        let values = staged(input, at, shape);
                        let part =
                            product(&held, comptime!(i * shape.steps + step), &values, shape);
                        sum += slot_weight * part;
                    }
                }
                sync_cube();
            }
        }
        start += comptime!(shape.chunk());
    }
    let sum = row_sum(sum, shape);
    if UNIT_POS_X == 0u32 && row < rows {
        let at = (token * rows + row) as usize;
        let before = if comptime!(is_first) {
            residual[at]
        } else {
            y[at]
        };
        y[at] = before + sum + biases;
    }
}

/// What a unit holds of rows: the words of each step, and the scales (MXFP4).
#[derive(CubeType)]
struct Held {
    words: Array<Quad<u32>>,
    scales: Array<u32>,
}

#[cube]
fn hold(#[comptime] steps: u32) -> Held {
    Held {
        words: Array::<Quad<u32>>::new(comptime!(steps as usize)),
        scales: Array::<u32>::new(comptime!(steps as usize)),
    }
}

/// A unit's part of the vectors `from..` into `held` from step `to` on, all loads at once. Past the `end` of the row
/// its last vector is loaded.
#[cube]
fn load(
    words: &Array<Quad<u32>>,
    scales: &Array<u32>,
    held: &mut Held,
    #[comptime] to: u32,
    from: u32,
    end: u32,
    #[comptime] shape: Shape,
) {
    #[unroll]
    for step in 0..shape.steps {
        let at = u32::min(from + step * shape.lanes + UNIT_POS_X, end - 1u32);
        held.words[(to + step) as usize] = words[at as usize];
        match shape.kind {
            Kind::Mxfp4 => held.scales[(to + step) as usize] = byte_at(scales, at),
            Kind::Bf16 => {}
        }
    }
}

/// Copies the input of a chunk to shared memory: quad `q` of vector `v` to `q * stride + v`, so that neighbouring
/// units read neighbouring quads.
#[cube]
fn stage(
    x: &Array<Quad<f32>>,
    input: &mut SharedMemory<Quad<f32>>,
    from: u32,
    start: u32,
    vectors: u32,
    #[comptime] shape: Shape,
) {
    let quads = comptime!(shape.quads());
    let len = u32::min(comptime!(shape.chunk()), vectors - start) * quads;
    let base = (from + start) * quads;
    let mut i = UNIT_POS_Y * comptime!(shape.lanes) + UNIT_POS_X;
    while i < len {
        let to = (i % quads) * comptime!(shape.stride()) + i / quads;
        input[to as usize] = x[(base + i) as usize];
        i += comptime!(shape.lanes * shape.height);
    }
}

/// The input that meets vector `at` of the chunk.
#[cube]
fn staged(input: SharedMemory<Quad<f32>>, at: u32, #[comptime] shape: Shape) -> Array<Quad<f32>> {
    let mut values = Array::<Quad<f32>>::new(comptime!(shape.quads() as usize));
    #[unroll]
    for quad in 0..shape.quads() {
        values[quad as usize] = input[(quad * shape.stride() + at) as usize];
    }
    values
}

#[cube]
fn product(
    held: &Held,
    #[comptime] step: u32,
    values: &Array<Quad<f32>>,
    #[comptime] shape: Shape,
) -> f32 {
    let sum = dot(held.words[step as usize], values, shape.kind);
    match shape.kind {
        Kind::Mxfp4 => scaled(sum, held.scales[step as usize]),
        Kind::Bf16 => sum,
    }
}

/// The sum over the lanes of a row, known to the first of them. All units of the cube must come here.
#[cube]
fn row_sum(value: f32, #[comptime] shape: Shape) -> f32 {
    if comptime!(shape.planes) {
        plane_sum(value)
    } else {
        let mut sums = SharedMemory::<f32>::new(comptime!((shape.lanes * shape.height) as usize));
        let at = (UNIT_POS_Y * comptime!(shape.lanes) + UNIT_POS_X) as usize;
        sums[at] = value;
        #[unroll]
        for i in 1..comptime!(shape.lanes.ilog2() + 1) {
            let half = comptime!(shape.lanes >> i);
            sync_cube();
            if UNIT_POS_X < half {
                let other = sums[at + half as usize];
                sums[at] += other;
            }
        }
        sums[at]
    }
}
