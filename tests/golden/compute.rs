//! What rounding costs: every way to compute against f32 with nothing rounded, measured as `bf16_baseline.json` was
//! made: the last position of each prompt and 32 greedy tokens after it.

use gptoss::checkpoint::Checkpoint;
use gptoss::engine::candle::Cpu;
use gptoss::engine::candle::kernels::Kernels;
use gptoss::engine::{Cancel, Compute, Dense, EngineOptions, KvType, LanguageModel, Loaded};

use crate::goldens::{self, argmax};
use crate::model::{cpu, exact, prefill, prompts};

const STEPS: usize = 32;

/// The distance of one way to compute from the oracle.
struct Distance {
    mean_kl: f64,
    max_kl: f64,
    equal: f64,
}

/// Logits of the last position of each prompt and of `STEPS` tokens after it, which are read one by one: so both
/// prefill and decode are in the figure.
fn logits(model: &mut dyn LanguageModel) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for prompt in prompts() {
        model.truncate(0);
        all.push(prefill(model, &prompt.ids, 512));
        for token in &prompt.greedy[..STEPS] {
            let logits = model.forward(&[*token], 1, &Cancel::new()).unwrap();
            all.push(logits.unwrap());
        }
    }
    all
}

fn distance(expected: &[Vec<f32>], found: &[Vec<f32>]) -> Distance {
    assert_eq!(expected.len(), found.len());
    let pairs = || expected.iter().zip(found);
    let kls: Vec<f64> = pairs().map(|(e, f)| divergence(e, f)).collect();
    let equal = pairs().filter(|(e, f)| argmax(e) == argmax(f)).count();
    Distance {
        mean_kl: kls.iter().sum::<f64>() / kls.len() as f64,
        max_kl: kls.iter().copied().fold(0.0, f64::max),
        equal: equal as f64 / kls.len() as f64,
    }
}

#[test]
fn every_default_is_nearer_to_the_reference_than_the_official_model_in_bf16() {
    let official = goldens::json::<serde_json::Value>("model/bf16_baseline.json");
    let official = |name: &str| official[name].as_f64().unwrap();
    let checkpoint = Checkpoint::tiny();
    let expected = logits(&mut cpu(&checkpoint, &exact()));
    println!("| kernels | compute | dense | KV | mean KL | largest KL | equal choices |");
    println!("|---|---|---|---|---|---|---|");
    let measure = |kernels: Kernels, compute: Option<Compute>, dense: Dense, kv_type: KvType| {
        let options = EngineOptions {
            kv_type,
            compute,
            dense,
            threads: Some(2),
            ..EngineOptions::default()
        };
        let engine = Cpu::with_kernels(kernels, &options).unwrap();
        let mut model = Loaded::new(engine, &checkpoint, &options).unwrap();
        let distance = distance(&expected, &logits(&mut model));
        println!(
            "| {} | {}{} | {dense:?} | {kv_type:?} | {:.1e} | {:.1e} | {:.1} % |",
            kernels.name,
            kernels.compute(compute).name(),
            if compute.is_none() {
                ", the default"
            } else {
                ""
            },
            distance.mean_kl,
            distance.max_kl,
            100.0 * distance.equal
        );
        distance
    };
    for kernels in Kernels::available() {
        let distance = measure(kernels, None, Dense::Bf16, KvType::Bf16);
        let name = kernels.name;
        assert!(
            distance.mean_kl < official("mean_kl"),
            "{name}: {}",
            distance.mean_kl
        );
        assert!(
            distance.equal > official("argmax_equal"),
            "{name}: {}",
            distance.equal
        );
        assert!(distance.max_kl > 1e-6, "{name}: nothing was rounded");
        if kernels.integers.is_some() {
            // Not within the baseline, and said so in the README: a bound against getting worse.
            let distance = measure(kernels, Some(Compute::Int8), Dense::Bf16, KvType::Bf16);
            assert!(distance.mean_kl < 1.5e-2, "{name}: {}", distance.mean_kl);
            assert!(distance.equal > 0.97, "{name}: {}", distance.equal);
        }
    }
    let kernels = Kernels::detect();
    for kv_type in [KvType::F32, KvType::Bf16] {
        for compute in [Compute::F32, Compute::Bf16, Compute::Int16, Compute::Int8] {
            let distance = measure(kernels, Some(compute), Dense::Bf16, kv_type);
            if compute == Compute::F32 && kv_type == KvType::F32 {
                assert!(distance.max_kl < 1e-9, "{}", distance.max_kl);
            }
        }
    }
    let distance = measure(kernels, Some(Compute::F32), Dense::Bf16, KvType::Q8);
    assert!(
        distance.mean_kl < 2e-2 && distance.equal > 0.97,
        "8-bit history: {}",
        distance.mean_kl
    );
    for compute in [Compute::F32, Compute::Bf16, Compute::Int8] {
        let distance = measure(kernels, Some(compute), Dense::Q8, KvType::Bf16);
        assert!(
            distance.mean_kl < 3e-2,
            "8-bit dense weights: {}",
            distance.mean_kl
        );
    }
}

/// KL(expected || found) of the distributions over the next token, in nats.
fn divergence(expected: &[f32], found: &[f32]) -> f64 {
    let log_softmax = |logits: &[f32]| -> Vec<f64> {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits
            .iter()
            .map(|&logit| f64::from(logit - largest).exp())
            .sum();
        logits
            .iter()
            .map(|&logit| f64::from(logit - largest) - sum.ln())
            .collect()
    };
    let (expected, found) = (log_softmax(expected), log_softmax(found));
    expected
        .iter()
        .zip(&found)
        .map(|(p, q)| p.exp() * (p - q))
        .sum()
}
