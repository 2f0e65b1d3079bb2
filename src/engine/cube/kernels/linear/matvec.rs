//! The product for few tokens, bound by reading the weight: each group of units has whole rows.
//!
//! A group reads all of its tokens anyway. Where a norm comes first, the group sums their squares along with the products
//! of `x · gain`, and scales in the end.

use cubecl::prelude::*;

use super::super::norm::Norm;
use super::super::sums::{Groups, add_dot, group_sums, group_totals, spread, spread_pos};
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
    // Which arguments there are: kernels that differ in nothing else may be one to cubecl's cache on disk.
    /// Whether a norm comes first.
    norm: bool,
    /// Whether its rows are written.
    keeps: bool,
}

impl Shape {
    fn new(plane: Option<u32>, kind: Kind, n: usize, norm: Option<Norm<'_>>) -> Self {
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
            norm: norm.is_some(),
            keeps: norm.is_some_and(|norm| norm.t.is_some()),
        }
    }
}

/// A [`Norm`] inside the kernel.
#[derive(CubeType, CubeLaunch)]
struct Gain {
    gain: Array<Vector<f32, Const<4>>>,
    eps: f32,
}

/// Vector `v` of the gain, 1 where there is none.
#[cube]
fn gain_or_one(norm: &ComptimeOption<Gain>, v: usize) -> Vector<f32, Const<4>> {
    #[comptime]
    match norm.as_ref() {
        ComptimeOption::Some(norm) => norm.gain[v],
        ComptimeOption::None => Vector::<f32, Const<4>>::new(1.0f32),
    }
}

#[cube]
fn eps_or_zero(norm: &ComptimeOption<Gain>) -> f32 {
    #[comptime]
    match norm.as_ref() {
        ComptimeOption::Some(norm) => norm.eps,
        ComptimeOption::None => f32::new(0.0),
    }
}

/// `1 / sqrt(mean(x²) + eps)` of each token, from what each unit of the group has of its squares.
#[cube]
fn norm_scales(
    norm: &ComptimeOption<Gain>,
    squares: &Array<f32>,
    cols: u32,
    #[comptime] shape: Shape,
) -> Array<f32> {
    let mut scales = Array::<f32>::new(shape.tokens);
    let totals = group_totals(squares, shape.tokens, shape.groups);
    #[unroll]
    for t in 0..shape.tokens {
        let mean = totals[t] / f32::cast_from(cols);
        scales[t] = 1.0f32 / f32::sqrt(mean + eps_or_zero(norm));
    }
    scales
}

/// Writes this cube's part of each normed row, where there is a place for them.
#[cube]
fn keep(
    t: &mut ComptimeOption<Array<Vector<f32, Const<4>>>>,
    x: &Array<Vector<f32, Const<4>>>,
    norm: &ComptimeOption<Gain>,
    scales: &Array<f32>,
    first_token: u32,
    n: u32,
    row_fours: u32,
    #[comptime] shape: Shape,
) {
    #[comptime]
    match t.as_mut() {
        ComptimeOption::Some(t) => {
            let units = comptime!(shape.groups.units());
            #[unroll]
            for i in 0..shape.tokens {
                let token = first_token + i as u32;
                let scale = Vector::<f32, Const<4>>::new(scales[i]);
                let mut v = spread_pos() * units + UNIT_POS;
                while token < n && v < row_fours {
                    let at = (token * row_fours + v) as usize;
                    t[at] = x[at] * scale * gain_or_one(norm, v as usize);
                    v += CUBE_COUNT_X * CUBE_COUNT_Y * units;
                }
            }
        }
        ComptimeOption::None => {}
    }
}

#[cube(launch_unchecked)]
fn matvec(
    x: &Array<Vector<f32, Const<4>>>,
    norm: &ComptimeOption<Gain>,
    t: &mut ComptimeOption<Array<Vector<f32, Const<4>>>>,
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
    let first_token = CUBE_POS_Z * tokens as u32;

    let mut squares = Array::<f32>::new(tokens);
    #[unroll]
    for t in 0..tokens {
        squares[t] = 0.0f32;
    }
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
            let wanted = start + d as u32 * groups.x;
            let v = min(wanted, vectors - 1u32);
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
                let gain = gain_or_one(norm, v as usize * fours + i);
                #[unroll]
                for t in 0..tokens {
                    let token = min(first_token + t as u32, n - 1u32);
                    let mut x = x[(token * vectors + v) as usize * fours + i];
                    if comptime!(shape.norm) {
                        let more = add_dot(squares[t], x, x);
                        squares[t] = select(wanted < vectors, more, squares[t]);
                        x *= gain;
                    }
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

    let mut sum = group_sums(&sums, comptime!(group_rows * tokens), groups);
    let row = row + UNIT_POS_X / tokens as u32;
    let token = first_token + UNIT_POS_X % tokens as u32;
    if comptime!(shape.norm) {
        let row_fours = vectors * fours as u32;
        let scales = norm_scales(norm, &squares, row_fours * 4u32, shape);
        let mut scale = 0.0f32;
        #[unroll]
        for t in 0..tokens {
            scale = select(token == first_token + t as u32, scales[t], scale);
        }
        sum *= scale;
        keep(t, x, norm, &scales, first_token, n, row_fours, shape);
    }
    if UNIT_POS_X < comptime!((group_rows * tokens) as u32) && row < rows && token < n {
        let row = first_row + row;
        let at = (token * y_rows + row) as usize;
        y[at] = sum + value_or_zero(bias, row as usize) + value_or_zero(residual, at);
    }
}

/// One piece's rows of [`super::linear`], or with a norm of [`super::norm_linear`].
pub fn launch<R: Runtime>(
    gpu: &Gpu<R>,
    x: &Buffer,
    norm: Option<Norm<'_>>,
    matrix: &Matrix,
    piece: &Piece,
    residual: Option<&Buffer>,
    y: &Buffer,
) {
    let n = x.len / matrix.cols;
    let shape = Shape::new(gpu.plane, matrix.kind, n, norm);
    let rows_of_cube = shape.rows * shape.groups.y as usize;
    gpu.count();
    let gain = norm.map(|norm| GainLaunch::new(norm.gain.arg(), norm.eps));
    // SAFETY: `super` has checked the lengths; every index is clamped to or guarded by them.
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
            gain.into(),
            norm.and_then(|norm| norm.t).map(Buffer::arg).into(),
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
