use super::*;

const CPU: InUse = InUse {
    kernels: "avx512-bf16",
    compute: Compute::Int8,
    dense: Dense::Q8,
    kv_type: KvType::Bf16,
    threads: 2,
};

fn report() -> Report {
    let result = |kind, tokens, depth, median, spread, cost| Measured {
        test: Test {
            kind,
            tokens,
            depth,
        },
        rate: Statistics {
            median,
            spread: Some(spread),
        },
        cost,
    };
    Report {
        source: "models/20b".to_owned(),
        weights: 13_761_264_768,
        run: CPU.to_string(),
        name: "cpu".to_owned(),
        cpu: Some(CPU),
        dense: Dense::Q8,
        kv_type: KvType::Bf16,
        device: None,
        load: Duration::from_millis(1320),
        from_disk: Some(0),
        first_token: Some((Duration::from_millis(450), 16)),
        memory: Some(Most {
            total: 14_100_000_000,
            anonymous: 2_200_000_000,
            mapped: 11_900_000_000,
        }),
        peak_rss: Some(15_000_000_000),
        bandwidth: vec![50e9, 48e9],
        split: None,
        interrupted: false,
        routing: Routing::Uniform,
        repetitions: 3,
        results: vec![
            result(Kind::Prefill, 512, 0, 72.5, 0.25, 6e9),
            result(Kind::Decode, 64, 2048, 15.0, 0.5, 2.5e9),
        ],
    }
}

