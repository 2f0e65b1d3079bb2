use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn hugging_face() -> Value {
    json!({
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "attention_bias": true,
        "eos_token_id": 200_002,
        "experts_per_token": 4,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 2880,
        "initial_context_length": 4096,
        "intermediate_size": 2880,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "max_position_embeddings": 131_072,
        "num_attention_heads": 64,
        "num_experts_per_tok": 4,
        "num_hidden_layers": 3,
        "num_key_value_heads": 8,
        "num_local_experts": 32,
        "quantization_config": {"quant_method": "mxfp4"},
        "rms_norm_eps": 1e-5,
        "rope_scaling": {
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "rope_type": "yarn",
            "truncate": false,
        },
        "rope_theta": 150_000,
        "sliding_window": 128,
        "swiglu_limit": 7.0,
        "tie_word_embeddings": false,
        "vocab_size": 201_088,
    })
}

fn original() -> Value {
    json!({
        "num_hidden_layers": 3,
        "num_experts": 32,
        "experts_per_token": 4,
        "vocab_size": 201_088,
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "swiglu_limit": 7.0,
        "head_dim": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "sliding_window": 128,
        "initial_context_length": 4096,
        "rope_theta": 150_000,
        "rope_scaling_factor": 32.0,
        "rope_ntk_alpha": 1,
        "rope_ntk_beta": 32,
    })
}

