//! Both ways against plain arithmetic in f64 over the values that the history holds.

use cubecl::wgpu::WgpuRuntime;

use super::super::history::append;
use super::super::history::tests::{TYPES, held};
use super::super::testing::{Numbers, assert_close, gpus, read};
use super::*;

/// Attention, the slow and obvious way.
fn twin(
    q: &[f32],
    (k, v): &(Vec<f32>, Vec<f32>),
    kv_heads: usize,
    d: usize,
    queries: Queries,
    sinks: &[f32],
) -> Vec<f32> {
    let Queries {
        n,
        start,
        heads,
        window,
    } = queries;
    let mut out = Vec::new();
    for i in 0..n {
        let end = start + i + 1;
        let first = window.map_or(0, |window| end.saturating_sub(window));
        for head in 0..heads {
            let q = &q[(i * heads + head) * d..][..d];
            let kv_head = head / (heads / kv_heads);
            let row = |x: &'_ [f32], key: usize, c: usize| {
                f64::from(x[(key * kv_heads + kv_head) * d + c])
            };
            let scores: Vec<f64> = (first..end)
                .map(|key| {
                    let dot: f64 = (0..d).map(|c| f64::from(q[c]) * row(k, key, c)).sum();
                    dot / (d as f64).sqrt()
                })
                .collect();
            let sink = f64::from(sinks[head]);
            let top = scores.iter().fold(sink, |top, &score| top.max(score));
            let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
            let total = total + (sink - top).exp();
            let mut sums = vec![0.0f64; d];
            for (key, score) in (first..end).zip(&scores) {
                let weight = (score - top).exp() / total;
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum += weight * row(v, key, c);
                }
            }
            out.extend(sums.iter().map(|&sum| sum as f32));
        }
    }
    out
}

/// A history of `keys` positions, and a few more that were gone back from.
fn history_of(
    gpu: &Gpu<WgpuRuntime>,
    keys: usize,
    kv_heads: usize,
    d: usize,
    kv_type: KvType,
) -> History {
    let all = keys + 3;
    let history = History::new(gpu, kv_heads, d, kv_type, all);
    let mut qkv = Numbers::new(keys as u64 + 11).values(all * (1 + 2 * kv_heads) * d);
    for (i, head) in qkv.chunks_mut(d).enumerate() {
        let stale = i / (1 + 2 * kv_heads) >= keys;
        let size = if stale {
            50.0
        } else {
            [1.0, 2.5, 0.3, 1.4][i % 4]
        };
        for x in head {
            *x *= size;
        }
    }
    let cos = gpu.upload(&vec![1.0f32; all * d / 2]);
    let sin = gpu.upload(&vec![0.0f32; all * d / 2]);
    let q_out = gpu.empty(all * d);
    append(
        gpu,
        &gpu.upload(&qkv),
        &cos,
        &sin,
        all,
        0,
        &history,
        1,
        &q_out,
    );
    history
}

/// Runs every way that takes so many tokens, and compares.
fn compare(gpu: &Gpu<WgpuRuntime>, history: &History, queries: Queries, sinks: &[f32]) {
    let (d, kv_heads, heads) = (history.head_dim, history.kv_heads, queries.heads);
    let mut q = Numbers::new(5).values(queries.n * heads * d);
    for x in &mut q {
        *x *= 3.0;
    }
    let expected = twin(&q, &held(gpu, history), kv_heads, d, queries, sinks);
    let (q, sinks) = (gpu.upload(&q), gpu.upload(sinks));
    let work = gpu.upload(&vec![f32::NAN; work_len(heads, d)]);
    let fresh = || gpu.upload(&vec![f32::NAN; queries.n * heads * d]);
    let context = format!(
        "{queries:?}, {:?}, {kv_heads} kv heads of {d}",
        history.kv_type
    );
    let check = |way: &str, out: &Buffer| {
        let found = read(gpu, out);
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(
                (found - expected).abs() <= 2e-5,
                "{way}, {context}, token {}, head {}, value {}: {found}, expected {expected}",
                i / d / heads,
                i / d % heads,
                i % d,
            );
        }
    };
    let out = fresh();
    attention(gpu, &q, history, queries, &sinks, &work, &out);
    check("attention", &out);
    if queries.n <= DECODE_TOKENS {
        let out = fresh();
        prefill::prefill(gpu, &q, history, queries, &sinks, &out);
        check("prefill", &out);
    }
}

/// Logits of sinks that take nearly nothing, some, and most.
fn sinks(heads: usize) -> Vec<f32> {
    (0..heads)
        .map(|i| [-30.0, 0.5, 7.0, -2.0, 3.0][i % 5])
        .collect()
}

