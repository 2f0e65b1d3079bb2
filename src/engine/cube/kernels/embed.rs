//! The embedding: rows of a table by token id.

use cubecl::prelude::*;

use super::linear::{Kind, Matrix, Weight, unpacked, vector_values};
use super::sums::{spread, spread_pos};
use super::{Buffer, Gpu};

const UNITS: u32 = 128;

#[cube(launch_unchecked)]
fn rows(
    ids: &Array<u32>,
    table: &Weight,
    y: &mut Array<Vector<f32, Const<4>>>,
    n: u32,
    rows: u32,
    first_row: u32,
    vectors: u32,
    #[comptime] kind: Kind,
) {
    let fours = comptime!(vector_values(kind) as usize / 4);
    let token = spread_pos();
    if token < n {
        // An id before the first row is a very large number here.
        let row = ids[token as usize] - first_row;
        if row < rows {
            let mut v = UNIT_POS;
            while v < vectors {
                let packed = table.packed(row, v, vectors);
                let scale = Vector::<f32, Const<4>>::new(table.scale(row, v, vectors));
                #[unroll]
                for i in 0..fours {
                    y[(token * vectors + v) as usize * fours + i] =
                        unpacked(packed, i, kind) * scale;
                }
                v += UNITS;
            }
        }
    }
}

/// `y[i] = table[ids[i]]`: ids `[n]` of u32, y `[n, cols]` of f32. Nothing is written for an id beyond the table.
pub fn embed<R: Runtime>(gpu: &Gpu<R>, ids: &Buffer, table: &Matrix, y: &Buffer) {
    let n = ids.len;
    assert!(n > 0, "no token");
    assert_eq!(y.len, n * table.cols, "y is not [{n}, {}]", table.cols);
    assert!(y.len < 1 << 31, "{n} tokens at once");
    for piece in &table.pieces {
        gpu.count();
        // SAFETY: `Matrix::new` and the lines above have checked the lengths; the token and the row are guarded.
        #[allow(unsafe_code, reason = "a kernel without bounds checks")]
        unsafe {
            rows::launch_unchecked::<R>(
                &gpu.client,
                spread(n, 1),
                CubeDim::new_1d(UNITS),
                ids.arg(),
                piece.arg(),
                y.arg(),
                n as u32,
                piece.rows.len() as u32,
                piece.rows.start as u32,
                table.cols as u32 / vector_values(table.kind),
                table.kind,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::linear::testing::Host;
    use super::super::testing::{Numbers, gpus, read};
    use super::*;

    #[test]
    fn rows_of_every_piece_and_nothing_for_others() {
        let mut numbers = Numbers::new(3);
        let ids = [0_u32, 99, 33, 34, 67, 68, 34, 100, u32::MAX, 5];
        for gpu in gpus() {
            for (kind, cols) in [
                (Kind::Bf16, 96),
                (Kind::Q8, 96),
                (Kind::Bf16, 2880),
                (Kind::Q8, 2880),
            ] {
                let host = Host::new(&mut numbers, kind, 100, cols, false);
                // 34, 34 and 32 rows.
                let table = host.upload(&gpu, 4 * (40 * kind.row_words(cols)) as u64);
                assert_eq!(table.pieces[1].rows, 34..68);
                let y = gpu.upload(&vec![7.5_f32; ids.len() * cols]);
                embed(&gpu, &gpu.upload(&ids), &table, &y);
                for (found, &id) in read(&gpu, &y).chunks(cols).zip(&ids) {
                    match host.values.chunks(cols).nth(id as usize) {
                        Some(row) => assert_eq!(found, row, "{kind:?}, id {id}"),
                        None => assert_eq!(found, vec![7.5; cols], "id {id}"),
                    }
                }
            }
        }
    }
}
