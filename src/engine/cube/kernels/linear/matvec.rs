//! The product for few tokens, bound by reading the weight: each group of units has whole rows.

use cubecl::prelude::*;

use super::super::sums::{Groups, add_dot, group_sums, spread, spread_pos};
use super::super::{Buffer, Gpu};
use super::matrix::{Kind, Matrix, Piece, Weight, unpacked, value_or_zero, vector_values};

/// The most tokens that share one reading of the weight.
const MOST_TOKENS: usize = 8;

/// How a group of units works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    groups: Groups,
    kind: Kind,
    /// Tokens that share one reading of the weight.
    tokens: usize,
    /// Rows of a group, which share one reading of the tokens.
    rows: usize,
    /// Vectors of each row that a unit reads before it uses the first.
    depth: usize,
}

impl Shape {
    fn new(plane: Option<u32>, kind: Kind, n: usize) -> Self {
        let groups = Groups::new(plane, if plane.is_some() { 128 } else { 64 });
        let units = groups.x as usize;
        let tokens = n.next_power_of_two().min(MOST_TOKENS).min(units);
        // Reading a token costs more wherever a vector of words has more values: more rows share that.
        let rows = match (kind, tokens) {
            (Kind::Bf16, 1) => 2,
            _ => 4,
        };
        let rows = rows.min(units / tokens);
        let depth = match (tokens, rows) {
            (1 | 2, 1 | 2) => 4,
            (1 | 2, _) => 2,
            _ => 1,
        };
        Self {
            groups,
            kind,
            tokens,
            rows,
            depth,
        }
    }
}

#[cube(launch_unchecked)]
fn matvec(
    x: &Array<Vector<f32, Const<4>>>,
    weight: &Weight,
    bias: &ComptimeOption<Array<f32>>,
    residual: &ComptimeOption<Array<f32>>,
    y: &mut Array<f32>,
    n: u32,
    rows: u32,
    first_row: u32,
    y_rows: u32,
    vectors: u32,
    #[comptime] shape: Shape,
) {
    let Shape { groups, kind, .. } = comptime!(shape);
    let tokens = comptime!(shape.tokens);
    let group_rows = comptime!(shape.rows);
    let depth = comptime!(shape.depth);
    let fours = comptime!(vector_values(kind) as usize / 4);
    let row = (spread_pos() * groups.y + UNIT_POS_Y) * group_rows as u32;
    let token = CUBE_POS_Z * tokens as u32;

    let mut sums = Array::<f32>::new(comptime!(group_rows * tokens));
    #[unroll]
    for i in 0..comptime!(group_rows * tokens) {
        sums[i] = 0.0f32;
    }
    // What lies beyond the last row, token or vector reads the last one: its sum is not written, or has scale 0.
    let mut start = UNIT_POS_X;
    while start < vectors + UNIT_POS_X {
        let mut packed = Array::<Vector<u32, Const<4>>>::new(comptime!(depth * group_rows));
        let mut scales = Array::<f32>::new(comptime!(depth * group_rows));
        #[unroll]
        for d in 0..depth {
            let wanted = start + d as u32 * groups.x;
            let v = min(wanted, vectors - 1u32);
            #[unroll]
            for r in 0..group_rows {
                let row = min(row + r as u32, rows - 1u32);
                packed[d * group_rows + r] = weight.packed(row, v, vectors);
                let scale = weight.scale(row, v, vectors);
                scales[d * group_rows + r] = select(wanted < vectors, scale, 0.0f32);
            }
        }
        #[unroll]
        for d in 0..depth {
            let v = min(start + d as u32 * groups.x, vectors - 1u32);
            let mut parts = Array::<f32>::new(comptime!(group_rows * tokens));
            #[unroll]
            for i in 0..comptime!(group_rows * tokens) {
                parts[i] = 0.0f32;
            }
            #[unroll]
            for i in 0..fours {
                let mut w = Array::<Vector<f32, Const<4>>>::new(group_rows);
                #[unroll]
                for r in 0..group_rows {
                    w[r] = unpacked(packed[d * group_rows + r], i, kind);
                }
                #[unroll]
                for t in 0..tokens {
                    let token = min(token + t as u32, n - 1u32);
                    let x = x[(token * vectors + v) as usize * fours + i];
                    #[unroll]
                    for r in 0..group_rows {
                        parts[r * tokens + t] = add_dot(parts[r * tokens + t], w[r], x);
                    }
                }
            }
            #[unroll]
            for r in 0..group_rows {
                #[unroll]
                for t in 0..tokens {
                    sums[r * tokens + t] += parts[r * tokens + t] * scales[d * group_rows + r];
                }
            }
        }
        start += groups.x * depth as u32;
    }

    let sum = group_sums(&sums, comptime!(group_rows * tokens), groups);
    let row = row + UNIT_POS_X / tokens as u32;
    let token = token + UNIT_POS_X % tokens as u32;
    if UNIT_POS_X < comptime!((group_rows * tokens) as u32) && row < rows && token < n {
        let row = first_row + row;
        let at = (token * y_rows + row) as usize;
        y[at] = sum + value_or_zero(bias, row as usize) + value_or_zero(residual, at);
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
) {
    let n = x.len / matrix.cols;
    let shape = Shape::new(gpu.plane, matrix.kind, n);
    let rows_of_cube = shape.rows * shape.groups.y as usize;
    gpu.count();
    // SAFETY: `super::linear` has checked the lengths; every index is clamped to or guarded by them.
    #[allow(unsafe_code, reason = "a kernel without bounds checks")]
    unsafe {
        matvec::launch_unchecked::<R>(
            &gpu.client,
            spread(
                piece.rows.len().div_ceil(rows_of_cube),
                n.div_ceil(shape.tokens),
            ),
            shape.groups.dim(),
            x.arg(),
            piece.arg(),
            matrix.bias.as_ref().map(Buffer::arg).into(),
            residual.map(Buffer::arg).into(),
            y.arg(),
            n as u32,
            piece.rows.len() as u32,
            piece.rows.start as u32,
            matrix.rows as u32,
            matrix.cols as u32 / vector_values(matrix.kind),
            shape,
        );
    }
}
