//! YaRN: the frequencies of the rotary embedding, as `RotaryEmbedding` of `gpt_oss/torch/model.py` makes them.
//!
//! "YaRN: Efficient Context Window Extension of Large Language Models", arXiv 2309.00071. The range in which
//! frequencies pass from interpolated to kept is not rounded to whole dimensions: rounding it, as some programs
//! do, turns dimension 17 by 76 % and changes answers at a few thousand tokens.

use std::f64::consts::PI;
use std::ops::Range;

use crate::checkpoint::Config;

/// The frequencies of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// `[head_dim / 2]`, radians per position.
    inv_freq: Vec<f32>,
    /// What cosines and sines are multiplied by.
    concentration: f32,
}

impl Rope {
    /// The frequencies that `config` asks for.
    pub fn new(config: &Config) -> Self {
        let scaling = &config.rope_scaling;
        let half = config.head_dim / 2;
        let (low, high) = (
            turning_dimension(config, scaling.beta_fast),
            turning_dimension(config, scaling.beta_slow),
        );
        let inv_freq = (0..half)
            .map(|i| {
                let kept = 1.0 / config.rope_theta.powf(i as f64 / half as f64);
                let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                (ramp * kept / scaling.factor + (1.0 - ramp) * kept) as f32
            })
            .collect();
        let concentration = (0.1 * scaling.factor.ln() + 1.0) as f32;
        Self {
            inv_freq,
            concentration,
        }
    }

    /// Cosines and sines of `positions`, each `[positions, head_dim / 2]`, the concentration included.
    pub fn cos_sin(&self, positions: Range<usize>) -> (Vec<f32>, Vec<f32>) {
        positions
            .flat_map(|position| self.inv_freq.iter().map(move |&freq| (position, freq)))
            .map(|(position, freq)| {
                // The reference multiplies in f32, and at 100,000 positions that rounding shows.
                let (sin, cos) = f64::from(position as f32 * freq).sin_cos();
                (
                    cos as f32 * self.concentration,
                    sin as f32 * self.concentration,
                )
            })
            .unzip()
    }
}

/// The dimension whose wavelength makes `turns` turns in the original context.
fn turning_dimension(config: &Config, turns: f64) -> f64 {
    let original = config.rope_scaling.original_max_position_embeddings as f64;
    config.head_dim as f64 / 2.0 * (original / (turns * 2.0 * PI)).ln() / config.rope_theta.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::engine::testing::Golden;

    // The tiny model has the rotary embedding of the 20b.
    fn config() -> Config {
        Checkpoint::tiny().config
    }

    #[test]
    fn the_interpolation_range_is_not_rounded() {
        let (low, high) = (
            turning_dimension(&config(), 32.0),
            turning_dimension(&config(), 1.0),
        );
        assert!((low - 8.092_779_115_512_402).abs() < 1e-12, "{low}");
        assert!((high - 17.398_024_501_588_56).abs() < 1e-12, "{high}");
    }

    #[test]
    fn frequencies_are_those_of_the_published_model() {
        let rope = Rope::new(&config());
        for (i, expected) in [
            (0, 1.0),
            (8, 5.081_327e-2),
            (9, 3.170_570e-2),
            (12, 6.794_959e-3),
            (17, 1.293_187e-4),
            (18, 3.830_881e-5),
            (31, 3.023_511e-7),
        ] {
            let found = f64::from(rope.inv_freq[i]);
            assert!(
                (found / expected - 1.0).abs() < 1e-6,
                "inv_freq[{i}] is {found}, expected {expected}"
            );
        }
        assert!((rope.concentration - 1.346_573_6).abs() < 1e-7);
    }

    #[test]
    fn cosines_and_sines_are_the_references_up_to_the_last_position() {
        let golden = Golden::read("rope");
        let rope = Rope::new(&config());
        for (i, (found, expected)) in rope.inv_freq.iter().zip(golden.f32("inv_freq")).enumerate() {
            let ulps = found.to_bits().abs_diff(expected.to_bits());
            assert!(ulps <= 2, "inv_freq[{i}]: {found}, expected {expected}");
        }
        let (cos, sin) = (golden.f32("cos"), golden.f32("sin"));
        for (row, position) in [0, 1, 127, 128, 4095, 4096, 131_071]
            .into_iter()
            .enumerate()
        {
            let (found_cos, found_sin) = rope.cos_sin(position..position + 1);
            // One unit in the last place of a frequency, that many times over: the reference rounds differently.
            let tolerance = 3e-7 + 6e-8 * position as f32;
            for (found, expected) in [(found_cos, &cos), (found_sin, &sin)] {
                for (found, expected) in found.iter().zip(&expected[32 * row..]) {
                    let difference = (found - expected).abs();
                    assert!(
                        difference <= tolerance,
                        "position {position}: {found}, expected {expected}"
                    );
                }
            }
        }
    }
}
