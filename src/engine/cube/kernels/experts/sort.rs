//! The slots of all tokens, grouped by expert.

use cubecl::prelude::*;

use super::super::{Buffer, Gpu};
use super::Work;

const UNITS: u32 = 256;

/// Writes the `slots` numbers of `ids` (slot `token * top_k + i`) to `work.order`, those of expert 0 first and of
/// each expert in their order, and to `work.offsets` `[experts + 1]` where each expert begins.
pub fn by_expert<R: Runtime>(
    gpu: &Gpu<R>,
    ids: &Buffer,
    slots: usize,
    experts: usize,
    work: &Work,
) {
    assert!(ids.len >= slots && work.order.len >= slots && work.offsets.len > experts);
    gpu.count();
    // SAFETY: places in the order are counts of slots, each taken once; the lengths are asserted above.
    #[allow(unsafe_code, reason = "kernels without bounds checks")]
    unsafe {
        scatter::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static(experts as u32, 1, 1),
            CubeDim::new_1d(UNITS),
            ids.arg(),
            work.offsets.arg(),
            work.order.arg(),
            slots as u32,
        );
    }
}

/// One cube for each expert. All read all ids, which is little beside the products and needs no second launch; each
/// unit a run of them, so that the order stays.
#[cube(launch_unchecked)]
fn scatter(ids: &Array<u32>, offsets: &mut Array<u32>, order: &mut Array<u32>, slots: u32) {
    let expert = CUBE_POS_X;
    let mut lower = SharedMemory::<u32>::new(UNITS as usize);
    let mut equal = SharedMemory::<u32>::new(UNITS as usize);
    let run = slots.div_ceil(UNITS);
    let start = u32::min(UNIT_POS_X * run, slots);
    let end = u32::min(start + run, slots);
    let mut is_lower = 0u32;
    let mut is_equal = 0u32;
    for slot in start..end {
        let id = ids[slot as usize];
        is_lower += select(id < expert, 1u32, 0u32);
        is_equal += select(id == expert, 1u32, 0u32);
    }
    lower[UNIT_POS_X as usize] = is_lower;
    equal[UNIT_POS_X as usize] = is_equal;
    sync_cube();

    let mut first = 0u32;
    let mut before = 0u32;
    let mut all = 0u32;
    for unit in 0..UNITS {
        first += lower[unit as usize];
        let of_unit = equal[unit as usize];
        before += select(unit < UNIT_POS_X, of_unit, 0u32);
        all += of_unit;
    }
    let mut place = first + before;
    for slot in start..end {
        if ids[slot as usize] == expert {
            order[place as usize] = slot;
            place += 1u32;
        }
    }
    if UNIT_POS_X == 0u32 {
        offsets[expert as usize] = first;
        if expert + 1u32 == CUBE_COUNT_X {
            offsets[(expert + 1u32) as usize] = first + all;
        }
    }
}
