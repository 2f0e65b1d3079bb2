//! What the integer products need beyond [`Lanes`]: sixteen words of four bytes each.

use super::lanes::{LANES, Lanes};

/// Sixteen 32-bit words, each also four bytes. Like [`Lanes`], a value proves the instructions.
pub trait Words: Copy {
    /// The f32 lanes beside them.
    type L: Lanes;
    type W: Copy;
    /// What [`Words::low`] and [`Words::high`] add to a value, because the first factor of a dot has no sign.
    const MXFP4_ZERO: i32;
    /// What [`Words::q8`] adds.
    const Q8_ZERO: i32;

    fn lanes(self) -> Self::L;
    fn splat_word(self, word: i32) -> Self::W;
    fn load_words(self, words: &[i32; LANES]) -> Self::W;
    fn store_words(self, words: Self::W, to: &mut [i32; LANES]);
    fn load_bytes(self, bytes: &[u8; 4 * LANES]) -> Self::W;

    /// Up to four blocks of sixteen bytes, then zeros. In registers: what is put together in memory first and then
    /// read at once has to wait until it has got there, and with it all that was asked of memory before.
    fn load_blocks(self, blocks: &[[u8; LANES]]) -> Self::W;

    /// Twice the E2M1 values of the low nibbles, an integer, plus [`Words::MXFP4_ZERO`].
    fn low(self, nibbles: Self::W) -> Self::W;
    /// The same of the high nibbles.
    fn high(self, nibbles: Self::W) -> Self::W;
    /// Signed bytes in the form that [`Words::dot_q8`] wants.
    fn q8(self, bytes: Self::W) -> Self::W;
    /// Adds to each word the four products of the bytes of `w`, from [`Words::low`] or [`Words::high`], with the
    /// signed bytes of `x`, which are no less than -127.
    fn dot_mxfp4(self, acc: Self::W, w: Self::W, x: Self::W) -> Self::W;
    /// The same with bytes of [`Words::q8`].
    fn dot_q8(self, acc: Self::W, w: Self::W, x: Self::W) -> Self::W;

    fn add(self, a: Self::W, b: Self::W) -> Self::W;
    /// Times 128.
    fn times_128(self, a: Self::W) -> Self::W;
    fn to_f32(self, words: Self::W) -> V<Self>;
    fn mul(self, a: V<Self>, b: V<Self>) -> V<Self>;

    /// `2^(byte - 127)` of four bytes, each in four lanes. 0 gives zero rather than a subnormal, 255 infinity.
    fn e8m0(self, bytes: [u8; 4]) -> V<Self>;
    /// The same of byte `k` of each word.
    fn e8m0_byte(self, words: Self::W, k: usize) -> V<Self>;
    /// Four BF16 values, each in four lanes.
    fn bf16_by_block(self, values: [u8; 8]) -> V<Self>;
    /// Word `j` of each of sixteen rows, for the four words.
    fn transpose(self, rows: [&[u8; 16]; LANES]) -> [Self::W; 4];
}

/// The f32 lanes of `X`.
pub type V<X> = <<X as Words>::L as Lanes>::V;

/// A shuffle of bytes that puts those at `at` of block `b`, which lie `b * step` further on, into its four words;
/// -1 gives zero.
const fn by_block(at: [i8; 4], step: i8) -> [i8; 4 * LANES] {
    let mut control = [-1; 4 * LANES];
    let mut i = 0;
    while i < control.len() {
        if at[i % 4] >= 0 {
            control[i] = at[i % 4] + (i / 16) as i8 * step;
        }
        i += 1;
    }
    control
}

/// A byte on top of each word of its block.
pub const TOP_BYTES: [i8; 4 * LANES] = by_block([-1, -1, -1, 0], 1);
/// Two bytes on top of each word of their block.
pub const TOP_PAIRS: [i8; 4 * LANES] = by_block([-1, -1, 0, 1], 2);
