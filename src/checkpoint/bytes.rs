//! Ranges of memory-mapped files, and the BF16 tensors in them.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::Mmap;

/// A byte range of a memory-mapped file, or of the built-in model. Cheap to clone; never copied.
#[derive(Clone)]
pub struct Bytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    Map(Arc<Mmap>),
    Heap(Arc<[u8]>),
    Static(&'static [u8]),
}

impl Bytes {
    /// Maps the whole of `file`, read-only.
    ///
    /// The kernel is given no advice: told of sequential reading it would let pages go that the next token needs again,
    /// and told that all will be needed it would fetch every expert before the first answer.
    #[allow(unsafe_code)]
    pub(super) fn map(file: &File) -> io::Result<Self> {
        // SAFETY: the map is read-only and every byte pattern is a valid u8. A file that another program shortens
        // while it is mapped raises SIGBUS here, which every program that maps its weights accepts.
        let map = unsafe { Mmap::map(file)? };
        let range = 0..map.len();
        Ok(Self {
            owner: Owner::Map(Arc::new(map)),
            range,
        })
    }

    /// The part `range` of these bytes, sharing their owner.
    ///
    /// # Panics
    /// If `range` is not within these bytes, as slicing does.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "range {range:?} of {} bytes",
            self.len()
        );
        Self {
            owner: self.owner.clone(),
            range: self.range.start + range.start..self.range.start + range.end,
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match &self.owner {
            Owner::Map(map) => map,
            Owner::Heap(bytes) => bytes,
            Owner::Static(bytes) => bytes,
        };
        &whole[self.range.clone()]
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::from(&[][..])
    }
}

impl From<&'static [u8]> for Bytes {
    fn from(bytes: &'static [u8]) -> Self {
        Self {
            range: 0..bytes.len(),
            owner: Owner::Static(bytes),
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            range: 0..bytes.len(),
            owner: Owner::Heap(bytes.into()),
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.len())
    }
}

/// A BF16 tensor as stored: little-endian, row-major, not necessarily aligned.
#[derive(Clone, Debug)]
pub struct Bf16 {
    /// Two bytes per element.
    pub bytes: Bytes,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
}

impl Bf16 {
    /// Number of rows: the product of all dimensions but the last; 1 for a vector.
    pub fn rows(&self) -> usize {
        self.shape.iter().rev().skip(1).product()
    }

    /// Length of a row: the last dimension.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Row `i` as stored, `2 * cols` bytes.
    ///
    /// # Panics
    /// If there is no row `i`.
    pub fn row(&self, i: usize) -> &[u8] {
        let width = 2 * self.cols();
        &self.bytes[i * width..(i + 1) * width]
    }

    /// All elements, widened. For the small tensors: norms, biases, sinks.
    pub fn to_f32(&self) -> Vec<f32> {
        bf16_to_f32(&self.bytes).collect()
    }
}

/// Widens little-endian BF16, exactly: BF16 is the upper half of an f32.
pub fn bf16_to_f32(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes
        .chunks_exact(2)
        .map(|pair| f32::from_bits(u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> Bf16 {
        let values = (0..12u16).flat_map(|i| half::bf16::from_f32(f32::from(i)).to_le_bytes());
        Bf16 {
            bytes: Bytes::from(values.collect::<Vec<u8>>()),
            shape: vec![4, 3],
        }
    }

    #[test]
    fn rows_and_columns_are_those_of_the_shape() {
        let matrix = counted();
        assert_eq!((matrix.rows(), matrix.cols()), (4, 3));
        assert_eq!(
            bf16_to_f32(matrix.row(2)).collect::<Vec<_>>(),
            [6.0, 7.0, 8.0]
        );
        let vector = Bf16 {
            shape: vec![12],
            ..matrix
        };
        assert_eq!((vector.rows(), vector.cols()), (1, 12));
    }

    #[test]
    fn bf16_is_read_at_odd_addresses() {
        let bytes = Bytes::from(vec![0xff, 0x80, 0x3f, 0x00, 0xc0, 0xff]);
        let tensor = Bf16 {
            bytes: bytes.slice(1..5),
            shape: vec![2],
        };
        assert_eq!(tensor.to_f32(), [1.0, -2.0]);
    }

    #[test]
    fn every_bf16_pattern_widens_as_the_half_crate_says() {
        for pattern in 0..=u16::MAX {
            let ours = bf16_to_f32(&pattern.to_le_bytes()).next().unwrap();
            let theirs = f32::from(half::bf16::from_bits(pattern));
            assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()));
        }
    }

    #[test]
    #[should_panic(expected = "range 2..5 of 4 bytes")]
    fn a_slice_cannot_reach_past_its_bytes_into_the_owner() {
        let _ = Bytes::from(vec![0; 16]).slice(4..8).slice(2..5);
    }
}