fn expected() -> Config {
    Config {
        hidden_size: 2880,
        intermediate_size: 2880,
        num_hidden_layers: 3,
        num_attention_heads: 64,
        num_key_value_heads: 8,
        head_dim: 64,
        num_experts: 32,
        experts_per_token: 4,
        vocab_size: 201_088,
        max_position_embeddings: 131_072,
        sliding_window: 128,
        layer_types: vec![LayerType::Sliding, LayerType::Full, LayerType::Sliding],
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

fn read(config: &Value) -> Result<Config, Error> {
    Config::from_json(Path::new("config.json"), config.to_string().as_bytes())
}

/// The published config with some entries changed (`null`: taken out), as JSON pointers to their new values.
fn changed(mut config: Value, changes: &[(&str, Value)]) -> Value {
    for (key, value) in changes {
        let (parent, key) = key.rsplit_once('/').unwrap_or(("", key));
        let parent = if parent.is_empty() {
            &mut config
        } else {
            &mut config[parent]
        };
        if value.is_null() {
            parent.as_object_mut().unwrap().shift_remove(key);
        } else {
            parent[key] = value.clone();
        }
    }
    config
}

fn fault(changes: &[(&str, Value)]) -> String {
    read(&changed(hugging_face(), changes))
        .unwrap_err()
        .to_string()
}

#[test]
fn both_forms_say_the_same() {
    assert_eq!(read(&hugging_face()).unwrap(), expected());
    assert_eq!(read(&original()).unwrap(), expected());
}

#[test]
fn rope_parameters_say_what_rope_scaling_said() {
    let mut parameters = hugging_face()["rope_scaling"].clone();
    let scaling = parameters.clone();
    let only = |parameters: &Value, theta: Value| {
        let changes = [
            ("rope_scaling", Value::Null),
            ("rope_parameters", parameters.clone()),
            ("rope_theta", theta),
        ];
        read(&changed(hugging_face(), &changes))
    };
    assert_eq!(only(&parameters, json!(150_000.0)).unwrap(), expected());
    parameters["rope_theta"] = json!(150_000.0);
    assert_eq!(only(&parameters, Value::Null).unwrap(), expected());
    assert_eq!(only(&parameters, json!(150_000)).unwrap(), expected());

    let both = [("rope_parameters", parameters.clone())];
    assert_eq!(
        read(&changed(hugging_face(), &both)).unwrap(),
        expected(),
        "{scaling}"
    );
    assert_eq!(
        fault(&[both[0].clone(), ("rope_theta", json!(10_000))]),
        "`config.json`: `rope_theta` is 10000, expected 150000, as `rope_parameters.rope_theta`"
    );
    assert_eq!(
        fault(&[both[0].clone(), ("rope_scaling/factor", json!(8))]),
        "`config.json`: `rope_scaling` is different, expected what `rope_parameters` says"
    );
}

#[test]
fn either_name_of_the_expert_counts_will_do() {
    for changes in [
        [
            ("num_experts_per_tok", Value::Null),
            ("num_experts", json!(32)),
        ],
        [
            ("experts_per_token", Value::Null),
            ("quantization_config", Value::Null),
        ],
    ] {
        assert_eq!(
            read(&changed(hugging_face(), &changes)).unwrap(),
            expected()
        );
    }
    let renamed = [
        ("num_local_experts", Value::Null),
        ("num_experts", json!(32)),
    ];
    assert_eq!(
        read(&changed(hugging_face(), &renamed)).unwrap(),
        expected()
    );
    assert_eq!(
        fault(&[("experts_per_token", json!(2))]),
        "`config.json`: `experts_per_token` is 2, expected 4, as `num_experts_per_tok`"
    );
}

#[test]
fn absent_limits_and_contexts_have_their_published_values() {
    let changes = [
        ("swiglu_limit", Value::Null),
        ("rope_scaling/original_max_position_embeddings", Value::Null),
        ("rope_scaling/truncate", Value::Null),
    ];
    assert_eq!(
        read(&changed(hugging_face(), &changes)).unwrap(),
        expected()
    );
}

#[test]
fn refuses_what_is_not_json_with_line_and_column() {
    let fault = |text: &str| {
        Config::from_json(Path::new("d/config.json"), text.as_bytes())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        fault("{\n  \"hidden_size\": 2880,,\n}"),
        "`d/config.json` cannot be used: key must be a string at line 2 column 23; fetch the file again"
    );
    assert_eq!(
        fault(""),
        "`d/config.json` cannot be used: EOF while parsing a value at line 1 column 0; fetch the file again"
    );
    assert_eq!(
        fault("[]"),
        "`d/config.json` cannot be used: invalid type: sequence, expected a map at line 1 column 0; fetch the file again"
    );
    assert!(
        fault(&format!("{{\"a\":{}", "[".repeat(100_000))).contains("recursion limit exceeded")
    );
}

#[test]
fn refuses_another_architecture_by_its_name() {
    let text = |found: &str| {
        format!(
            "`config.json` describes the architecture `{found}`; this program runs gpt-oss only"
        )
    };
    let llama = [
        ("architectures", json!(["LlamaForCausalLM"])),
        ("model_type", json!("llama")),
    ];
    assert_eq!(fault(&llama), text("LlamaForCausalLM"));
    assert_eq!(
        fault(&[("architectures", Value::Null), llama[1].clone()]),
        text("llama")
    );
    assert_eq!(fault(&llama[1..]), text("llama"));
    assert_eq!(fault(&[("architectures", json!([]))]), text("[]"));
    assert_eq!(fault(&[("architectures", json!(7))]), text("7"));
}

#[test]
fn refuses_conversions_by_their_form() {
    assert_eq!(
        fault(&[("quantization", json!({"bits": 4}))]),
        "`config.json` is a checkpoint in MLX form, which is not supported; get the published safetensors files \
         (config.json, model.safetensors.index.json and its shards of openai/gpt-oss-20b or -120b)"
    );
    assert_eq!(
        fault(&[("quantization_config", json!({"quant_method": "awq"}))]),
        "`config.json`: `quantization_config.quant_method` is \"awq\", expected \"mxfp4\""
    );
}

/// Each change by itself, and what the error says after the name of the file.
#[test]
fn refuses_numbers_that_do_not_fit_together() {
    let whole = |most: usize| format!("expected a whole number from 1 to {most}");
    let layer_types =
        "expected a list of \"sliding_attention\" and \"full_attention\", one per layer";
    for (key, value, text) in [
        ("num_attention_heads", json!(60), "`num_attention_heads` is 60, expected a multiple of num_key_value_heads, which is 8".to_owned()),
        ("head_dim", json!(63), "`head_dim` is 63, expected an even number, since RoPE rotates pairs".into()),
        ("head_dim", Value::Null, format!("`head_dim` is missing, {}", whole(4096))),
        ("num_local_experts", json!(3), "`num_experts_per_tok` is 4, expected at most the number of experts, which is 3".into()),
        ("hidden_size", json!(2896), "`hidden_size` is 2896, expected a multiple of 32, the values in an MXFP4 block".into()),
        ("intermediate_size", json!(16), "`intermediate_size` is 16, expected a multiple of 32, the values in an MXFP4 block".into()),
        ("layer_types", json!(["full_attention"]), "`layer_types` is a list of 1, expected one entry per layer, 3 in all".into()),
        ("layer_types", json!(["full_attention", "mamba"]), format!("`layer_types` is \"mamba\", {layer_types}")),
        ("layer_types", json!([1]), format!("`layer_types` is 1, {layer_types}")),
        ("layer_types", json!("full_attention"), format!("`layer_types` is \"full_attention\", {layer_types}")),
        // A window and no layer types: never silently full.
        ("layer_types", Value::Null, format!("`layer_types` is missing, {layer_types}")),
        ("sliding_window", Value::Null, format!("`sliding_window` is missing, {}", whole(1 << 30))),
        ("sliding_window", json!(0), format!("`sliding_window` is 0, {}", whole(1 << 30))),
        ("num_hidden_layers", json!(0), format!("`num_hidden_layers` is 0, {}", whole(1024))),
        ("num_hidden_layers", json!(u64::MAX), format!("`num_hidden_layers` is 18446744073709551615, {}", whole(1024))),
        ("num_hidden_layers", json!(-3), format!("`num_hidden_layers` is -3, {}", whole(1024))),
        ("vocab_size", json!(2.5), format!("`vocab_size` is 2.5, {}", whole(1 << 24))),
        ("vocab_size", json!("many"), format!("`vocab_size` is \"many\", {}", whole(1 << 24))),
        ("hidden_size", json!(1u64 << 40), format!("`hidden_size` is 1099511627776, {}", whole(1 << 18))),
        ("max_position_embeddings", json!(0), format!("`max_position_embeddings` is 0, {}", whole(1 << 30))),
        ("rms_norm_eps", json!(0), "`rms_norm_eps` is 0, expected a positive number".into()),
        ("rms_norm_eps", Value::Null, "`rms_norm_eps` is missing, expected a number".into()),
        ("swiglu_limit", json!(-7), "`swiglu_limit` is -7, expected a positive number".into()),
        ("rope_theta", json!(1), "`rope_theta` is 1, expected more than 1".into()),
        ("rope_theta", Value::Null, "`rope_theta` is missing, expected a number".into()),
        ("rope_scaling", Value::Null, "`rope_scaling` is missing, expected YaRN's numbers, there or in `rope_parameters`".into()),
        ("rope_scaling", json!(32), "`rope_scaling` is 32, expected an object".into()),
        ("rope_scaling/truncate", json!(true), "`rope_scaling.truncate` is true, expected false".into()),
        ("rope_scaling/rope_type", json!("linear"), "`rope_scaling.rope_type` is \"linear\", expected \"yarn\"".into()),
        ("rope_scaling/rope_type", Value::Null, "`rope_scaling.rope_type` is missing, expected \"yarn\"".into()),
        ("rope_scaling/attention_factor", json!(1.0), "`rope_scaling.attention_factor` is 1.0, expected no such key, since gpt-oss scales by 0.1 ln(factor) + 1".into()),
        ("rope_scaling/factor", json!(0.5), "`rope_scaling.factor` is 0.5, expected at least 1".into()),
        ("rope_scaling/factor", Value::Null, "`rope_scaling.factor` is missing, expected a number".into()),
        ("rope_scaling/beta_slow", json!(0), "`rope_scaling.beta_slow` is 0, expected a positive number".into()),
        ("rope_scaling/beta_fast", json!(1), "`rope_scaling.beta_fast` is 1, expected more than `beta_slow`, which is 1".into()),
        ("attention_bias", json!(false), "`attention_bias` is false, expected true".into()),
        ("hidden_act", json!("gelu"), "`hidden_act` is \"gelu\", expected \"silu\"".into()),
        ("tie_word_embeddings", json!(true), "`tie_word_embeddings` is true, expected false".into()),
    ] {
        assert_eq!(fault(&[(key, value)]), format!("`config.json`: {text}"));
    }
}

#[test]
fn refuses_an_original_config_whose_context_is_absurd() {
    for (factor, expected) in [
        (
            json!(1e6),
            "1000000, expected at most 1073741824 positions in all",
        ),
        (json!(-32), "-32, expected at least 1"),
    ] {
        let changes = [("rope_scaling_factor", factor)];
        assert_eq!(
            read(&changed(original(), &changes))
                .unwrap_err()
                .to_string(),
            format!("`config.json`: `rope_scaling_factor` is {expected}")
        );
    }
}

#[test]
fn a_long_value_is_shortened_in_the_message() {
    let text = fault(&[("head_dim", json!("ä".repeat(1000)))]);
    assert!(text.len() < 200, "{text}");
    assert!(text.contains("ää…, expected a whole number"), "{text}");
}

#[test]
fn end_ids_are_a_number_or_a_list_within_the_vocabulary() {
    let ids = |value: Value| {
        let text = json!({ "eos_token_id": value }).to_string();
        eos_token_ids(Path::new("generation_config.json"), text.as_bytes(), 100)
            .map_err(|error| error.to_string())
    };
    assert_eq!(ids(json!(7)), Ok(vec![7]));
    assert_eq!(ids(json!([99, 0])), Ok(vec![99, 0]));
    assert_eq!(ids(json!([])), Ok(vec![]));
    assert_eq!(ids(Value::Null), Ok(vec![]));
    for bad in [
        json!(100),
        json!(-1),
        json!("</s>"),
        json!([[7]]),
        json!({}),
    ] {
        assert_eq!(
            ids(bad.clone()),
            Err(format!(
                "`generation_config.json`: `eos_token_id` is {bad}, expected token ids below vocab_size, which is 100"
            ))
        );
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0..5000i64).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        proptest::collection::vec(any::<u8>(), 0..3).prop_map(Value::from),
        Just(json!({})),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = Config::from_json(Path::new("config.json"), &bytes);
    }

    #[test]
    fn what_is_read_of_a_changed_config_fits_together(
        published in any::<bool>(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any_json()), 1..4),
    ) {
        let mut config = if published { hugging_face() } else { original() };
        let keys: Vec<String> = config.as_object().unwrap().keys().cloned().collect();
        for (key, value) in changes {
            config[&keys[key.index(keys.len())]] = value;
        }
        if let Ok(config) = read(&config) {
            prop_assert_eq!(config.layer_types.len(), config.num_hidden_layers);
            prop_assert_eq!(config.query_size() % config.key_value_size(), 0);
            prop_assert!(config.experts_per_token <= config.num_experts);
            prop_assert_eq!(config.hidden_size % 32 + config.intermediate_size % 32, 0);
        }
    }
}
