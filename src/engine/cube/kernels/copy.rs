//! Words from one buffer to another.

use cubecl::prelude::*;

use super::{Buffer, Gpu};

const UNITS: u32 = 64;

/// Copies all of `from` to word `at` and those after it of `to`.
pub fn copy<R: Runtime>(gpu: &Gpu<R>, from: &Buffer, to: &Buffer, at: usize) {
    assert!(at + from.len <= to.len && to.len <= u32::MAX as usize);
    let cubes = (from.len as u32).div_ceil(UNITS).min(4096);
    gpu.count();
    // SAFETY: units step through `from.len` words, which both have from where they begin.
    #[allow(unsafe_code, reason = "launches without bounds checks")]
    unsafe {
        copy_kernel::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static(cubes, 1, 1),
            CubeDim::new_1d(UNITS),
            from.arg(),
            to.arg(),
            from.len as u32,
            at as u32,
        );
    }
}

#[cube(launch_unchecked)]
fn copy_kernel(from: &Array<u32>, to: &mut Array<u32>, len: u32, at: u32) {
    let step = CUBE_COUNT_X * CUBE_DIM_X;
    let mut i = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    while i < len {
        to[(at + i) as usize] = from[i as usize];
        i += step;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{gpus, read_words};
    use super::*;

    #[test]
    fn words_come_where_they_should_and_no_others_change() {
        for gpu in gpus() {
            let words: Vec<u32> = (0..1000).collect();
            let (from, to) = (gpu.upload(&words[..300]), gpu.upload(&words));
            copy(&gpu, &from, &to, 501);
            let mut expected = words.clone();
            expected[501..801].copy_from_slice(&words[..300]);
            assert_eq!(read_words(&gpu, &to), expected);
        }
    }
}
