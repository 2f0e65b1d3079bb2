//! RMSNorm.

use cubecl::prelude::*;

use super::sums::{Groups, add_dot, cube_sum, spread, spread_pos};
use super::{Buffer, Gpu};

/// A norm that comes before a product of the same input.
#[derive(Clone, Copy)]
pub struct Norm<'a> {
    /// `[hidden]`
    pub gain: &'a Buffer,
    /// What is added to the mean square.
    pub eps: f32,
    /// Where the normed rows go, `[n, hidden]`, if anything else reads them.
    pub t: Option<&'a Buffer>,
}

#[cube(launch_unchecked)]
fn rms(
    x: &Array<Vector<f32, Const<4>>>,
    gain: &Array<Vector<f32, Const<4>>>,
    y: &mut Array<Vector<f32, Const<4>>>,
    n: u32,
    vectors: u32,
    eps: f32,
    #[comptime] groups: Groups,
) {
    // A cube too many does the last row again.
    let row = min(spread_pos(), n - 1u32) * vectors;
    let mut squares = 0.0f32;
    let mut v = UNIT_POS;
    while v < vectors {
        let x = x[(row + v) as usize];
        squares = add_dot(squares, x, x);
        v += comptime!(groups.units());
    }
    let mean = cube_sum(squares, groups) / f32::cast_from(vectors * 4u32);
    let scale = Vector::<f32, Const<4>>::new(1.0f32 / f32::sqrt(mean + eps));
    let mut v = UNIT_POS;
    while v < vectors {
        y[(row + v) as usize] = x[(row + v) as usize] * scale * gain[v as usize];
        v += comptime!(groups.units());
    }
}

/// `y = x / sqrt(mean(x²) + eps) · gain` for each row: x and y `[n, hidden]`, gain `[hidden]`, a multiple of 4. `y` is
/// none of the others.
pub fn rms_norm<R: Runtime>(gpu: &Gpu<R>, x: &Buffer, gain: &Buffer, eps: f32, y: &Buffer) {
    let hidden = gain.len;
    assert!(
        hidden > 0 && hidden.is_multiple_of(4),
        "{hidden} values in a row"
    );
    let n = x.len / hidden;
    assert!(n > 0 && x.len == n * hidden, "x is not [n, {hidden}]");
    assert_eq!(y.len, x.len, "y is not like x");
    let groups = Groups::new(gpu.plane, 256);
    gpu.count();
    // SAFETY: the lengths are checked above; rows are clamped to n and vectors guarded.
    #[allow(unsafe_code, reason = "a kernel without bounds checks")]
    unsafe {
        rms::launch_unchecked::<R>(
            &gpu.client,
            spread(n, 1),
            groups.dim(),
            x.arg(),
            gain.arg(),
            y.arg(),
            n as u32,
            hidden as u32 / 4,
            eps,
            groups,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Numbers, gpus, normed, read};
    use super::*;

    #[test]
    fn rows_small_and_large() {
        let mut numbers = Numbers::new(4);
        for gpu in gpus() {
            for hidden in [4, 192, 1028, 2880] {
                for n in [1, 2, 7] {
                    let mut x = numbers.values(n * hidden);
                    // So small that eps counts, up to very large.
                    for (row, x) in x.chunks_mut(hidden).enumerate() {
                        let size = 0.003 * 30_f32.powi(row as i32);
                        for x in x {
                            *x *= size;
                        }
                    }
                    let gain = numbers.values(hidden);
                    let y = gpu.upload(&vec![f32::NAN; n * hidden]);
                    rms_norm(&gpu, &gpu.upload(&x), &gpu.upload(&gain), 1e-5, &y);
                    let expected = normed(&x, &gain, 1e-5);
                    for (i, (&found, expected)) in read(&gpu, &y).iter().zip(expected).enumerate() {
                        assert!(
                            (f64::from(found) - expected).abs() <= 1e-6 * expected.abs(),
                            "[{n}, {hidden}] at {i}: {found}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}
