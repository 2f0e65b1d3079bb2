//! The product for many tokens, bound by arithmetic: a cube has a tile of rows by tokens, each unit of it a few rows
//! by a few tokens, and a weight is unpacked once for all tokens of the tile.

use cubecl::prelude::*;

use super::super::sums::add_dot;
use super::super::{Buffer, Gpu};
use super::matrix::{Kind, Matrix, Piece, Weight, unpacked, value_or_zero, vector_values};

/// Rows and tokens of a tile are both this many times those of a unit.
const SIDE: usize = 16;
const UNITS: usize = SIDE * SIDE;
/// Vectors of four columns that a step takes from every row and token.
const STEP: usize = 4;
/// Vectors from one row or token of a tile to the next: odd, so that units which read rows one after the other meet
/// in no bank of the shared memory.
const STRIDE: usize = STEP + 1;
/// As many cubes keep a large device busy.
const ENOUGH_CUBES: usize = 256;

/// What a unit of a tile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of a unit: 2, 4 or 8.
    pub rows: usize,
    /// Tokens of a unit: 2 or 4.
    pub tokens: usize,
}

impl Tile {
    /// The largest tile that still makes enough cubes.
    pub fn new(rows: usize, n: usize) -> Self {
        let tokens = if n <= 2 * SIDE { 2 } else { 4 };
        let cubes = |unit_rows| rows.div_ceil(SIDE * unit_rows) * n.div_ceil(SIDE * tokens);
        let rows = [8, 4]
            .into_iter()
            .find(|&unit_rows| cubes(unit_rows) >= ENOUGH_CUBES);
        Self {
            rows: rows.unwrap_or(2),
            tokens,
        }
    }
}

