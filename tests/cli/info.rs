//! `gptoss info`

use serde_json::{Value, json};

use crate::program::Program;

#[test]
fn says_what_the_built_in_model_holds_and_that_it_is_a_toy() {
    let program = Program::new();
    let output = program
        .command(&[
            "info",
            "--model",
            "tiny",
            "--context",
            "4096",
            "--device",
            "cpu",
        ])
        .output()
        .unwrap();
    assert_eq!(output.stderr, b"");
    let text = String::from_utf8(output.stdout).unwrap();
    insta::with_settings!({ filters => vec![(r"(?m)^here .*$", "here [machine]")] }, {
        insta::assert_snapshot!(text, @"
        model         tiny (built in)
                      a toy that exercises the program: it knows greetings, capitals and the like, is often wrong, and is no assistant
        layout        Hugging Face, 117 tensors
        layers        6: 3 with a window of 128, 3 full
        attention     4 query and 2 key heads of 64, hidden size 192
        experts       8 per layer, 4 for each token
        vocabulary    2944 tokens
        context       up to 131072 tokens
        weights       6.0 MB
          experts     1.9 MB (MXFP4)
          attention   1.8 MB (BF16)
          embedding   2.3 MB (BF16)
          other       23.5 kB (BF16)
        decode reads  3.9 MB of weights per token
        history       3.1 kB per token of context
        memory        26.6 MB with a context of 4096: weights 6.0 MB, history 12.6 MB, work space about 8.1 MB
        here [machine]
        device        cpu (no GPU is used)
        ");
    });
}

#[test]
fn json_has_the_same_facts() {
    let program = Program::new();
    let args = [
        "info",
        "--model",
        "tiny",
        "--context",
        "4096",
        "--kv-type",
        "f32",
        "--device",
        "cpu",
        "--json",
    ];
    let output = program.command(&args).output().unwrap();
    let mut facts: Value = serde_json::from_slice(&output.stdout).unwrap();
    for machine in ["machine_bytes", "available_bytes"] {
        assert!(facts[machine].as_u64().unwrap() > 1 << 20, "{facts}");
        facts[machine] = json!(null);
    }
    assert_eq!(facts["fits"], "fits");
    // 6 layers, 2 heads of 64, keys and values, 4 bytes.
    assert_eq!(facts["history_bytes_per_token"], json!(6 * 2 * 64 * 2 * 4));
    insta::assert_snapshot!(serde_json::to_string_pretty(&facts).unwrap(), @r#"
    {
      "source": "tiny (built in)",
      "layout": "Hugging Face",
      "tensors": 117,
      "layers": 6,
      "sliding_layers": 3,
      "sliding_window": 128,
      "hidden_size": 192,
      "attention_heads": 4,
      "key_value_heads": 2,
      "head_dim": 64,
      "experts": 8,
      "experts_per_token": 4,
      "vocabulary": 2944,
      "max_context": 131072,
      "expert_type": "MXFP4",
      "dense_type": "BF16",
      "weight_bytes": 5985552,
      "expert_bytes": 1923072,
      "attention_bytes": 1777968,
      "embedding_bytes": 2260992,
      "other_bytes": 23520,
      "decode_bytes_per_token": 3893904,
      "context": 4096,
      "history_bytes_per_token": 6144,
      "history_bytes": 25165824,
      "work_bytes": 8069632,
      "needed_bytes": 39221008,
      "machine_bytes": null,
      "available_bytes": null,
      "fits": "fits",
      "device": "cpu",
      "device_name": null,
      "device_memory_bytes": null,
      "device_context": null,
      "device_needed_bytes": null,
      "device_fits": null,
      "gpu_layers": null,
      "toy": true,
      "files": [
        {
          "path": "tiny (built in)/model.safetensors",
          "bytes": 5998088
        }
      ]
    }
    "#);
}

#[test]
fn the_layouts_of_the_same_weights_are_told_apart() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/");
    let program = Program::new();
    for (name, layout, expert_type) in [
        ("tiny-sharded", "Hugging Face", "MXFP4"),
        ("tiny-bf16", "Hugging Face", "BF16"),
        ("tiny-original", "original", "MXFP4"),
    ] {
        let directory = format!("{fixtures}{name}");
        let args = ["info", "--json", "--model", &directory];
        let output = program.command(&args).output().unwrap();
        let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
        let told = (facts["layout"].as_str(), facts["expert_type"].as_str());
        assert_eq!(told, (Some(layout), Some(expert_type)), "{name}");
        assert_eq!(facts["toy"], false);
    }
}

#[test]
fn a_directory_that_is_no_checkpoint_is_refused() {
    let program = Program::new();
    std::fs::create_dir(program.home.path().join("empty")).unwrap();
    assert_transcript!(program.command(&["info", "--model", "./empty"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: --model: `./empty` has no config.json; name the directory of a gpt-oss checkpoint, or fetch config.json too
    ");
}
