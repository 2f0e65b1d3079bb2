use cubecl::wgpu::WgpuRuntime;

use super::super::testing::{Numbers, gpus, normed, packed_bf16, read};
use super::testing::{Host, from_bf16, from_q8};
use super::tiled::Tile;
use super::*;

/// Checks the product of `n` tokens, with tiles of `tile` or as `linear` chooses.
fn check(
    gpu: &Gpu<WgpuRuntime>,
    host: &Host,
    limit: u64,
    n: usize,
    with_residual: bool,
    tile: Option<Tile>,
) {
    let mut numbers = Numbers::new(n as u64);
    let x = numbers.values(n * host.cols);
    let residual = with_residual.then(|| numbers.values(n * host.rows));
    let matrix = host.upload(gpu, limit);
    let y = gpu.upload(&vec![f32::NAN; n * host.rows]);
    let x_there = gpu.upload(&x);
    let residual_there = residual.as_ref().map(|residual| gpu.upload(residual));
    if let Some(tile) = tile {
        for piece in &matrix.pieces {
            tiled::launch(
                gpu,
                &x_there,
                &matrix,
                piece,
                residual_there.as_ref(),
                &y,
                tile,
            );
        }
    } else {
        linear(gpu, &x_there, &matrix, residual_there.as_ref(), &y);
    }
    let expected = host.linear(&x, residual.as_deref());
    for (i, (&found, (sum, magnitude))) in read(gpu, &y).iter().zip(expected).enumerate() {
        assert!(
            (f64::from(found) - sum).abs() <= 1e-6 * magnitude,
            "{:?} [{}, {}], n = {n}, token {}, row {}: {found}, expected {sum}",
            host.kind,
            host.rows,
            host.cols,
            i / host.rows,
            i % host.rows
        );
    }
}

fn few_tokens(kind: Kind) {
    let mut numbers = Numbers::new(1);
    for gpu in gpus() {
        // A group of units has one row of few tokens and several of more: each may end within a group.
        for (rows, cols) in [(37, 96), (30, 2880), (17, 4096)] {
            let host = Host::new(&mut numbers, kind, rows, cols, true);
            for n in [1, 2, 11] {
                check(&gpu, &host, u64::MAX, n, true, None);
            }
        }
    }
}

#[test]
fn few_tokens_bf16() {
    few_tokens(Kind::Bf16);
}

#[test]
fn few_tokens_q8() {
    few_tokens(Kind::Q8);
}

#[test]
fn without_bias_or_residual() {
    let mut numbers = Numbers::new(2);
    for gpu in gpus() {
        for bias in [false, true] {
            let host = Host::new(&mut numbers, Kind::Bf16, 1, 32, bias);
            for n in [1, 20] {
                check(&gpu, &host, u64::MAX, n, !bias, None);
                check(&gpu, &host, u64::MAX, n, false, None);
            }
        }
    }
}

fn tiles_of_every_size(kind: Kind) {
    let mut numbers = Numbers::new(2);
    // Planes are nothing to this kernel.
    let gpu = gpus().remove(0);
    for (rows, cols) in [(1, 32), (70, 160), (131, 96)] {
        let host = Host::new(&mut numbers, kind, rows, cols, true);
        for (rows, tokens) in [(2, 2), (2, 4), (4, 4), (8, 2), (8, 4)] {
            for n in [17, 65] {
                let tile = Tile { rows, tokens };
                check(&gpu, &host, u64::MAX, n, true, Some(tile));
            }
        }
    }
}

#[test]
fn tiles_of_every_size_bf16() {
    tiles_of_every_size(Kind::Bf16);
}

#[test]
fn tiles_of_every_size_q8() {
    tiles_of_every_size(Kind::Q8);
}

#[test]
fn many_tokens() {
    let mut numbers = Numbers::new(3);
    let gpu = gpus().remove(0);
    for kind in [Kind::Bf16, Kind::Q8] {
        let host = Host::new(&mut numbers, kind, 33, 2880, true);
        for n in [17, 40] {
            check(&gpu, &host, u64::MAX, n, true, None);
        }
    }
}

#[test]
fn pieces_of_rows() {
    let mut numbers = Numbers::new(4);
    for gpu in gpus() {
        for kind in [Kind::Bf16, Kind::Q8] {
            let host = Host::new(&mut numbers, kind, 100, 96, true);
            // 34, 34 and 32 rows.
            let limit = 4 * (40 * kind.row_words(96)) as u64;
            assert_eq!(host.upload(&gpu, limit).pieces.len(), 3);
            for n in [1, 3, 20] {
                check(&gpu, &host, limit, n, true, None);
            }
        }
    }
}

