//! config.json and the header of a safetensors file. The input is the two of them with a zero byte between.

#![no_main]

use gptoss::checkpoint::Checkpoint;
use libfuzzer_sys::fuzz_target;

/// What the seeds are for.
const CONFIG: &[u8] = include_bytes!("../config.json");

fuzz_target!(|input: &[u8]| {
    let cut = input.iter().position(|&byte| byte == 0).unwrap_or(input.len());
    let (config, weights) = input.split_at(cut);
    let weights = weights.get(1..).unwrap_or_default();
    // Also with a good config, or a bad one would keep every header from being read.
    for config in [config, CONFIG] {
        match Checkpoint::from_bytes(config.to_vec(), weights.to_vec()) {
            Ok(checkpoint) => {
                let summary = checkpoint.summary();
                assert!(summary.weight_bytes() <= weights.len() as u64);
                assert!(summary.decode_bytes <= summary.weight_bytes());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