/// Every number of tokens and window over one history. Groups smaller than that of gpt-oss in one type alone, since a
/// software device takes long to compile for each.
fn compare_all(keys: usize, kv_type: KvType) {
    let groups: &[usize] = match kv_type {
        KvType::Bf16 => &[1, 2, 8],
        KvType::F32 | KvType::Q8 => &[8],
    };
    for gpu in gpus() {
        let history = history_of(&gpu, keys, 2, 64, kv_type);
        for n in [1, 5, 40].into_iter().filter(|&n| n <= keys) {
            for window in [None, Some(128)] {
                for group in groups {
                    let heads = 2 * group;
                    let start = keys - n;
                    let queries = Queries {
                        n,
                        start,
                        heads,
                        window,
                    };
                    compare(&gpu, &history, queries, &sinks(heads));
                }
            }
        }
    }
}

#[test]
fn short_histories_in_f32() {
    for keys in [1, 127, 128, 129] {
        compare_all(keys, KvType::F32);
    }
}

#[test]
fn short_histories_in_bf16() {
    for keys in [1, 127, 128, 129] {
        compare_all(keys, KvType::Bf16);
    }
}

#[test]
fn short_histories_in_q8() {
    for keys in [1, 127, 128, 129] {
        compare_all(keys, KvType::Q8);
    }
}

#[test]
fn a_thousand_keys() {
    for kv_type in TYPES {
        compare_all(1000, kv_type);
    }
}

#[test]
fn four_thousand_keys_in_f32() {
    compare_all(4097, KvType::F32);
}

#[test]
fn four_thousand_keys_in_bf16() {
    compare_all(4097, KvType::Bf16);
}

#[test]
fn four_thousand_keys_in_q8() {
    compare_all(4097, KvType::Q8);
}

#[test]
fn heads_of_128_and_groups_of_4() {
    for gpu in gpus() {
        for (kv_type, n, window) in [
            (KvType::F32, 1, Some(20)),
            (KvType::Bf16, 8, None),
            (KvType::Bf16, 3, Some(20)),
            (KvType::Q8, 1, None),
            (KvType::Q8, 9, Some(20)),
        ] {
            let history = history_of(&gpu, 300, 1, 128, kv_type);
            let queries = Queries {
                n,
                start: 300 - n,
                heads: 4,
                window,
            };
            compare(&gpu, &history, queries, &sinks(4));
        }
    }
}

#[test]
fn the_first_of_several_tokens_may_see_fewer_parts() {
    for gpu in gpus() {
        let history = history_of(&gpu, 264, 1, 64, KvType::Bf16);
        for (start, n) in [(254, 8), (256, 8), (250, 7), (0, 8), (0, 200)] {
            let queries = Queries {
                n,
                start,
                heads: 8,
                window: None,
            };
            compare(&gpu, &history, queries, &sinks(8));
        }
    }
}

/// Parts of more than one block of scores need a long history: one head of one type, against a window over its end.
#[test]
fn parts_longer_than_a_block() {
    for gpu in gpus() {
        let keys = decode::MOST_SPLITS * 300;
        let history = history_of(&gpu, keys, 1, 64, KvType::Q8);
        let queries = Queries {
            n: 1,
            start: keys - 1,
            heads: 8,
            window: None,
        };
        compare(&gpu, &history, queries, &sinks(8));
    }
}

#[test]
fn a_sink_takes_its_share_and_has_no_value() {
    for gpu in gpus() {
        let history = history_of(&gpu, 1, 1, 64, KvType::F32);
        let value = held(&gpu, &history).1;
        let q = gpu.upload(&[0.0f32; 2 * 64]);
        let (work, out) = (gpu.empty(work_len(2, 64)), gpu.empty(2 * 64));
        let queries = Queries {
            n: 1,
            start: 0,
            heads: 2,
            window: None,
        };
        // The one key has logit 0.
        let sinks = gpu.upload(&[0.0f32, 3.0f32.ln()]);
        attention(&gpu, &q, &history, queries, &sinks, &work, &out);
        let expected: Vec<f32> = [0.5, 0.25]
            .iter()
            .flat_map(|share| value[..64].iter().map(move |v| v * share))
            .collect();
        assert_close(&read(&gpu, &out), &expected, 1e-6);
    }
}

#[test]
fn launches_are_one_or_two() {
    for gpu in gpus() {
        let history = history_of(&gpu, 300, 1, 64, KvType::Bf16);
        let (q, out) = (gpu.empty(9 * 64), gpu.empty(9 * 64));
        let (work, sinks) = (gpu.empty(work_len(1, 64)), gpu.upload(&[0.0f32]));
        for (n, window, launches) in [(1, Some(128), 1), (1, None, 2), (8, None, 2), (9, None, 1)] {
            let queries = Queries {
                n,
                start: 290,
                heads: 1,
                window,
            };
            let before = gpu.launches();
            attention(&gpu, &q, &history, queries, &sinks, &work, &out);
            assert_eq!(gpu.launches() - before, launches);
        }
    }
}
