//! Every tensor that the model needs, once, with its type and shape; and no other.

use proptest::prelude::*;

use super::*;

/// The same numbers under the names of `original/`.
fn original() -> Micro {
    let published = Micro::hugging_face();
    let mut tensors = BTreeMap::new();
    for (name, (dtype, shape)) in published.tensors {
        let name = name
            .replace("model.layers.", "block.")
            .replace("model.embed_tokens", "embedding")
            .replace("model.norm.weight", "norm.scale")
            .replace("lm_head", "unembedding")
            .replace("input_layernorm.weight", "attn.norm.scale")
            .replace("post_attention_layernorm.weight", "mlp.norm.scale")
            .replace("self_attn.o_proj", "attn.out")
            .replace("self_attn", "attn")
            .replace("mlp.router", "mlp.gate")
            .replace("experts.gate_up_proj_bias", "mlp1_bias")
            .replace("experts.gate_up_proj_", "mlp1_weight.")
            .replace("experts.down_proj_bias", "mlp2_bias")
            .replace("experts.down_proj_", "mlp2_weight.");
        if name.contains("k_proj") || name.contains("v_proj") {
            continue;
        }
        // 4 query, 2 key and 2 value heads of 6.
        let stacked = name.contains("q_proj");
        let shape = if stacked {
            [&[48], &shape[1..]].concat()
        } else {
            shape
        };
        tensors.insert(name.replace("q_proj", "qkv"), (dtype, shape));
    }
    Micro {
        config: published.config,
        tensors,
    }
}

#[test]
fn the_layout_is_told_by_the_names() {
    assert_eq!(
        Micro::hugging_face().open().unwrap().layout,
        Layout::HuggingFace
    );
    let original = original().open().unwrap();
    assert_eq!((original.layout, original.tensors), (Layout::Original, 33));

    let mut unpacked = Micro::hugging_face();
    for layer in 0..2 {
        for (product, rows, cols) in [("gate_up", 128, 32), ("down", 32, 64)] {
            let prefix = format!("model.layers.{layer}.mlp.experts.{product}_proj");
            unpacked.tensors.remove(&format!("{prefix}_blocks"));
            unpacked.tensors.remove(&format!("{prefix}_scales"));
            unpacked
                .tensors
                .insert(prefix, ("BF16", vec![3, cols, rows]));
        }
    }
    assert_eq!(unpacked.open().unwrap().layout, Layout::HuggingFaceBf16);
}

#[test]
fn stacked_rows_are_queries_then_keys_then_values() {
    let original = original();
    let mut weights = original.weights(original.tensors.keys());
    // Marks the end of each part of block.0.attn.qkv.bias: 24 queries, 12 keys, 12 values.
    let checkpoint = original.open().unwrap();
    let qkv = |checkpoint: &Checkpoint| {
        let layer = &checkpoint.weights.layers[0];
        [&layer.q, &layer.k, &layer.v].map(|part| part.bias.to_f32())
    };
    assert_eq!(
        qkv(&checkpoint),
        [vec![0.0; 24], vec![0.0; 12], vec![0.0; 12]]
    );
    let entries = header::read(&weights).unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry.name == "block.0.attn.qkv.bias")
        .unwrap();
    for element in [23, 35, 47] {
        // 1.0
        let place = entry.range.start + 2 * element;
        weights[place..place + 2].copy_from_slice(&[0x80, 0x3f]);
    }
    let config = original.config.to_string().into_bytes();
    let marked = qkv(&Checkpoint::from_bytes(config, weights).unwrap());
    for part in marked {
        let (last, rest) = part.split_last().unwrap();
        assert_eq!(*last, 1.0);
        assert!(rest.iter().all(|value| *value == 0.0));
    }
}

#[test]
fn lists_everything_that_is_missing_unexpected_or_wrong() {
    let mut micro = Micro::hugging_face();
    let layer = |rest: &str| format!("model.layers.1.{rest}");
    micro
        .tensors
        .remove(&layer("mlp.experts.down_proj_scales"))
        .unwrap();
    micro.tensors.remove("lm_head.weight").unwrap();
    micro
        .tensors
        .insert("model.norm.weight".into(), ("F32", vec![32]));
    micro
        .tensors
        .insert(layer("self_attn.q_proj.weight"), ("BF16", vec![32, 24]));
    micro
        .tensors
        .insert("rotary.inv_freq".into(), ("F32", vec![3]));
    assert_eq!(
        micro.fault(),
        "the weights in `memory` do not fit config.json; get both from the same checkpoint:\n  \
         `model.layers.1.self_attn.q_proj.weight` in `model.safetensors` is BF16 [32, 24], expected BF16 [24, 32]\n  \
         `model.layers.1.mlp.experts.down_proj_scales` is missing, expected U8 [3, 32, 2]\n  \
         `model.norm.weight` in `model.safetensors` is F32 [32], expected BF16 [32]\n  \
         `lm_head.weight` is missing, expected BF16 [10, 32]\n  \
         `rotary.inv_freq` in `model.safetensors` (F32 [3]) is unexpected"
    );
}