#[test]
fn the_table_sets_decode_against_memory_and_prefill_against_arithmetic() {
    insta::assert_snapshot!(report().text(), @r#"
    model       models/20b
    run         cpu (candle, avx512-bf16, compute int8, dense q8, kv bf16, 2 threads)
    load        1.32 s (warm: nothing came from the disk), then 0.45 s to the first token after a prompt of 16 tokens
    memory      at most 14.1 GB: 11.9 GB mapped, 2.2 GB anonymous
    bandwidth   50.0 GB/s before, 48.0 GB/s after

    test         depth  tokens/s  spread  reads/token  ceiling  reached   arithmetic
    prefill 512      0     72.50    0.25                                 435.0 Gop/s
    decode 64     2048     15.00    0.50      2.50 GB    20.00     75 %

    Median of up to 3 runs after a warm-up; spread is the furthest from the median. Random token ids (uniform);
    tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
    token must read; models that fit into the cache of the processor pass it.
    "#);
}

#[test]
fn a_device_has_its_own_figures_and_none_of_the_processor() {
    let report = Report {
        run: "cuda:0 (Card), compute f32, dense q8, kv bf16".to_owned(),
        name: "cuda:0".to_owned(),
        cpu: None,
        device: Some(OnDevice {
            per_token: Some(PerToken {
                launches: 243.0,
                crossed: 16.0,
            }),
            memory: 14_000_000_000,
        }),
        bandwidth: vec![4000e9, 4100e9],
        results: Vec::new(),
        ..report()
    };
    insta::assert_snapshot!(report.text(), @r#"
    model       models/20b
    run         cuda:0 (Card), compute f32, dense q8, kv bf16
    load        1.32 s (warm: nothing came from the disk), then 0.45 s to the first token after a prompt of 16 tokens
    memory      at most 14.1 GB: 11.9 GB mapped, 2.2 GB anonymous
    bandwidth   4000.0 GB/s before, 4100.0 GB/s after
    device      14.0 GB of its memory; 243 launches and 16 bytes to and fro for a decoded token

    test  depth  tokens/s  spread  reads/token  ceiling  reached  arithmetic

    Median of up to 3 runs after a warm-up; spread is the furthest from the median. Random token ids (uniform);
    tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
    token must read; models that fit into the cache of the device pass it.
    "#);
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["device"], "cuda:0");
    assert_eq!(json.get("gpu_layers"), None);
    assert_eq!(json["threads"], serde_json::Value::Null);
    assert_eq!(json["kernels"], serde_json::Value::Null);
    assert_eq!(json["compute"], "f32");
    assert_eq!(json["launches_per_token"], 243.0);
    assert_eq!(json["crossed_bytes_per_token"], 16.0);
    assert_eq!(json["device_memory_bytes"], 14_000_000_000_u64);
}

#[test]
fn what_the_cpu_reads_beside_a_device_takes_its_own_time() {
    let mut report = Report {
        run: "cuda:0 (Card), compute f32; experts of 4 of 24 layers on cpu".to_owned(),
        name: "cuda:0".to_owned(),
        device: Some(OnDevice {
            per_token: None,
            memory: 8_000_000_000,
        }),
        bandwidth: vec![1000e9, 900e9],
        split: Some(Split {
            gpu_layers: 20,
            reads: 0.5e9,
            bandwidth: vec![40e9, 50e9],
        }),
        interrupted: true,
        ..report()
    };
    report.results[1].rate.spread = None;
    // 2 GB at 1,000 GB/s and half a GB at 50.
    insta::assert_snapshot!(report.text(), @"
    model       models/20b
    run         cuda:0 (Card), compute f32; experts of 4 of 24 layers on cpu
    load        1.32 s (warm: nothing came from the disk), then 0.45 s to the first token after a prompt of 16 tokens
    memory      at most 14.1 GB: 11.9 GB mapped, 2.2 GB anonymous
    bandwidth   device 1000.0 GB/s before, 900.0 GB/s after; CPU 40.0 GB/s before, 50.0 GB/s after
    device      8.0 GB of its memory

    test         depth  tokens/s  spread         reads/token  ceiling  reached   arithmetic
    prefill 512      0     72.50    0.25                                        435.0 Gop/s
    decode 64     2048     15.00          2.00 GB + 500.0 MB    83.33     18 %

    Stopped: these are the figures until then.
    Median of up to 3 runs after a warm-up; spread is the furthest from the median. Random token ids (uniform);
    tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
    token must read; models that fit into the cache of the device pass it. Experts on the CPU
    read what stands after the +, from memory of its own and in their own time.
    ");
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    let ceiling = json["tests"][1]["ceiling_tokens_per_second"]
        .as_f64()
        .unwrap();
    assert!((ceiling - 1.0 / 0.012).abs() < 1e-6, "{ceiling}");
    assert_eq!(json["tests"][1]["spread"], serde_json::Value::Null);
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["gpu_layers"], 20);
    assert_eq!(json["host_bandwidth_bytes_per_second"], 50e9);
    // What the CPU computed its part with.
    assert_eq!(json["threads"], 2);
    assert_eq!(json["compute"], "int8");
}

#[test]
fn what_is_not_known_is_left_out_or_said() {
    let report = Report {
        from_disk: Some(12_600_000_000),
        first_token: None,
        memory: None,
        bandwidth: vec![50e9],
        repetitions: 1,
        results: Vec::new(),
        ..report()
    };
    insta::assert_snapshot!(report.text(), @r#"
    model       models/20b
    run         cpu (candle, avx512-bf16, compute int8, dense q8, kv bf16, 2 threads)
    load        1.32 s (cold: 12.6 GB came from the disk until the first token)
    memory      at most 15.0 GB; what of it is mapped this system does not tell
    bandwidth   50.0 GB/s before

    test  depth  tokens/s  spread  reads/token  ceiling  reached  arithmetic

    One run after a warm-up; spread is the furthest from the median. Random token ids (uniform);
    tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
    token must read; models that fit into the cache of the processor pass it.
    "#);
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["peak_rss_bytes"], 15_000_000_000_u64);
    assert_eq!(json["anonymous_bytes"], serde_json::Value::Null);
}

#[test]
fn markdown_is_a_list_and_a_table() {
    insta::assert_snapshot!(report().markdown(), @r#"
    * model: models/20b
    * run: cpu (candle, avx512-bf16, compute int8, dense q8, kv bf16, 2 threads)
    * load: 1.32 s (warm: nothing came from the disk), then 0.45 s to the first token after a prompt of 16 tokens
    * memory: at most 14.1 GB: 11.9 GB mapped, 2.2 GB anonymous
    * bandwidth: 50.0 GB/s before, 48.0 GB/s after

    | test | depth | tokens/s | spread | reads/token | ceiling | reached | arithmetic |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | prefill 512 | 0 | 72.50 | 0.25 |  |  |  | 435.0 Gop/s |
    | decode 64 | 2048 | 15.00 | 0.50 | 2.50 GB | 20.00 | 75 % |  |

    Median of up to 3 runs after a warm-up; spread is the furthest from the median. Random token ids (uniform);
    tokenisation, sampling and stop tokens are left out. The ceiling is the higher bandwidth over what a
    token must read; models that fit into the cache of the processor pass it.
    "#);
}

#[test]
fn json_has_medians_spreads_and_ceilings() {
    insta::assert_snapshot!(report().json().unwrap(), @r#"
    {
      "tests": [
        {
          "kind": "prefill",
          "tokens": 512,
          "depth": 0,
          "tokens_per_second": 72.5,
          "spread": 0.25,
          "ceiling_tokens_per_second": null
        },
        {
          "kind": "decode",
          "tokens": 64,
          "depth": 2048,
          "tokens_per_second": 15.0,
          "spread": 0.5,
          "ceiling_tokens_per_second": 20.0
        }
      ],
      "interrupted": false,
      "device": "cpu",
      "bandwidth_bytes_per_second": 50000000000.0,
      "load_seconds": 1.32,
      "peak_rss_bytes": 14100000000,
      "anonymous_bytes": 2200000000,
      "threads": 2,
      "kernels": "avx512-bf16",
      "compute": "int8",
      "dense": "q8",
      "kv_type": "bf16"
    }
    "#);
}

#[test]
fn the_median_is_the_middle_and_the_spread_the_furthest_from_it() {
    let of = |values: &[f64]| Statistics::of(values.to_vec());
    let expected = |median, spread| Some(Statistics { median, spread });
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[7.0]), expected(7.0, None));
    assert_eq!(of(&[9.0, 1.0, 8.0]), expected(8.0, Some(7.0)));
    assert_eq!(of(&[4.0, 1.0, 2.0, 5.0]), expected(3.0, Some(2.0)));
}
