//! What a set of instructions must offer: sixteen f32 lanes, and the weights of a block decoded into them.

/// Lanes of one accumulator. Part of the definition of a result, see [`super`].
pub const LANES: usize = 16;
/// Columns decoded in one step, and the length of an MXFP4 block.
pub const BLOCK: usize = 2 * LANES;

/// E2M1, by nibble.
pub const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// E8M0, by byte: `2^(byte - 127)`; 0 is subnormal, 255 is NaN.
pub const E8M0: [f32; 256] = {
    let mut table = [f32::NAN; 256];
    table[0] = f32::from_bits(1 << 22);
    let mut byte = 1;
    while byte < 255 {
        table[byte] = f32::from_bits((byte as u32) << 23);
        byte += 1;
    }
    table
};

/// Sixteen lanes of f32. A value of an implementing type proves that the CPU has its instructions, which is what
/// makes the methods safe. They are `inline(always)` and must end up in a function that enables those instructions.
pub trait Lanes: Copy {
    type V: Copy;

    fn splat(self, x: f32) -> Self::V;
    fn load(self, x: &[f32; LANES]) -> Self::V;
    fn store(self, v: Self::V, to: &mut [f32; LANES]);
    /// `a * b + c`
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The sum over the lanes as a tree: lane `i` with `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
    fn sum(self, v: Self::V) -> f32;
    /// [`Lanes::sum`] of four at once.
    #[inline(always)]
    fn sum4(self, v: [Self::V; 4]) -> [f32; 4] {
        [
            self.sum(v[0]),
            self.sum(v[1]),
            self.sum(v[2]),
            self.sum(v[3]),
        ]
    }

    /// Asks for the cache line of an address, which need not be one of this program, to come into the second cache.
    /// Not into the first: lines on their way there hold up what hits it.
    fn prefetch(self, address: *const u8);
    /// Sixteen BF16 values in their order.
    fn bf16(self, values: &[u8; 2 * LANES]) -> Self::V;
    /// The even and the odd elements of a block of BF16 values.
    fn split_bf16(self, block: &[u8; 2 * BLOCK]) -> [Self::V; 2];
    /// The even and the odd elements of a block of f32 values.
    fn split_f32(self, block: &[f32; BLOCK]) -> [Self::V; 2];
    /// The even and the odd elements of an MXFP4 block, scale applied.
    fn split_mxfp4(self, block: &[u8; BLOCK / 2], scale: u8) -> [Self::V; 2];
    /// Sixteen signed bytes.
    fn i8(self, bytes: &[u8; LANES]) -> Self::V;
    /// The signed bytes of sixteen words: the first of each, and so on.
    fn split_i8(self, bytes: &[u8; 4 * LANES]) -> [Self::V; 4];
    /// Sixteen signed bytes times `scale`.
    fn scaled_i8(self, bytes: &[u8; LANES], scale: f32) -> Self::V;
}

/// Weights that will be decoded next, asked for bit by bit while others are multiplied: decoding alone would wait for
/// memory.
pub struct Ahead<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl<'a> Ahead<'a> {
    /// To be over after `steps` steps.
    pub fn new(bytes: &'a [u8], steps: usize) -> Self {
        let lines = bytes.len().div_ceil(64);
        Self {
            bytes,
            step: 64 * lines.div_ceil(steps.max(1)),
        }
    }

    #[inline(always)]
    pub fn step<L: Lanes>(&mut self, l: L) {
        let (now, later) = self.bytes.split_at(self.step.min(self.bytes.len()));
        for line in now.chunks(64) {
            l.prefetch(line.as_ptr());
        }
        self.bytes = later;
    }
}
