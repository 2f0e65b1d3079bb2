//! The golden files, and the comparisons that every subject uses.

use std::fs;
use std::path::PathBuf;

use safetensors::SafeTensors;
use serde::de::DeserializeOwned;

/// A path below `tests/`.
pub fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(relative)
}

/// A golden JSON file.
pub fn json<T: DeserializeOwned>(relative: &str) -> T {
    let path = path("goldens").join(relative);
    serde_json::from_slice(&fs::read(&path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A golden safetensors file.
pub struct Tensors(Vec<u8>);

impl Tensors {
    pub fn read(relative: &str) -> Self {
        Self(fs::read(path("goldens").join(relative)).unwrap())
    }

    /// The values of an F32 tensor.
    pub fn f32(&self, name: &str) -> Vec<f32> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = tensors
            .tensor(name)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tensor.dtype(), safetensors::Dtype::F32, "{name}");
        tensor
            .data()
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect()
    }
}

/// The largest difference; panics with its place where it is above `tolerance`, or where a value is not a number.
#[track_caller]
pub fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) -> f32 {
    assert_eq!(found.len(), expected.len(), "{what}: number of values");
    let mut worst = (0, 0.0f32);
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs();
        assert!(
            !difference.is_nan(),
            "{what}[{i}]: {found}, expected {expected}"
        );
        if difference > worst.1 {
            worst = (i, difference);
        }
    }
    let (i, difference) = worst;
    assert!(
        difference <= tolerance,
        "{what}[{i}]: {}, expected {}: off by {difference:e}, allowed {tolerance:e}",
        found[i],
        expected[i]
    );
    difference
}

/// The id of the largest logit.
pub fn argmax(logits: &[f32]) -> u32 {
    (0..logits.len())
        .max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)))
        .unwrap() as u32
}
