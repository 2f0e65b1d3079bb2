//! Logits to token id.

use super::Error;

/// The values that choose a token; [`Sampling::validate`] says which are allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is argmax.
    pub temperature: f32,
    /// 0 keeps all.
    pub top_k: usize,
    pub top_p: f32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    /// `None`: drawn from the system, and reported.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: None,
        }
    }
}

impl Sampling {
    /// # Errors
    /// [`Error::Sampling`] with the name, the value and the accepted interval.
    pub fn validate(&self) -> Result<(), Error> {
        todo!()
    }
}

/// A seeded sampler.
pub struct Sampler {/* private */}
