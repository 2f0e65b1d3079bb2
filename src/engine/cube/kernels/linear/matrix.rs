//! A dense weight on the device, whole or in pieces of rows.

use std::ops::Range;

use cubecl::prelude::*;
use half::bf16;

use super::super::Buffer;
use super::super::words::{bf16_high, bf16_low, i8_biased};

/// Values that share a scale in [`Kind::Q8`].
pub const BLOCK: usize = 32;

/// How the values of a [`Matrix`] are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Two BF16 values to a word, `cols / 2` words a row: the checkpoint's bytes as they are.
    Bf16,
    /// Signed bytes, four to a word, `cols / 4` words a row; each [`BLOCK`] has a BF16 scale, two scales to a word,
    /// and each row begins with a new word of scales.
    Q8,
}

impl Kind {
    /// Words of packed values in a row of `cols` values.
    pub const fn row_words(self, cols: usize) -> usize {
        match self {
            Self::Bf16 => cols / 2,
            Self::Q8 => cols / 4,
        }
    }

    /// Words of scales in a row of `cols` values.
    pub const fn row_scales(self, cols: usize) -> usize {
        match self {
            Self::Bf16 => 0,
            Self::Q8 => (cols / BLOCK).div_ceil(2),
        }
    }
}

/// Which rows each piece of a matrix `[rows, cols]` has, so that no piece has more than `limit` bytes of values. All
/// pieces but the last have the same number of rows.
pub fn piece_rows(kind: Kind, rows: usize, cols: usize, limit: u64) -> Vec<Range<usize>> {
    let row_bytes = 4 * kind.row_words(cols) as u64;
    let most = usize::try_from(limit / row_bytes).unwrap_or(usize::MAX);
    assert!(
        most > 0,
        "a row of {row_bytes} bytes, at most {limit} in a piece"
    );
    let each = rows.div_ceil(rows.div_ceil(most));
    (0..rows)
        .step_by(each)
        .map(|first| first..rows.min(first + each))
        .collect()
}

/// Some rows of a [`Matrix`].
#[derive(Clone)]
pub struct Piece {
    /// `[rows, row_words]`
    pub words: Buffer,
    /// `[rows, row_scales]`, for [`Kind::Q8`].
    pub scales: Option<Buffer>,
    /// Which rows of the matrix these are.
    pub rows: Range<usize>,
}

/// A dense weight `[rows, cols]`, with a bias or without.
#[derive(Clone)]
pub struct Matrix {
    /// How it is packed.
    pub kind: Kind,
    /// Values of a product's result.
    pub rows: usize,
    /// Values of a product's input, a multiple of 32.
    pub cols: usize,
    /// The rows, in order and without gaps.
    pub pieces: Vec<Piece>,
    /// `[rows]`, f32.
    pub bias: Option<Buffer>,
}

impl Matrix {
    /// A matrix of what was uploaded; the pieces are in order.
    pub fn new(kind: Kind, cols: usize, pieces: Vec<Piece>, bias: Option<Buffer>) -> Self {
        assert!(cols > 0 && cols.is_multiple_of(BLOCK), "{cols} columns");
        let mut rows = 0;
        for piece in &pieces {
            assert_eq!(piece.rows.start, rows, "pieces have gaps");
            assert_eq!(piece.words.len, piece.rows.len() * kind.row_words(cols));
            assert_eq!(
                piece.scales.as_ref().map_or(0, |scales| scales.len),
                piece.rows.len() * kind.row_scales(cols)
            );
            rows = piece.rows.end;
        }
        assert!(rows > 0, "a matrix without rows");
        if let Some(bias) = &bias {
            assert_eq!(bias.len, rows);
        }
        Self {
            kind,
            rows,
            cols,
            pieces,
            bias,
        }
    }
}

/// Rows of [`Kind::Q8`] as they are uploaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Q8Rows {
    /// `[rows, cols / 4]`
    pub words: Vec<u32>,
    /// `[rows, cols / 32 / 2]`, rounded up
    pub scales: Vec<u32>,
}

