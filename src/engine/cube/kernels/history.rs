//! The keys and values of one layer on a device, and the launch that writes them.
//!
//! A history is one buffer for k and one for v. It grows by doubling, with a copy on the device: pages would cost
//! every layer of every token a launch per page, and the whole context at once would cost a short conversation
//! gigabytes. Sliding layers hold everything too, so that any prefix is a history of its own.

use cubecl::prelude::*;

use super::copy::copy;
use super::words::{bf16_bits, bf16_high, bf16_low, i8_at};
use super::{Buffer, Gpu};
use crate::engine::{FIRST_POSITIONS, KvType};

/// Units of a cube in every kernel here.
const UNITS: u32 = 64;

impl KvType {
    /// Values in a word.
    pub const fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
            Self::Q8 => 4,
        }
    }

    /// Words that a unit of the attention kernels loads at once: 16 bytes, but no more than eight values.
    pub(super) const fn load(self) -> usize {
        match self {
            Self::F32 | Self::Bf16 => 4,
            Self::Q8 => 2,
        }
    }
}

/// The keys and values of one layer.
pub struct History {
    /// Heads of k and of v.
    pub kv_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
    /// How they are held.
    pub kv_type: KvType,
    /// Positions that fit.
    pub capacity: usize,
    /// `[capacity, kv_heads, head_dim]`, as `kv_type` packs them.
    pub k: Buffer,
    /// The same.
    pub v: Buffer,
    /// `[capacity, kv_heads, 2]` in Q8: what the values of k and of v have to be multiplied with. Else one word.
    pub scales: Buffer,
}

impl History {
    /// An empty history for `positions`; more need [`reserve`](Self::reserve).
    pub fn new<R: Runtime>(
        gpu: &Gpu<R>,
        kv_heads: usize,
        head_dim: usize,
        kv_type: KvType,
        positions: usize,
    ) -> Self {
        assert!(
            matches!(head_dim, 64 | 128),
            "heads of {head_dim} values have no kernel"
        );
        let most = Self::most(gpu, kv_heads, head_dim, kv_type);
        assert!(positions <= most, "{positions} positions, {most} at most");
        let capacity = positions
            .next_multiple_of(FIRST_POSITIONS)
            .max(FIRST_POSITIONS)
            .min(most);
        let words = capacity * kv_heads * head_dim / kv_type.per_word();
        let scales = match kv_type {
            KvType::F32 | KvType::Bf16 => 1,
            KvType::Q8 => capacity * kv_heads * 2,
        };
        Self {
            kv_heads,
            head_dim,
            kv_type,
            capacity,
            k: gpu.empty(words),
            v: gpu.empty(words),
            scales: gpu.empty(scales),
        }
    }

    /// The most positions that a history can hold on this device: k must be given to a kernel in one piece. A context
    /// must not be longer.
    pub fn most<R: Runtime>(
        gpu: &Gpu<R>,
        kv_heads: usize,
        head_dim: usize,
        kv_type: KvType,
    ) -> usize {
        let values = kv_heads * head_dim;
        let bytes = 4 * values / kv_type.per_word();
        // Kernels count values in u32.
        (gpu.binding_limit() / bytes as u64).min(u64::from(u32::MAX / 2) / values as u64) as usize
    }

    /// Makes room for `positions`, keeping what is there. To be called before a forward pass: it may allocate.
    pub fn reserve<R: Runtime>(&mut self, gpu: &Gpu<R>, positions: usize) {
        if positions <= self.capacity {
            return;
        }
        let most = Self::most(gpu, self.kv_heads, self.head_dim, self.kv_type);
        let doubled = positions.max((2 * self.capacity).min(most));
        let grown = Self::new(gpu, self.kv_heads, self.head_dim, self.kv_type, doubled);
        copy(gpu, &self.k, &grown.k, 0);
        copy(gpu, &self.v, &grown.v, 0);
        if self.kv_type == KvType::Q8 {
            copy(gpu, &self.scales, &grown.scales, 0);
        }
        *self = grown;
    }
}

