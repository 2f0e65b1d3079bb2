//! What the tests of the engine share: the reference's values, from `tests/goldens/unit`.

use std::path::Path;

use safetensors::SafeTensors;

/// A golden file's tensors by name.
pub struct Golden(&'static [u8]);

impl Golden {
    /// The file `tests/goldens/unit/<name>.safetensors`. It stays in memory, so that weights can borrow from it.
    pub fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/goldens/unit")
            .join(name)
            .with_extension("safetensors");
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self(bytes.leak())
    }

    /// Shape and bytes.
    pub fn get(&self, name: &str) -> (Vec<usize>, &'static [u8]) {
        let tensors = SafeTensors::deserialize(self.0).unwrap();
        let tensor = tensors
            .tensor(name)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        (tensor.shape().to_vec(), tensor.data())
    }

    pub fn bytes(&self, name: &str) -> &'static [u8] {
        self.get(name).1
    }

    pub fn f32(&self, name: &str) -> Vec<f32> {
        let (values, rest) = self.bytes(name).as_chunks();
        assert!(rest.is_empty(), "{name} is no list of f32");
        values.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    pub fn i64(&self, name: &str) -> Vec<i64> {
        let (values, rest) = self.bytes(name).as_chunks();
        assert!(rest.is_empty(), "{name} is no list of i64");
        values.iter().map(|b| i64::from_le_bytes(*b)).collect()
    }
}
