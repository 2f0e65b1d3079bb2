//! What is appended, against plain arithmetic in f64.

use cubecl::wgpu::WgpuRuntime;
use half::bf16;

use super::super::testing::{Numbers, assert_close, gpus, read, read_words};
use super::*;

/// Every way to hold keys and values.
pub const TYPES: [KvType; 3] = [KvType::F32, KvType::Bf16, KvType::Q8];
const D: usize = 64;

/// The keys and values that a history holds, `[capacity, kv_heads, head_dim]` each.
pub fn held(gpu: &Gpu<WgpuRuntime>, history: &History) -> (Vec<f32>, Vec<f32>) {
    let scales = read(gpu, &history.scales);
    let values = |buffer: &Buffer, which: usize| {
        let words = read_words(gpu, buffer);
        let per = history.kv_type.per_word();
        let value = |i: usize| {
            let word = words[i / per];
            match history.kv_type {
                KvType::F32 => f32::from_bits(word),
                KvType::Bf16 => bf16::from_bits((word >> (i % 2 * 16)) as u16).to_f32(),
                KvType::Q8 => {
                    let scale = scales[i / history.head_dim * 2 + which];
                    f32::from((word >> (i % 4 * 8)) as u8 as i8) * scale
                }
            }
        };
        (0..words.len() * per).map(value).collect()
    };
    (values(&history.k, 0), values(&history.v, 1))
}

/// Heads `heads` of `[n, all_heads, d]`.
fn taken(x: &[f32], all_heads: usize, d: usize, heads: std::ops::Range<usize>) -> Vec<f32> {
    x.chunks(all_heads * d)
        .flat_map(|token| token[heads.start * d..heads.end * d].to_vec())
        .collect()
}

/// The halves of every head rotated.
fn rotated(x: &[f32], heads: usize, d: usize, cos: &[f32], sin: &[f32]) -> Vec<f32> {
    let half = d / 2;
    let mut out = vec![0.0; x.len()];
    for (row, (from, to)) in x.chunks(d).zip(out.chunks_mut(d)).enumerate() {
        for i in 0..half {
            let angle = row / heads * half + i;
            let (x1, x2) = (f64::from(from[i]), f64::from(from[half + i]));
            let (cos, sin) = (f64::from(cos[angle]), f64::from(sin[angle]));
            to[i] = (x1 * cos - x2 * sin) as f32;
            to[half + i] = (x2 * cos + x1 * sin) as f32;
        }
    }
    out
}

/// Fails where `found` is not `exact` as far as the type can hold it.
fn assert_held(found: &[f32], exact: &[f32], d: usize, kv_type: KvType) {
    assert_eq!(found.len(), exact.len());
    for (row, (found, exact)) in found.chunks(d).zip(exact.chunks(d)).enumerate() {
        let top = exact.iter().fold(0.0f32, |top, x| top.max(x.abs()));
        for (i, (found, exact)) in found.iter().zip(exact).enumerate() {
            let tolerance = match kv_type {
                KvType::F32 => 1e-6 * top,
                // Half of a step of eight bits, and the rotation's rounding.
                KvType::Bf16 => exact.abs() / 256.0 + 1e-6 * top,
                KvType::Q8 => top / 254.0 + 1e-5 * top,
            };
            assert!(
                (found - exact).abs() <= tolerance,
                "{kv_type:?}, row {row}, value {i}: {found}, expected {exact}"
            );
        }
    }
}

/// Appends in steps of which some go back, and compares everything after each.
fn steps(kv_type: KvType, heads: usize, kv_heads: usize, d: usize) {
    let mut numbers = Numbers::new(7);
    for gpu in gpus() {
        let history = History::new(&gpu, kv_heads, d, kv_type, 100);
        let row = kv_heads * d;
        let (mut k, mut v): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
        for (start, n) in [(0, 1), (1, 5), (6, 40), (13, 3), (16, 1)] {
            let all = heads + 2 * kv_heads;
            let mut qkv = numbers.values(n * all * d);
            // Heads of very different sizes, so that a scale of another head shows.
            for (i, head) in qkv.chunks_mut(d).enumerate() {
                let size = [1.0, 30.0, 0.01][i % 3];
                for x in head {
                    *x *= size;
                }
            }
            let angles = (start + n) * d / 2;
            let (cos, sin) = (numbers.values(angles), numbers.values(angles));
            let (new_cos, new_sin) = (&cos[start * d / 2..], &sin[start * d / 2..]);
            let q_out = gpu.upload(&vec![f32::NAN; n * heads * d]);
            let up = |x: &[f32]| gpu.upload(x);
            append(
                &gpu,
                &up(&qkv),
                &up(&cos),
                &up(&sin),
                n,
                start,
                &history,
                heads,
                &q_out,
            );

            let q = rotated(&taken(&qkv, all, d, 0..heads), heads, d, new_cos, new_sin);
            assert_held(&read(&gpu, &q_out), &q, d, KvType::F32);
            let new_k = taken(&qkv, all, d, heads..heads + kv_heads);
            k.truncate(start * row);
            v.truncate(start * row);
            k.extend(rotated(&new_k, kv_heads, d, new_cos, new_sin));
            v.extend(taken(&qkv, all, d, heads + kv_heads..all));
            let (held_k, held_v) = held(&gpu, &history);
            assert_held(&held_k[..k.len()], &k, d, kv_type);
            assert_held(&held_v[..v.len()], &v, d, kv_type);
        }
    }
}

