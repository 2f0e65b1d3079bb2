//! Products with rounded activations, on whichever instructions there are.

#[cfg(target_arch = "x86_64")]
use super::{avx2, pairs, vnni};

use super::Rows;
use super::int8::StripBlock;
use super::lanes::{BLOCK, LANES};
use super::rounded::{Grid, QUAD, Quad};

/// Room for decoded rows, used again and again.
#[derive(Default)]
pub struct Strips {
    integers: Vec<StripBlock>,
    pairs: [Vec<[i32; LANES]>; 2],
}

/// Products of packed weights with integer activations.
#[derive(Clone, Copy)]
pub enum Integers {
    /// Through 16 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    /// One instruction.
    #[cfg(target_arch = "x86_64")]
    Vnni(vnni::Vnni),
}

/// Runs `$result` with whatever set this is.
macro_rules! dispatch {
    ($self:ident, $set:ident => $result:expr) => {
        match *$self {
            #[cfg(target_arch = "x86_64")]
            Integers::Avx2($set) => $result,
            #[cfg(target_arch = "x86_64")]
            Integers::Vnni($set) => $result,
        }
    };
}

impl Integers {
    /// What integer activations must know of packed `rows`.
    pub fn grid(&self, rows: Rows<'_>) -> Grid {
        let zeros: (i32, i32) = dispatch!(self, set => set.zeros());
        match rows {
            // Twice an E2M1 value is an integer.
            Rows::Mxfp4 { .. } => Grid {
                zero: zeros.0,
                unit: 0.5,
            },
            _ => Grid {
                zero: zeros.1,
                unit: 1.0,
            },
        }
    }

    /// Rounds a row of activations to `P` planes, for weights of `grid`.
    pub fn quantize<const P: usize>(&self, x: &[f32], grid: Grid, quads: &mut [Quad<P>]) {
        assert_eq!(
            quads.len(),
            x.len().div_ceil(QUAD),
            "quads of {} activations",
            x.len()
        );
        dispatch!(self, set => set.quantize(x, grid, quads));
    }

    /// `out[t, r] = rows[r] . x[t]`.
    ///
    /// # Shapes
    /// `rows`: `[R, cols]`, MXFP4 or 8 bits; `x`: `N` rows of [`Quantized`](super::Quantized) made with `cols`
    /// columns and the [`grid`](Self::grid) of such rows; `out`: `[N, R]`.
    pub fn dots<const P: usize>(
        &self,
        rows: Rows<'_>,
        cols: usize,
        x: &[&[Quad<P>]],
        strips: &mut Strips,
        out: &mut [f32],
    ) {
        let Some(count) = check(rows, cols, x, cols.div_ceil(QUAD), out) else {
            return;
        };
        assert!(
            matches!(rows, Rows::Mxfp4 { .. } | Rows::Q8(_)) && count > 0,
            "packed rows"
        );
        dispatch!(self, set => set.packed_dots(rows, x, &mut strips.integers, out));
    }
}

/// Products in BF16, for many tokens at once.
#[derive(Clone, Copy)]
pub enum Bf16 {
    /// One instruction for two columns.
    #[cfg(target_arch = "x86_64")]
    Avx512(pairs::Avx512Bf16),
}

impl Bf16 {
    /// Rows of weights have to come in multiples of this.
    pub const ROWS: usize = LANES;

    /// Rounds a row of activations.
    pub fn round(&self, x: &[f32], words: &mut [u32]) {
        assert_eq!(
            words.len(),
            x.len().next_multiple_of(BLOCK) / 2,
            "words of {} activations",
            x.len()
        );
        match *self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(set) => set.round(x, words),
        }
    }

    /// `out[t, r] = rows[r] . x[t]`.
    ///
    /// # Shapes
    /// `rows`: `[R, cols]`, BF16 or MXFP4, `R` a multiple of [`ROWS`](Self::ROWS); `x`: `N` rows of
    /// [`Pairs`](super::Pairs) made with `cols` columns; `out`: `[N, R]`.
    pub fn dots(
        &self,
        rows: Rows<'_>,
        cols: usize,
        x: &[&[u32]],
        strips: &mut Strips,
        out: &mut [f32],
    ) {
        let Some(count) = check(rows, cols, x, cols.next_multiple_of(BLOCK) / 2, out) else {
            return;
        };
        assert!(
            matches!(rows, Rows::Mxfp4 { .. } | Rows::Bf16(_)) && count.is_multiple_of(Self::ROWS),
            "{count} rows of BF16 or MXFP4"
        );
        match *self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(set) => set.dots(rows, x, &mut strips.pairs, out),
        }
    }
}

/// The number of rows of a product, or `None` where there is nothing to do. Panics where the shapes do not fit.
fn check<T>(rows: Rows<'_>, cols: usize, x: &[&[T]], width: usize, out: &[f32]) -> Option<usize> {
    if x.is_empty() || out.is_empty() {
        return None;
    }
    let count = out.len() / x.len();
    assert_eq!(count * x.len(), out.len(), "results of {} tokens", x.len());
    rows.check(count, cols);
    for x in x {
        assert_eq!(x.len(), width, "a row of {cols} activations");
    }
    Some(count)
}
