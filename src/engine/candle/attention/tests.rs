//! Attention with sinks and window against the reference's outputs, and against the formula.

use super::*;
use crate::engine::KvType;
use crate::engine::candle::kernels::tests::Random;
use crate::engine::testing::Golden;

const D: usize = 64;

fn kernel_sets() -> impl Iterator<Item = Kernels> {
    Kernels::available()
}

/// Writes k and v, which are apart.
fn write(history: &mut History, start: usize, k: &[f32], v: &[f32], kv_heads: usize) {
    let row = kv_heads * D;
    let rows = k.chunks(row).zip(v.chunks(row));
    let rows: Vec<f32> = rows.flat_map(|(k, v)| [k, v].concat()).collect();
    history.write(start, &rows, 2 * row);
}

/// Attention of all of q over a history of all keys, for the whole batch at once.
fn attention(
    kernels: &Kernels,
    kv_type: KvType,
    (q, k, v, sinks): (&[f32], &[f32], &[f32], &[f32]),
    kv_heads: usize,
    window: Option<usize>,
) -> Vec<f32> {
    let mut history = History::new(kv_heads, D, kv_type);
    write(&mut history, 0, k, v, kv_heads);
    let mut out = vec![0.0; q.len()];
    Attention {
        kernels,
        history: &history,
        start: 0,
        window,
        sinks,
        head_dim: D,
    }
    .run(q, &mut out);
    out
}

#[track_caller]
fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance,
            "{what}[{i}]: {found}, expected {expected}"
        );
    }
}

#[test]
fn lengths_across_the_window_give_what_the_reference_gives() {
    let golden = Golden::read("attention");
    for kernels in kernel_sets() {
        for tokens in [1, 2, 127, 128, 129, 130, 257] {
            let part = |name: &str| golden.f32(&format!("T{tokens}.{name}"));
            let (q, k, v, sinks) = (part("q"), part("k"), part("v"), part("sinks"));
            for (name, window) in [("full", None), ("window", Some(128))] {
                let out = attention(&kernels, KvType::F32, (&q, &k, &v, &sinks), 2, window);
                let expected = part(name);
                // The golden holds the last few positions.
                let last = &out[out.len() - expected.len()..];
                close(
                    &format!("{} T{tokens} {name}", kernels.name),
                    last,
                    &expected,
                    2e-6,
                );
            }
        }
    }
}

#[test]
fn sinks_far_above_and_below_the_logits_are_no_special_case() {
    let golden = Golden::read("attention");
    for kernels in kernel_sets() {
        for name in ["sink_high", "sink_low"] {
            let part = |part: &str| golden.f32(&format!("{name}.{part}"));
            let (q, k, v, sinks) = (part("q"), part("k"), part("v"), part("sinks"));
            let out = attention(&kernels, KvType::F32, (&q, &k, &v, &sinks), 1, Some(128));
            close(name, &out, &part("window"), 2e-6);
        }
    }
}

/// The formula in f64, over keys and values as they are kept.
fn by_the_formula(
    (q, k, v, sinks): (&[f32], &[f32], &[f32], &[f32]),
    kv_heads: usize,
    window: Option<usize>,
) -> Vec<f64> {
    let (heads, n) = (sinks.len(), k.len() / (kv_heads * D));
    let mut out = vec![0.0; n * heads * D];
    for query in 0..n {
        for head in 0..heads {
            let row = |x: &[f32], at: usize, heads: usize, head: usize| -> Vec<f64> {
                x[(at * heads + head) * D..][..D]
                    .iter()
                    .map(|x| f64::from(*x))
                    .collect()
            };
            let (q, kv_head) = (row(q, query, heads, head), head / (heads / kv_heads));
            let first = window.map_or(0, |window| (query + 1).saturating_sub(window));
            let weights: Vec<f64> = (first..=query)
                .map(|key| {
                    let k = row(k, key, kv_heads, kv_head);
                    let dot: f64 = q.iter().zip(k).map(|(q, k)| q * k).sum();
                    (dot / (D as f64).sqrt()).exp()
                })
                .collect();
            let sum = weights.iter().sum::<f64>() + f64::from(sinks[head]).exp();
            for (key, weight) in (first..).zip(&weights) {
                let v = row(v, key, kv_heads, kv_head);
                let out = &mut out[(query * heads + head) * D..][..D];
                for (out, v) in out.iter_mut().zip(v) {
                    *out += weight / sum * v;
                }
            }
        }
    }
    out
}