#[test]
fn appends_in_f32() {
    steps(KvType::F32, 16, 2, D);
}

#[test]
fn appends_in_bf16() {
    steps(KvType::Bf16, 4, 2, D);
}

#[test]
fn appends_in_q8() {
    steps(KvType::Q8, 3, 3, D);
}

#[test]
fn appends_heads_of_128() {
    for kv_type in TYPES {
        steps(kv_type, 4, 1, 128);
    }
}

/// Appends one token of heads 1, 1, 1 that is not rotated.
fn append_one(gpu: &Gpu<WgpuRuntime>, history: &History, k: &[f32], v: &[f32]) {
    let qkv = [&[0.0; D][..], k, v].concat();
    let (cos, sin) = (gpu.upload(&[1.0f32; D / 2]), gpu.upload(&[0.0f32; D / 2]));
    let q_out = gpu.empty(D);
    append(gpu, &gpu.upload(&qkv), &cos, &sin, 1, 0, history, 1, &q_out);
}

#[test]
fn bf16_rounds_to_even_and_q8_to_the_nearest_step() {
    let mut k = [0.0f32; D];
    k[0] = f32::from_bits(0x3F80_8000);
    k[1] = f32::from_bits(0x3F81_8000);
    k[2] = f32::from_bits(0xBF80_8001);
    let mut v = [0.0f32; D];
    v[0] = -254.0;
    v[1] = 253.9;
    v[33] = 2.9;
    v[34] = -3.1;
    for gpu in gpus() {
        let history = History::new(&gpu, 1, D, KvType::Bf16, 1);
        append_one(&gpu, &history, &k, &v);
        let found = held(&gpu, &history).0;
        let bits: Vec<u32> = found[..4].iter().map(|x| x.to_bits()).collect();
        assert_eq!(bits, [0x3F80_0000, 0x3F82_0000, 0xBF81_0000, 0]);

        let history = History::new(&gpu, 1, D, KvType::Q8, 1);
        append_one(&gpu, &history, &k, &v);
        let found = held(&gpu, &history).1;
        assert_close(&found[..3], &[-254.0, 254.0, 0.0], 1e-4);
        assert_close(&found[32..36], &[0.0, 2.0, -4.0, 0.0], 1e-4);
    }
}

#[test]
fn nan_is_never_held_as_a_number() {
    for gpu in gpus() {
        for kv_type in TYPES {
            for bits in [0x7FC0_0000, 0x7FFF_FFFF, 0xFFFF_FFFF] {
                let history = History::new(&gpu, 1, D, kv_type, 1);
                let mut k = [1.0f32; D];
                k[5] = f32::from_bits(bits);
                append_one(&gpu, &history, &k, &[1.0; D]);
                let (k, v) = held(&gpu, &history);
                assert!(k[5].is_nan(), "{kv_type:?}, {bits:x}: {}", k[5]);
                assert!((v[5] - 1.0).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn a_head_of_zeros_stays_zeros() {
    for gpu in gpus() {
        let history = History::new(&gpu, 1, D, KvType::Q8, 1);
        append_one(&gpu, &history, &[0.0; D], &[1e-39; D]);
        let (k, v) = held(&gpu, &history);
        assert!(k[..D].iter().chain(&v[..D]).all(|x| x.abs() <= 1e-39));
    }
}

#[test]
fn it_keeps_what_it_holds_when_it_grows() {
    for gpu in gpus() {
        for kv_type in TYPES {
            let mut history = History::new(&gpu, 1, D, kv_type, 0);
            let (n, mut numbers) = (history.capacity, Numbers::new(3));
            let qkv = numbers.values(n * 3 * D);
            let cos = gpu.upload(&vec![1.0f32; n * D / 2]);
            let sin = gpu.upload(&vec![0.0f32; n * D / 2]);
            let q_out = gpu.empty(n * D);
            append(
                &gpu,
                &gpu.upload(&qkv),
                &cos,
                &sin,
                n,
                0,
                &history,
                1,
                &q_out,
            );
            let (k, v) = held(&gpu, &history);
            history.reserve(&gpu, n);
            assert_eq!(history.capacity, n);
            history.reserve(&gpu, n + 1);
            assert_eq!(history.capacity, 2 * n);
            let (grown_k, grown_v) = held(&gpu, &history);
            assert_eq!(grown_k[..n * D], k);
            assert_eq!(grown_v[..n * D], v);
        }
    }
}

#[test]
fn a_history_ends_where_the_device_binds_no_more() {
    for gpu in gpus() {
        let most = History::most(&gpu, 8, 64, KvType::Bf16);
        assert_eq!(most as u64, (gpu.binding_limit() / 1024).min(4_194_303));
        // 128 MiB hold the whole context of gpt-oss in BF16.
        assert!(most >= 131_072 || gpu.binding_limit() < 128 << 20);
        if gpu.binding_limit() < 1 << 30 {
            assert_eq!(History::most(&gpu, 8, 64, KvType::F32), most / 2);
            assert_eq!(History::most(&gpu, 8, 64, KvType::Q8), most * 2);
        }
    }
}
