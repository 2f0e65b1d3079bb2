//! Attention with sinks and window against the reference's outputs, and against the formula.

use super::*;
use crate::engine::KvType;
use crate::engine::testing::Golden;

const D: usize = 64;

fn kernel_sets() -> impl Iterator<Item = Kernels> {
    ["portable", "avx2", "avx512"]
        .into_iter()
        .filter_map(Kernels::by_name)
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
    history.write(0, k, v);
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

#[test]
fn one_key_shares_with_the_sink_as_the_logistic_function_says() {
    // weight = 1 / (1 + exp(sink - logit)), for both ways to store the history.
    let (q, k, v) = ([0.25f32; D], [0.5f32; D], [1.0f32; D]);
    let logit = 0.25 * 0.5 * D as f32 / (D as f32).sqrt();
    for sink in [-3.0f32, 0.0, 1.0, 4.0] {
        let expected = 1.0 / (1.0 + (sink - logit).exp());
        for kernels in kernel_sets() {
            for kv_type in [KvType::F32, KvType::Bf16] {
                let out = attention(&kernels, kv_type, (&q, &k, &v, &[sink]), 1, None);
                close("weight", &out, &[expected; D], 1e-6);
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
            let all = attention(&kernels, KvType::Bf16, (&q, &k, &v, &sinks), 2, window);
            let mut history = History::new(2, D, KvType::Bf16);
            let row = sinks.len() * D;
            for (start, (q, expected)) in q.chunks(row).zip(all.chunks(row)).enumerate() {
                history.write(
                    start,
                    &k[start * 2 * D..][..2 * D],
                    &v[start * 2 * D..][..2 * D],
                );
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