#[cube(launch_unchecked)]
fn tiled(
    x: &Array<Vector<f32, Const<4>>>,
    weight: &Weight,
    bias: &ComptimeOption<Array<f32>>,
    residual: &ComptimeOption<Array<f32>>,
    y: &mut Array<f32>,
    n: u32,
    rows: u32,
    first_row: u32,
    y_rows: u32,
    cols: u32,
    #[comptime] kind: Kind,
    #[comptime] tile: Tile,
) {
    let Tile {
        rows: unit_rows,
        tokens: unit_tokens,
    } = comptime!(tile);
    let fours = comptime!(vector_values(kind) as usize / 4);
    let row_loads = comptime!(STEP / fours);
    let w_loads = comptime!(SIDE * unit_rows * row_loads);
    let x_loads = comptime!(SIDE * unit_tokens * STEP);
    let mut w_tile =
        SharedMemory::<Vector<f32, Const<4>>>::new(comptime!(SIDE * unit_rows * STRIDE));
    let mut x_tile =
        SharedMemory::<Vector<f32, Const<4>>>::new(comptime!(SIDE * unit_tokens * STRIDE));
    let first_token = CUBE_POS_X * comptime!((SIDE * unit_tokens) as u32);
    let tile_row = CUBE_POS_Y * comptime!((SIDE * unit_rows) as u32);
    let unit = UNIT_POS as usize;
    let vectors = cols / comptime!(vector_values(kind));

    // What this unit brings into the tile. Beyond the last row or token it is the last one, whose products there are
    // not written.
    let w_row = unit / row_loads;
    let w_part = unit % row_loads;
    let w_from = min(tile_row + w_row as u32, rows - 1u32);
    let w_to = w_row * STRIDE + w_part * fours;
    let x_from = min(first_token + UNIT_POS / STEP as u32, n - 1u32) * (cols / 4u32)
        + UNIT_POS % STEP as u32;
    let x_to = unit / STEP * STRIDE + unit % STEP;

    let mut sums = Array::<f32>::new(comptime!(unit_rows * unit_tokens));
    #[unroll]
    for i in 0..comptime!(unit_rows * unit_tokens) {
        sums[i] = 0.0f32;
    }
    let mut packed = Vector::<u32, Const<4>>::empty();
    let mut scale = 0.0f32;
    let mut x_next = Vector::<f32, Const<4>>::empty();
    if unit < w_loads {
        packed = weight.packed(w_from, w_part as u32, vectors);
        scale = weight.scale(w_from, w_part as u32, vectors);
    }
    if unit < x_loads {
        x_next = x[x_from as usize];
    }

    let steps = cols / comptime!(4 * STEP as u32);
    for step in 0..steps {
        if unit < w_loads {
            #[unroll]
            for i in 0..fours {
                w_tile[w_to + i] = unpacked(packed, i, kind) * Vector::<f32, Const<4>>::new(scale);
            }
        }
        if unit < x_loads {
            x_tile[x_to] = x_next;
        }
        sync_cube();
        // The next step's reads are on their way while this step multiplies; the last step reads itself again.
        let next = min(step + 1u32, steps - 1u32);
        if unit < w_loads {
            let v = next * row_loads as u32 + w_part as u32;
            packed = weight.packed(w_from, v, vectors);
            scale = weight.scale(w_from, v, vectors);
        }
        if unit < x_loads {
            x_next = x[(x_from + next * STEP as u32) as usize];
        }
        #[unroll]
        for i in 0..STEP {
            let mut w = Array::<Vector<f32, Const<4>>>::new(unit_rows);
            #[unroll]
            for r in 0..unit_rows {
                w[r] = w_tile[(unit % SIDE + r * SIDE) * STRIDE + i];
            }
            #[unroll]
            for t in 0..unit_tokens {
                let x = x_tile[(unit / SIDE + t * SIDE) * STRIDE + i];
                #[unroll]
                for r in 0..unit_rows {
                    sums[r * unit_tokens + t] = add_dot(sums[r * unit_tokens + t], w[r], x);
                }
            }
        }
        sync_cube();
    }

    #[unroll]
    for t in 0..unit_tokens {
        let token = first_token + (unit / SIDE + t * SIDE) as u32;
        #[unroll]
        for r in 0..unit_rows {
            let row = tile_row + (unit % SIDE + r * SIDE) as u32;
            if token < n && row < rows {
                let row = first_row + row;
                let at = (token * y_rows + row) as usize;
                y[at] = sums[r * unit_tokens + t]
                    + value_or_zero(bias, row as usize)
                    + value_or_zero(residual, at);
            }
        }
    }
}

/// One piece's rows of [`super::linear`].
pub fn launch<R: Runtime>(
    gpu: &Gpu<R>,
    x: &Buffer,
    matrix: &Matrix,
    piece: &Piece,
    residual: Option<&Buffer>,
    y: &Buffer,
    tile: Tile,
) {
    let n = x.len / matrix.cols;
    let tokens = n.div_ceil(SIDE * tile.tokens) as u32;
    let rows = piece.rows.len().div_ceil(SIDE * tile.rows) as u32;
    assert!(
        tokens <= 65535 && rows <= 65535,
        "a product too large for one launch"
    );
    gpu.count();
    // SAFETY: `super::linear` has checked the lengths; every index is clamped to or guarded by them.
    #[allow(unsafe_code, reason = "a kernel without bounds checks")]
    unsafe {
        tiled::launch_unchecked::<R>(
            &gpu.client,
            // Cubes that run side by side have the same rows: the weight is read from memory once.
            CubeCount::Static(tokens, rows, 1),
            CubeDim::new_1d(UNITS as u32),
            x.arg(),
            piece.arg(),
            matrix.bias.as_ref().map(Buffer::arg).into(),
            residual.map(Buffer::arg).into(),
            y.arg(),
            n as u32,
            piece.rows.len() as u32,
            piece.rows.start as u32,
            matrix.rows as u32,
            matrix.cols as u32,
            matrix.kind,
            tile,
        );
    }
}