/// Rounds rows of `cols` little-endian BF16 values to 8 bits. The scale is the largest magnitude of a block over 127,
/// rounded up to BF16, so that no value is clipped; a block too small for a normal scale is zero.
pub fn q8_from_bf16(bytes: &[u8], cols: usize) -> Q8Rows {
    assert!(cols.is_multiple_of(BLOCK) && bytes.len().is_multiple_of(2 * cols));
    let mut q8 = Q8Rows::default();
    for row in bytes.chunks_exact(2 * cols) {
        for pair in row.chunks(2 * 2 * BLOCK) {
            let mut scales = 0;
            for (i, block) in pair.chunks_exact(2 * BLOCK).enumerate() {
                scales |= u32::from(round_block(block, &mut q8.words).to_bits()) << (16 * i);
            }
            q8.scales.push(scales);
        }
    }
    q8
}

fn round_block(bytes: &[u8], words: &mut Vec<u32>) -> bf16 {
    let mut block = [0.0_f32; BLOCK];
    for (value, &bytes) in block.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *value = bf16::from_le_bytes(bytes).to_f32();
    }
    // As bits, because there NaN is larger than all others and does not get lost.
    let largest = block.iter().map(|value| value.abs().to_bits()).max();
    let scale = round_up(f32::from_bits(largest.unwrap_or(0)) / 127.0);
    let inverse = if scale >= bf16::MIN_POSITIVE {
        1.0 / scale.to_f32()
    } else {
        0.0
    };
    for four in block.as_chunks::<4>().0 {
        let rounded = four.map(|value| (value * inverse).round_ties_even() as i8 as u8);
        words.push(u32::from_le_bytes(rounded));
    }
    scale
}

/// The BF16 value that is no less.
fn round_up(x: f32) -> bf16 {
    let up = x.to_bits() + if x.is_finite() { 0xFFFF } else { 0 };
    bf16::from_bits((up >> 16) as u16)
}

/// A [`Piece`] inside a kernel.
#[derive(CubeType, CubeLaunch)]
pub struct Weight {
    words: Array<Vector<u32, Const<4>>>,
    scales: ComptimeOption<Array<u32>>,
}

impl Piece {
    /// This piece for a kernel.
    pub(in super::super) fn arg<R: Runtime>(&self) -> WeightLaunch<R> {
        let scales = self.scales.as_ref().map(Buffer::arg);
        WeightLaunch::new(self.words.arg(), scales.into())
    }
}

/// Values in a vector of four words.
pub const fn vector_values(kind: Kind) -> u32 {
    match kind {
        Kind::Bf16 => 8,
        Kind::Q8 => 16,
    }
}

#[cube]
impl Weight {
    /// Vector `v` of `row`, of `vectors` in each row.
    pub fn packed(&self, row: u32, v: u32, vectors: u32) -> Vector<u32, Const<4>> {
        self.words[(row * vectors + v) as usize]
    }

    /// What the values of vector `v` of `row` are multiplied with.
    pub fn scale(&self, row: u32, v: u32, vectors: u32) -> f32 {
        #[comptime]
        match self.scales.as_ref() {
            ComptimeOption::Some(scales) => {
                let word = scales[(row * vectors.div_ceil(4u32) + v / 4u32) as usize];
                f32::reinterpret((word >> (((v / 2u32) & 1u32) * 16u32)) << 16u32)
            }
            ComptimeOption::None => f32::new(1.0),
        }
    }
}

/// A value of what is there, 0 of what is not.
#[cube]
pub fn value_or_zero(values: &ComptimeOption<Array<f32>>, at: usize) -> f32 {
    #[comptime]
    match values.as_ref() {
        ComptimeOption::Some(values) => values[at],
        ComptimeOption::None => f32::new(0.0),
    }
}

/// Values `4 i .. 4 i + 4` of a vector of words, without their scale.
#[cube]
pub fn unpacked(
    words: Vector<u32, Const<4>>,
    #[comptime] i: usize,
    #[comptime] kind: Kind,
) -> Vector<f32, Const<4>> {
    let mut values = Vector::<f32, Const<4>>::empty();
    if comptime!(kind == Kind::Bf16) {
        values[0] = bf16_low(words[2 * i]);
        values[1] = bf16_high(words[2 * i]);
        values[2] = bf16_low(words[2 * i + 1]);
        values[3] = bf16_high(words[2 * i + 1]);
    } else {
        let word = words[i] ^ 0x8080_8080u32;
        #[unroll]
        for byte in 0..4usize {
            values[byte] = i8_biased(word, byte as u32);
        }
    }
    values
}
