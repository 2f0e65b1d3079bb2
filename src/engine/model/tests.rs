//! One sliding and one full layer of the real head geometry, and the mixture of experts alone, against the reference; by
//! the kernels and by the twin.
#![allow(
    deprecated,
    reason = "burn-candle is deprecated as a crate; 0.21 is the last stable burn that has it"
)]

use std::ops::Range;

use burn::tensor::TensorData;
use burn_candle::{Candle, CandleDevice};

use super::*;
use crate::checkpoint::{Bf16, Bytes, ExpertWeight, Experts, Layer, Linear, RopeScaling};
use crate::engine::candle::Cpu;
use crate::engine::candle::kernels::Kernels;
use crate::engine::testing::Golden;
use crate::engine::twin::Twin;
use crate::engine::{Compute, EngineOptions};

const HIDDEN: usize = 128;
const INTERMEDIATE: usize = 64;
const EXPERTS: usize = 16;
const TOKENS: usize = 150;

fn config() -> Config {
    Config {
        hidden_size: HIDDEN,
        intermediate_size: INTERMEDIATE,
        num_hidden_layers: 1,
        num_attention_heads: 64,
        num_key_value_heads: 8,
        head_dim: 64,
        num_experts: EXPERTS,
        experts_per_token: 4,
        vocab_size: 64,
        max_position_embeddings: 131_072,
        sliding_window: 128,
        layer_types: vec![LayerType::Sliding],
        rope_theta: 150_000.0,
        rope_scaling: RopeScaling {
            factor: 32.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_max_position_embeddings: 4096,
        },
        rms_norm_eps: 1e-5,
        swiglu_limit: 7.0,
    }
}

/// The weights of a golden layer.
impl Golden {
    fn bf16(&self, name: &str) -> Bf16 {
        let (shape, bytes) = self.get(name);
        Bf16 {
            bytes: Bytes::from(bytes),
            shape,
        }
    }

    fn linear(&self, name: &str) -> Linear {
        Linear {
            weight: self.bf16(&format!("{name}.weight")),
            bias: self.bf16(&format!("{name}.bias")),
        }
    }

    fn experts(&self, name: &str, rows: usize, cols: usize) -> Experts {
        let bytes = |part: &str| Bytes::from(self.bytes(&format!("mlp.{name}_weight.{part}")));
        Experts {
            experts: EXPERTS,
            rows,
            cols,
            weight: ExpertWeight::Mxfp4 {
                blocks: bytes("blocks"),
                scales: bytes("scales"),
            },
            bias: self.bf16(&format!("mlp.{name}_bias")),
        }
    }

    fn layer(&self) -> Layer {
        let qkv = self.linear("attn.qkv");
        let rows = |of: &Bf16, rows: Range<usize>| {
            let row = of.bytes.len() / of.shape[0];
            let shape = [&[rows.len()], &of.shape[1..]].concat();
            Bf16 {
                bytes: of.bytes.slice(rows.start * row..rows.end * row),
                shape,
            }
        };
        let part = |range: Range<usize>| Linear {
            weight: rows(&qkv.weight, range.clone()),
            bias: rows(&qkv.bias, range),
        };
        Layer {
            attention_norm: self.bf16("attn.norm.scale"),
            q: part(0..4096),
            k: part(4096..4608),
            v: part(4608..5120),
            sinks: self.bf16("attn.sinks"),
            out: self.linear("attn.out"),
            mlp_norm: self.bf16("mlp.norm.scale"),
            router: self.linear("mlp.gate"),
            gate_up: self.experts("mlp1", 2 * INTERMEDIATE, HIDDEN),
            down: self.experts("mlp2", HIDDEN, INTERMEDIATE),
        }
    }
}

fn values<B: burn::tensor::backend::Backend, const D: usize>(t: Tensor<B, D>) -> Vec<f32> {
    t.into_data().iter::<f32>().collect()
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

fn one_layer<E: Engine>(engine: &E, golden: &str, layer_type: LayerType) {
    let (config, golden) = (config(), Golden::read(golden));
    let layer = golden.layer();
    let attention = AttentionBlock::new(engine, &layer, layer_type, &config);
    let mlp = MlpBlock::new(engine, &layer);
    let mut history = engine.new_history(8, 64, KvType::F32);
    let rotation = engine.rotation(0..TOKENS, &Rope::new(&config));
    let x: Tensor<E::Burn, 2> = Tensor::from_data(
        TensorData::new(golden.f32("x"), [TOKENS, HIDDEN]),
        &Default::default(),
    );

    let after_attention = attention.forward(engine, x, &config, &rotation, &mut history, 0);
    // Values reach 23 here; the two reference implementations differ by 5e-6.
    close(
        "attention",
        &values(after_attention.clone()),
        &golden.f32("after_attention"),
        2e-5,
    );

    let (normed, routing) =
        engine.norm_route(after_attention.clone(), &mlp.norm, 1e-5, &mlp.router, 4);
    close("norm", &values(normed), &golden.f32("mlp_normed"), 2e-5);
    close(
        "router",
        &values(routing.weights),
        &golden.f32("router_weights"),
        1e-5,
    );
    assert_eq!(
        routing.ids.into_data().iter::<i64>().collect::<Vec<_>>(),
        golden.i64("router_indices")
    );

    let y = mlp.forward(engine, after_attention, &config);
    close("layer", &values(y), &golden.f32("y"), 5e-5);
}

const LAYERS: [(&str, LayerType); 2] = [
    ("layer_sliding", LayerType::Sliding),
    ("layer_full", LayerType::Full),
];

#[test]
fn the_kernels_compute_a_layer_as_the_reference_does() {
    const { assert!(TOKENS > 128, "the window must cut something off") };
    let exact = EngineOptions {
        compute: Some(Compute::F32),
        ..EngineOptions::default()
    };
    for kernels in Kernels::available() {
        let engine = Cpu::with_kernels(kernels, &exact).unwrap();
        for (golden, layer_type) in LAYERS {
            one_layer(&engine, golden, layer_type);
        }
    }
}

#[test]
fn the_twin_computes_a_layer_as_the_reference_does() {
    for (golden, layer_type) in LAYERS {
        one_layer(
            &Twin::<Candle<f32, i64>>::new(CandleDevice::Cpu),
            golden,
            layer_type,
        );
    }
}

#[test]
#[should_panic(expected = "attention[")]
fn a_sliding_layer_without_its_window_is_found_out() {
    one_layer(
        &Twin::<Candle<f32, i64>>::new(CandleDevice::Cpu),
        "layer_sliding",
        LayerType::Full,
    );
}
