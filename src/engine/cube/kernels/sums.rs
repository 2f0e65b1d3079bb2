//! Sums over the units of a cube, with planes and without, and the largest of them.

use cubecl::prelude::*;

/// How the units of a cube stand: in groups that work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Groups {
    /// Units in a group.
    pub x: u32,
    /// Groups in a cube.
    pub y: u32,
    /// Whether a group is a plane.
    pub plane: bool,
}

impl Groups {
    /// A cube of `units` in planes, or where there are none in groups of 32.
    pub fn new(plane: Option<u32>, units: u32) -> Self {
        let x = plane.unwrap_or(32);
        Self {
            x,
            y: (units / x).max(1),
            plane: plane.is_some(),
        }
    }

    /// Units in a cube.
    pub const fn units(self) -> u32 {
        self.x * self.y
    }

    /// The size of such a cube.
    pub fn dim(self) -> CubeDim {
        CubeDim::new_2d(self.x, self.y)
    }
}

/// At least `cubes` cubes in two dimensions, as no dimension may be longer than 65535, and `z` times that.
pub fn spread(cubes: usize, z: usize) -> CubeCount {
    let y = cubes.div_ceil(65535).max(1);
    CubeCount::Static(cubes.div_ceil(y) as u32, y as u32, z as u32)
}

/// Which cube of those [`spread`] this is, without the third dimension.
#[cube]
pub fn spread_pos() -> u32 {
    CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X
}

/// `sum + a · b`
#[cube]
pub fn add_dot(sum: f32, a: Vector<f32, Const<4>>, b: Vector<f32, Const<4>>) -> f32 {
    let mut sum = sum;
    #[unroll]
    for lane in 0..4usize {
        sum += a[lane] * b[lane];
    }
    sum
}

/// Of `count` sums of each unit, no more than a group has units: unit `i` of a group gets the sum over its group of
/// sum `i`, the others get anything.
#[cube]
pub fn group_sums(sums: &Array<f32>, #[comptime] count: usize, #[comptime] groups: Groups) -> f32 {
    let mut total = 0.0f32;
    if comptime!(groups.plane) {
        #[unroll]
        for i in 0..count {
            let sum = plane_sum(sums[i]);
            total = select(UNIT_POS_X == i as u32, sum, total);
        }
    } else {
        let x = comptime!(groups.x as usize);
        let mut all = SharedMemory::<f32>::new(comptime!(x * groups.y as usize * count));
        let base = UNIT_POS_Y as usize * count;
        #[unroll]
        for i in 0..count {
            all[(base + i) * x + UNIT_POS_X as usize] = sums[i];
        }
        sync_cube();
        if UNIT_POS_X < count as u32 {
            for i in 0..x {
                total += all[(base + UNIT_POS_X as usize) * x + i];
            }
        }
    }
    total
}

/// Of `count` sums of each unit, no more than a group has units: every unit gets each sum over its group.
#[cube]
pub fn group_totals(
    sums: &Array<f32>,
    #[comptime] count: usize,
    #[comptime] groups: Groups,
) -> Array<f32> {
    let mut totals = Array::<f32>::new(count);
    if comptime!(groups.plane) {
        #[unroll]
        for i in 0..count {
            totals[i] = plane_sum(sums[i]);
        }
    } else {
        let total = group_sums(sums, count, groups);
        let mut all = SharedMemory::<f32>::new(comptime!(groups.y as usize * count));
        let base = UNIT_POS_Y as usize * count;
        if UNIT_POS_X < count as u32 {
            all[base + UNIT_POS_X as usize] = total;
        }
        sync_cube();
        #[unroll]
        for i in 0..count {
            totals[i] = all[base + i];
        }
    }
    totals
}

/// The sum of every unit's value over the whole cube, for every unit. Once in a kernel.
#[cube]
pub fn cube_sum(value: f32, #[comptime] groups: Groups) -> f32 {
    let units = comptime!(groups.units() as usize);
    let mut total = 0.0f32;
    if comptime!(groups.plane) {
        let mut all = SharedMemory::<f32>::new(comptime!(groups.y as usize));
        let sum = plane_sum(value);
        if UNIT_POS_X == 0u32 {
            all[UNIT_POS_Y as usize] = sum;
        }
        sync_cube();
        #[unroll]
        for i in 0..comptime!(groups.y as usize) {
            total += all[i];
        }
    } else {
        let mut all = SharedMemory::<f32>::new(units);
        total = joined(&mut all, value, units, false);
    }
    total
}

/// Of every unit's value in a cube of `units`, a power of two, the `largest` or the sum, for every unit. `room` has a place
/// for each of them, and may be used again at once.
#[cube]
pub fn joined(
    room: &mut SharedMemory<f32>,
    value: f32,
    #[comptime] units: usize,
    #[comptime] largest: bool,
) -> f32 {
    let unit = UNIT_POS as usize;
    room[unit] = value;
    sync_cube();
    let mut half = comptime!(units / 2).runtime();
    while half > 0 {
        if unit < half {
            let other = room[unit + half];
            if comptime!(largest) {
                room[unit] = f32::max(room[unit], other);
            } else {
                room[unit] += other;
            }
        }
        sync_cube();
        half /= 2;
    }
    let all = room[0];
    sync_cube();
    all
}