/// Neither a layer too many nor one too few passes: field fault 26, tensors that a loader silently skips.
#[test]
fn refuses_the_weights_of_another_number_of_layers() {
    let mut micro = Micro::hugging_face();
    micro.config["num_hidden_layers"] = json!(1);
    micro.config["layer_types"] = json!(["full_attention"]);
    let Err(Error::Tensors { faults, .. }) = micro.open() else {
        panic!("a layer was skipped");
    };
    let unexpected = |fault: &TensorFault| matches!(fault, TensorFault::Unexpected { name, .. } if name.starts_with("model.layers.1."));
    assert_eq!(faults.len(), 19);
    assert!(faults.iter().all(unexpected));

    micro.config["num_hidden_layers"] = json!(3);
    micro.config["layer_types"] = json!(vec!["full_attention"; 3]);
    let Err(Error::Tensors { faults, .. }) = micro.open() else {
        panic!("a layer was made up");
    };
    let missing = |fault: &TensorFault| matches!(fault, TensorFault::Missing { name, .. } if name.starts_with("model.layers.2."));
    assert_eq!(faults.len(), 19);
    assert!(faults.iter().all(missing));
}

#[test]
fn every_tensor_is_needed_with_its_own_type_and_shape() {
    for micro in [Micro::hugging_face(), original()] {
        for name in micro.tensors.keys() {
            let (dtype, shape) = micro.tensors[name].clone();
            let spoiled = |tensor: Option<(&'static str, Vec<usize>)>| {
                let mut tensors = micro.tensors.clone();
                tensors.remove(name);
                tensors.extend(tensor.map(|tensor| (name.clone(), tensor)));
                let config = micro.config.clone();
                match (Micro { config, tensors }).open() {
                    Err(Error::Tensors { faults, .. }) => faults,
                    other => panic!("{name}: {other:?}"),
                }
            };
            let missing = spoiled(None);
            assert!(
                matches!(&missing[..], [TensorFault::Missing { name: told, .. }] if told == name),
                "{missing:?}"
            );
            let longer = [&shape[..], &[1]].concat();
            let other = if dtype == "U8" { "BF16" } else { "F16" };
            for wrong in [(dtype, longer), (other, shape)] {
                let faults = spoiled(Some(wrong));
                assert!(
                    matches!(&faults[..], [TensorFault::Wrong { name: told, .. }] if told == name),
                    "{faults:?}"
                );
            }
        }
    }
}

#[test]
fn refuses_a_tensor_that_is_in_two_shards() {
    let directory = directory();
    let micro = Micro::hugging_face();
    micro.write_shards(directory.path());
    let second = "model-00001-of-00001.safetensors";
    let both = micro
        .tensors
        .keys()
        .filter(|name| name.starts_with("model.layers.1.") || *name == "lm_head.weight");
    fs::write(directory.path().join(second), micro.weights(both)).unwrap();
    assert_eq!(
        fault(&directory),
        "the weights in `DIR` do not fit config.json; get both from the same checkpoint:\n  \
         `lm_head.weight` is in `DIR/model-00000-of-00001.safetensors` and in `DIR/model-00001-of-00001.safetensors`, \
         expected once"
    );
}

proptest! {
    #[test]
    fn a_damaged_checkpoint_is_opened_or_refused(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let micro = Micro::hugging_face();
        let mut weights = micro.weights(micro.tensors.keys());
        let mut config = micro.config.to_string().into_bytes();
        for (place, byte) in changes {
            // Half of the changes to the config, half to the header.
            let target = if byte % 2 == 0 { &mut config[..] } else { &mut weights[..4000] };
            target[place.index(target.len())] = byte;
        }
        if let Ok(checkpoint) = Checkpoint::from_bytes(config, weights) {
            prop_assert_eq!(checkpoint.tensors, 41);
        }
    }
}