/// Checks the product of `n` normed tokens, and these themselves.
fn check_normed(gpu: &Gpu<WgpuRuntime>, host: &Host, limit: u64, n: usize) {
    let mut numbers = Numbers::new(n as u64);
    let eps = if n == 2 { 0.5 } else { 1e-5 };
    let mut x = numbers.values(n * host.cols);
    // So small that eps counts, up to very large, and nothing at all; no two in a row need the same scale.
    for (token, x) in x.chunks_mut(host.cols).enumerate() {
        let size = [1e-3, 1e4, 0.1, 1e16, 0.0, 1e-20, 3.0][token % 7];
        for x in x {
            *x *= size;
        }
    }
    let mut gain = numbers.values(host.cols);
    for (i, gain) in gain.iter_mut().enumerate() {
        *gain *= [40.0, 0.02, 1.0][i % 3];
    }
    let t = normed(&x, &gain, eps);
    let expected = host.exact_linear(&t, None);
    let matrix = host.upload(gpu, limit);
    let (x, gain) = (gpu.upload(&x), gpu.upload(&gain));
    let filled = |values| gpu.upload(&vec![f32::NAN; n * values]);
    for keep in [false, true] {
        let (y, kept) = (filled(host.rows), filled(host.cols));
        let norm = Norm {
            gain: &gain,
            eps,
            t: keep.then_some(&kept),
        };
        let before = gpu.launches();
        norm_linear(gpu, &x, norm, &matrix, &y);
        let launches = matrix.pieces.len() + usize::from(n > FEW_TOKENS);
        assert_eq!(gpu.launches() - before, launches as u64);
        let what = format!("{:?} [{}, {}], n = {n}", host.kind, host.rows, host.cols);
        for (i, (&found, (sum, magnitude))) in read(gpu, &y).iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(found) - sum).abs() <= 2e-6 * magnitude,
                "{what}, token {}, row {}: {found}, expected {sum}",
                i / host.rows,
                i % host.rows
            );
        }
        let kept = if keep { read(gpu, &kept) } else { vec![] };
        for (i, (&found, expected)) in kept.iter().zip(&t).enumerate() {
            assert!(
                (f64::from(found) - expected).abs() <= 1e-6 * expected.abs(),
                "{what}, kept token {}, value {}: {found}, expected {expected}",
                i / host.cols,
                i % host.cols
            );
        }
    }
}

fn normed_tokens(kind: Kind) {
    let mut numbers = Numbers::new(6);
    for gpu in gpus() {
        // Fewer values than units, the model's, and rows that end within what a group reads at once.
        for (rows, cols) in [(1, 32), (37, 96), (128, 2880), (17, 4096)] {
            let host = Host::new(&mut numbers, kind, rows, cols, true);
            for n in [1, 2, 3, 11, 16, 17] {
                check_normed(&gpu, &host, u64::MAX, n);
            }
        }
    }
}

#[test]
fn normed_tokens_bf16() {
    normed_tokens(Kind::Bf16);
}

#[test]
fn normed_tokens_q8() {
    normed_tokens(Kind::Q8);
}

#[test]
fn normed_tokens_and_pieces_of_rows() {
    let mut numbers = Numbers::new(7);
    for gpu in gpus() {
        let host = Host::new(&mut numbers, Kind::Bf16, 100, 96, false);
        let limit = 4 * (40 * Kind::Bf16.row_words(96)) as u64;
        assert_eq!(host.upload(&gpu, limit).pieces.len(), 3);
        for n in [1, 5, 20] {
            check_normed(&gpu, &host, limit, n);
        }
    }
}

#[test]
fn pieces_have_all_rows_and_no_more_than_the_limit() {
    for kind in [Kind::Bf16, Kind::Q8] {
        for (rows, cols, limit) in [
            (201_088, 2880, 1 << 27),
            (7, 32, 64),
            (7, 32, 200),
            (5, 64, 1 << 40),
        ] {
            let pieces = piece_rows(kind, rows, cols, limit);
            let mut next = 0;
            for piece in &pieces {
                assert_eq!(piece.start, next);
                assert!(!piece.is_empty());
                assert!(4 * (piece.len() * kind.row_words(cols)) as u64 <= limit);
                next = piece.end;
            }
            assert_eq!(next, rows);
        }
    }
    assert_eq!(piece_rows(Kind::Bf16, 201_088, 2880, 1 << 27).len(), 9);
    assert_eq!(piece_rows(Kind::Q8, 201_088, 2880, u64::MAX).len(), 1);
}

#[test]
fn the_larger_the_product_the_larger_the_tile() {
    let tile = |rows, n| {
        let Tile { rows, tokens } = Tile::new(rows, n);
        (rows, tokens)
    };
    assert_eq!(tile(2880, 17), (2, 2));
    assert_eq!(tile(2880, 64), (2, 4));
    assert_eq!(tile(5120, 256), (4, 4));
    assert_eq!(tile(5120, 512), (8, 4));
}

#[test]
fn rounding_to_8_bits() {
    let mut numbers = Numbers::new(5);
    // Three blocks a row, so that each row ends within a word of scales.
    let mut values = numbers.values(4 * 96);
    values[96..128].fill(0.0);
    for value in &mut values[128..160] {
        *value *= 1e-5;
    }
    let words = packed_bf16(&values);
    let exact = from_bf16(&words);
    let q8 = q8_from_bf16(bytemuck::cast_slice(&words), 96);
    assert_eq!((q8.words.len(), q8.scales.len()), (4 * 24, 4 * 2));
    let bytes: &[i8] = bytemuck::cast_slice(&q8.words);
    let rounded = from_q8(&q8, 96);
    for (b, exact) in exact.chunks(32).enumerate() {
        let largest = exact
            .iter()
            .fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let steps = bytes[32 * b..][..32]
            .iter()
            .map(|byte| byte.unsigned_abs())
            .max();
        assert!(
            matches!(steps, Some(126 | 127)) || largest == 0.0,
            "block {b}: {steps:?}"
        );
        for (&rounded, &exact) in rounded[32 * b..][..32].iter().zip(exact) {
            let step = largest / 127.0 * (1.0 + 1.0 / 128.0);
            assert!(
                (rounded - exact).abs() <= 0.5 * step,
                "block {b}: {rounded}, {exact}"
            );
        }
    }
}

#[test]
fn what_is_not_finite_stays_so_in_8_bits() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut values = vec![1.0; 64];
        values[40] = bad;
        let q8 = q8_from_bf16(bytemuck::cast_slice(&packed_bf16(&values)), 64);
        let scales = from_bf16(&q8.scales);
        assert!(scales[0].is_finite() && !scales[1].is_finite());
    }
}
