//! Words from one buffer to another: to move them, or to see how fast the memory of the device is.

use cubecl::prelude::*;

use super::{Buffer, Gpu};

const UNITS: u32 = 64;

/// Copies all of `from` to word `at` and those after it of `to`.
pub fn copy<R: Runtime>(gpu: &Gpu<R>, from: &Buffer, to: &Buffer, at: usize) {
    assert!(at + from.len <= to.len && u32::try_from(to.len).is_ok());
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

/// Copies all of `from` to the beginning of `to` as fast as the memory allows; both hold a multiple of four words. A
/// bandwidth is measured with it.
pub fn stream<R: Runtime>(gpu: &Gpu<R>, from: &Buffer, to: &Buffer) {
    assert!(from.len.is_multiple_of(4) && from.len <= to.len && u32::try_from(to.len).is_ok());
    let vectors = (from.len / 4) as u32;
    let cubes = vectors
        .div_ceil(STREAM_UNITS * IN_FLIGHT)
        .clamp(1, MOST_CUBES);
    gpu.count();
    // SAFETY: units step through `from.len / 4` vectors, which both have.
    #[allow(unsafe_code, reason = "launches without bounds checks")]
    unsafe {
        stream_kernel::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static(cubes, 1, 1),
            CubeDim::new_1d(STREAM_UNITS),
            from.arg(),
            to.arg(),
            vectors,
        );
    }
}

const STREAM_UNITS: u32 = 256;
/// Loads of 16 bytes that a unit waits for together.
const IN_FLIGHT: u32 = 4;
const MOST_CUBES: u32 = 2048;

#[cube(launch_unchecked)]
fn stream_kernel(
    from: &Array<Vector<u32, Const<4>>>,
    to: &mut Array<Vector<u32, Const<4>>>,
    vectors: u32,
) {
    let step = CUBE_COUNT_X * CUBE_DIM_X;
    let mut i = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    while i + 3 * step < vectors {
        let a = from[i as usize];
        let b = from[(i + step) as usize];
        let c = from[(i + 2 * step) as usize];
        let d = from[(i + 3 * step) as usize];
        to[i as usize] = a;
        to[(i + step) as usize] = b;
        to[(i + 2 * step) as usize] = c;
        to[(i + 3 * step) as usize] = d;
        i += 4 * step;
    }
    while i < vectors {
        to[i as usize] = from[i as usize];
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

    #[test]
    fn a_stream_is_every_word_and_no_more() {
        for gpu in gpus() {
            // Fewer vectors than units, a ragged end, and several rounds with one.
            for len in [4, 1028, 4 * (2048 * 256 * 4 + 257)] {
                let words: Vec<u32> = (0..len as u32)
                    .map(|i| i.wrapping_mul(2_654_435_761))
                    .collect();
                let (from, to) = (gpu.upload(&words), gpu.upload(&vec![7; len + 4]));
                stream(&gpu, &from, &to);
                let found = read_words(&gpu, &to);
                assert!(found[..len] == words[..], "{len}");
                assert_eq!(found[len..], [7; 4]);
            }
        }
    }
}