#[test]
fn histories_across_chunks_follow_the_formula_whatever_they_are_kept_as() {
    let (heads, kv_heads) = (6, 2);
    let mut random = Random::new(3);
    for n in [1, 15, 16, 17, 127, 128, 129, 255, 256, 257, 600] {
        let mut values =
            |len: usize| -> Vec<f32> { random.values(len).iter().map(|x| 2.0 * x).collect() };
        let (q, k, v) = (
            values(n * heads * D),
            values(n * kv_heads * D),
            values(n * kv_heads * D),
        );
        let sinks = values(heads);
        for window in [None, Some(128)] {
            let expected = by_the_formula((&q, &k, &v, &sinks), kv_heads, window);
            for (kv_type, tolerance) in [
                (KvType::F32, 2e-6),
                (KvType::Bf16, 2e-2),
                (KvType::Q8, 3e-2),
            ] {
                for kernels in kernel_sets() {
                    let found =
                        attention(&kernels, kv_type, (&q, &k, &v, &sinks), kv_heads, window);
                    for (found, expected) in found.iter().zip(&expected) {
                        assert!(
                            (f64::from(*found) - expected).abs() < tolerance,
                            "{} {kv_type:?} {n} keys: {found}, expected {expected}",
                            kernels.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn scales_of_eight_bit_keys_and_values_count_on_every_path() {
    // Keys and values far from 1: without their scales the answer would be off by a factor.
    let (q, k, v) = ([1e3; D], [1e-4; D], [250.0; D]);
    for (n, window) in [(1, None), (1, Some(128)), (300, None), (300, Some(128))] {
        let all = (
            &q.repeat(n)[..],
            &k.repeat(n)[..],
            &v.repeat(n)[..],
            &[0.0][..],
        );
        let expected = by_the_formula(all, 1, window);
        for kernels in kernel_sets() {
            let found = attention(&kernels, KvType::Q8, all, 1, window);
            for (found, expected) in found.iter().zip(&expected) {
                let error = (f64::from(*found) / expected - 1.0).abs();
                assert!(
                    error < 1e-4,
                    "{}: {found}, expected {expected}",
                    kernels.name
                );
            }
        }
    }
}

#[test]
fn one_key_shares_with_the_sink_as_the_logistic_function_says() {
    // weight = 1 / (1 + exp(sink - logit)), for both ways to store the history.
    let (q, k, v) = ([0.25f32; D], [0.5f32; D], [1.0f32; D]);
    let logit = 0.25 * 0.5 * D as f32 / (D as f32).sqrt();
    for sink in [-3.0f32, 0.0, 1.0, 4.0] {
        let expected = 1.0 / (1.0 + (sink - logit).exp());
        for kernels in kernel_sets() {
            for kv_type in [KvType::F32, KvType::Bf16, KvType::Q8] {
                let out = attention(&kernels, kv_type, (&q, &k, &v, &[sink]), 1, None);
                close("weight", &out, &[expected; D], 1e-5);
            }
        }
    }
}

#[test]
fn one_query_at_a_time_gives_the_bits_of_the_batch() {
    let golden = Golden::read("attention");
    let part = |name: &str| golden.f32(&format!("T257.{name}"));
    let (q, k, v, sinks) = (part("q"), part("k"), part("v"), part("sinks"));
    for kernels in kernel_sets() {
        for window in [None, Some(128)] {
            let kv_type = if window.is_some() {
                KvType::Q8
            } else {
                KvType::Bf16
            };
            let all = attention(&kernels, kv_type, (&q, &k, &v, &sinks), 2, window);
            let mut history = History::new(2, D, kv_type);
            let row = sinks.len() * D;
            for (start, (q, expected)) in q.chunks(row).zip(all.chunks(row)).enumerate() {
                let [k, v] = [&k, &v].map(|x| &x[start * 2 * D..][..2 * D]);
                write(&mut history, start, k, v, 2);
                let mut out = vec![0.0; row];
                Attention {
                    kernels: &kernels,
                    history: &history,
                    start,
                    window,
                    sinks: &sinks,
                    head_dim: D,
                }
                .run(q, &mut out);
                assert_eq!(out, expected, "{} position {start}", kernels.name);
            }
        }
    }
}