/// Rotates the halves of the heads of q and k, writes q to `q_out`, and k and v over what `history` holds at positions
/// `start..start + n`.
///
/// `qkv` is `[n, (heads + 2 kv_heads) · head_dim]`, `cos` and `sin` are those of all positions up to these,
/// `[positions, head_dim / 2]`, `q_out` is `[n, heads · head_dim]`; all may be longer.
#[allow(
    clippy::too_many_arguments,
    reason = "what the operation reads and writes"
)]
pub fn append<R: Runtime>(
    gpu: &Gpu<R>,
    qkv: &Buffer,
    cos: &Buffer,
    sin: &Buffer,
    n: usize,
    start: usize,
    history: &History,
    heads: usize,
    q_out: &Buffer,
) {
    let (d, kv_heads) = (history.head_dim, history.kv_heads);
    let all_heads = heads + 2 * kv_heads;
    assert!((1..=65535).contains(&n), "{n} tokens at once");
    assert!(start + n <= history.capacity);
    assert!(qkv.len >= n * all_heads * d && q_out.len >= n * heads * d);
    assert!(cos.len >= (start + n) * d / 2 && sin.len >= (start + n) * d / 2);
    // Each unit has four values of either half of a head.
    let lanes = (d / 8) as u32;
    let (dim, plane) = cube_dim(gpu, UNITS, lanes);
    gpu.count();
    // SAFETY: units past the last head work on the last one and write nothing; the lengths of what they read and write
    // are asserted above, that of the history is `capacity` positions.
    #[allow(unsafe_code, reason = "launches without bounds checks")]
    unsafe {
        append_kernel::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static((all_heads as u32).div_ceil(UNITS / lanes), n as u32, 1),
            dim,
            qkv.arg(),
            cos.arg(),
            sin.arg(),
            q_out.arg(),
            history.k.arg(),
            history.v.arg(),
            history.scales.arg(),
            start as u32,
            heads as u32,
            kv_heads as u32,
            d,
            history.kv_type,
            plane,
        );
    }
}

/// A cube of `units`, and whether runs of `lanes` units may exchange values within their plane.
pub(super) fn cube_dim<R: Runtime>(gpu: &Gpu<R>, units: u32, lanes: u32) -> (CubeDim, bool) {
    match gpu.plane {
        Some(plane) if plane.is_multiple_of(lanes) && units.is_multiple_of(plane) => {
            (CubeDim::new_2d(plane, units / plane), true)
        }
        _ => (CubeDim::new_1d(units), false),
    }
}

#[cube(launch_unchecked)]
fn append_kernel(
    qkv: &Array<Vector<f32, Const<4>>>,
    cos: &Array<Vector<f32, Const<4>>>,
    sin: &Array<Vector<f32, Const<4>>>,
    q_out: &mut Array<Vector<f32, Const<4>>>,
    k: &mut Array<u32>,
    v: &mut Array<u32>,
    scales: &mut Array<f32>,
    start: u32,
    heads: u32,
    kv_heads: u32,
    #[comptime] head_dim: usize,
    #[comptime] kv_type: KvType,
    #[comptime] plane: bool,
) {
    let lanes = comptime!(head_dim as u32 / 8);
    let lane = UNIT_POS % lanes;
    let token = CUBE_POS_Y;
    let all_heads = heads + 2u32 * kv_heads;
    let place = CUBE_POS_X * comptime!(UNITS / lanes) + UNIT_POS / lanes;
    let head = u32::min(place, all_heads - 1u32);

    // In vectors of four values: the first and the second half of a head.
    let first = (token * all_heads + head) * comptime!(head_dim as u32 / 4) + lane;
    let mut x1 = qkv[first as usize];
    let mut x2 = qkv[(first + lanes) as usize];
    if head < heads + kv_heads {
        let angle = ((start + token) * lanes + lane) as usize;
        let o1 = x1 * cos[angle] - x2 * sin[angle];
        let o2 = x2 * cos[angle] + x1 * sin[angle];
        x1 = o1;
        x2 = o2;
    }

    let mut inverse = 1.0f32;
    let mut scale = 1.0f32;
    if comptime!(kv_type == KvType::Q8) {
        scale = largest(x1, x2, lane, lanes, plane) / 127.0f32;
        // A scale too small to be a whole number of steps stands for zeros.
        inverse = select(scale >= 1.175_494_4e-38f32, 1.0f32 / scale, 0.0f32);
    }

    if place < heads {
        let to = (token * heads + head) * comptime!(head_dim as u32 / 4) + lane;
        q_out[to as usize] = x1;
        q_out[(to + lanes) as usize] = x2;
    } else if place < all_heads {
        let of_v = u32::cast_from(place >= heads + kv_heads);
        let kv_head = place - heads - of_v * kv_heads;
        let at = (start + token) * kv_heads + kv_head;
        let at_value = at * comptime!(head_dim as u32) + lane * 4u32;
        let second = comptime!(head_dim as u32 / 2);
        if of_v == 0u32 {
            put(k, at_value, x1, inverse, kv_type);
            put(k, at_value + second, x2, inverse, kv_type);
        } else {
            put(v, at_value, x1, inverse, kv_type);
            put(v, at_value + second, x2, inverse, kv_type);
        }
        if comptime!(kv_type == KvType::Q8) && lane == 0u32 {
            scales[(2u32 * at + of_v) as usize] = scale;
        }
    }
}

