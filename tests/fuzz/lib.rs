//! The modules under test, taken in by their path, so that burn need not be built again with instrumentation.

// The modules' own lint expectations expect this one to be on.
#![warn(missing_docs)]

#[path = "../../src"]
mod sources {
    pub mod checkpoint;
    pub mod harmony;
    pub mod tokenizer;
}

pub use sources::{checkpoint, harmony, tokenizer};

use std::sync::{Arc, LazyLock};
use tokenizer::Tokenizer;

/// The tokenizer file of the built-in model.
pub const TINY: &[u8] = include_bytes!("../../assets/tiny/tokenizer.json");

/// The built-in model's tokenizer.
pub fn tiny() -> Arc<Tokenizer> {
    static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
        let tokenizer = Tokenizer::from_json(TINY, "tiny");
        Arc::new(tokenizer.expect("the built-in tokenizer is sound"))
    });
    Arc::clone(&TOKENIZER)
}

/// Whether an id is a special token of the built-in tokenizer: these are its last ids.
pub fn is_special(id: u32) -> bool {
    id >= 2880
}

/// How often an id occurs.
pub fn count(ids: &[u32], id: u32) -> usize {
    ids.iter().filter(|&&other| other == id).count()
}