/// The largest magnitude of the head that `lanes` units share. As integers, because there NaN is larger than all others
/// and does not get lost.
#[cube]
fn largest(
    x1: Vector<f32, Const<4>>,
    x2: Vector<f32, Const<4>>,
    lane: u32,
    #[comptime] lanes: u32,
    #[comptime] plane: bool,
) -> f32 {
    let mut top = 0u32;
    #[unroll]
    for i in 0..4usize {
        top = u32::max(top, u32::reinterpret(x1[i]) & 0x7FFF_FFFFu32);
        top = u32::max(top, u32::reinterpret(x2[i]) & 0x7FFF_FFFFu32);
    }
    if plane {
        #[unroll]
        for step in 0..comptime!(lanes.ilog2()) {
            top = u32::max(top, plane_shuffle_xor(top, comptime!(1u32 << step)));
        }
    } else {
        let mut tops = SharedMemory::<u32>::new(comptime!(UNITS as usize));
        tops[UNIT_POS as usize] = top;
        sync_cube();
        let first = UNIT_POS - lane;
        #[unroll]
        for i in 0..lanes {
            top = u32::max(top, tops[(first + i) as usize]);
        }
    }
    f32::reinterpret(top)
}

/// Writes four values, the first of them number `at` of all.
#[cube]
fn put(
    words: &mut Array<u32>,
    at: u32,
    x: Vector<f32, Const<4>>,
    inverse: f32,
    #[comptime] kv_type: KvType,
) {
    match comptime!(kv_type) {
        KvType::F32 =>
        {
            #[unroll]
            for i in 0..4u32 {
                words[(at + i) as usize] = u32::reinterpret(x[i as usize]);
            }
        }
        KvType::Bf16 =>
        {
            #[unroll]
            for i in 0..2u32 {
                let low = bf16_bits(x[comptime!(2 * i as usize)]) >> 16u32;
                let high = bf16_bits(x[comptime!(2 * i as usize + 1)]);
                words[(at / 2u32 + i) as usize] = low | high;
            }
        }
        KvType::Q8 => {
            let mut word = 0u32;
            #[unroll]
            for i in 0..4u32 {
                // Rounded while it is positive, then 128 less in two's complement.
                let biased = u32::cast_from(f32::floor(x[i as usize] * inverse + 128.5f32));
                word |= ((biased & 0xFFu32) ^ 0x80u32) << comptime!(8 * i);
            }
            words[(at / 4u32) as usize] = word;
        }
    }
}

/// Values `4 i` to `4 i + 3` of those in `words`, in Q8 without their scale.
#[cube]
pub(super) fn four<N: Size>(
    words: Vector<u32, N>,
    #[comptime] i: usize,
    #[comptime] kv_type: KvType,
) -> Vector<f32, Const<4>> {
    let mut x = Vector::<f32, Const<4>>::empty();
    match comptime!(kv_type) {
        KvType::F32 =>
        {
            #[unroll]
            for j in 0..4usize {
                x[j] = f32::reinterpret(words[j]);
            }
        }
        KvType::Bf16 =>
        {
            #[unroll]
            for j in 0..2usize {
                let word = words[comptime!(2 * i + j)];
                x[comptime!(2 * j)] = bf16_low(word);
                x[comptime!(2 * j + 1)] = bf16_high(word);
            }
        }
        KvType::Q8 => {
            let word = words[i];
            #[unroll]
            for j in 0..4usize {
                x[j] = i8_at(word, comptime!(j as u32));
            }
        }
    }
    x
}

#[cfg(test)]
pub mod tests;
