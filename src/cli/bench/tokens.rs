//! Random token ids: the same ones in every run, so that runs can be compared.

use clap::ValueEnum;

/// How the ids of `gptoss bench` are spread over the vocabulary, and with them the tokens over the experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Routing {
    /// Every id is as likely as the next: the experts get about equally many tokens
    #[default]
    Uniform,
    /// As in text: a few ids make up most of it (Zipf's law) and stretches come again, so some experts get far
    /// more tokens than others
    Text,
}

impl Routing {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Text => "text",
        }
    }
}

/// One in so many tokens of text begins a stretch that was there before.
const REPEAT_ONE_IN: u64 = 24;
/// Tokens of such a stretch.
const STRETCH: std::ops::RangeInclusive<u64> = 4..=16;

/// `count` ids below `vocab_size`. Fewer are the beginning of more.
pub fn token_ids(routing: Routing, vocab_size: usize, count: usize) -> Vec<u32> {
    let mut random = SplitMix(0x6770_746F_7373);
    match routing {
        Routing::Uniform => (0..count)
            .map(|_| random.below(vocab_size as u64) as u32)
            .collect(),
        Routing::Text => text(&mut random, vocab_size, count),
    }
}

/// The id is the rank: a vocabulary made by merging pairs has its frequent tokens first.
fn text(random: &mut SplitMix, vocab_size: usize, count: usize) -> Vec<u32> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=vocab_size)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut ids = Vec::with_capacity(count + *STRETCH.end() as usize);
    while ids.len() < count {
        if !ids.is_empty() && random.below(REPEAT_ONE_IN) == 0 {
            let from = random.below(ids.len() as u64) as usize;
            let length = STRETCH.start() + random.below(STRETCH.end() - STRETCH.start() + 1);
            for i in from..from + length as usize {
                ids.push(ids[i]);
            }
        } else {
            let at = random.unit() * sum;
            let id = cumulative.partition_point(|&sum| sum <= at);
            ids.push(id.min(vocab_size - 1) as u32);
        }
    }
    ids.truncate(count);
    ids
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`, each number as likely as the next save for one in 2⁶⁴/n.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// From 0 on, below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the ten most frequent ids.
    fn of_top_ten(ids: &[u32], vocab_size: usize) -> f64 {
        let mut counts = vec![0; vocab_size];
        for &id in ids {
            counts[id as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        f64::from(counts[..10].iter().sum::<u32>()) / ids.len() as f64
    }

    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = SplitMix(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([random.next(), random.next(), random.next()], expected);
    }

    #[test]
    fn uniform_ids_are_spread_and_those_of_text_are_not() {
        let uniform = token_ids(Routing::Uniform, 2944, 20_000);
        let text = token_ids(Routing::Text, 2944, 20_000);
        assert!(uniform.iter().chain(&text).all(|&id| id < 2944));
        assert!(of_top_ten(&uniform, 2944) < 0.01);
        // Zipf's law over 2,944 ids gives the first ten 2.93 of 8.56.
        let share = of_top_ten(&text, 2944);
        assert!((0.30..0.40).contains(&share), "{share}");
        let again = |ids: &[u32]| {
            let seen: std::collections::HashSet<_> = ids.windows(4).collect();
            1.0 - seen.len() as f64 / ids.len() as f64
        };
        assert!(again(&uniform) < 0.01, "{}", again(&uniform));
        assert!(again(&text) > 0.15, "{}", again(&text));
    }

    #[test]
    fn fewer_ids_are_the_beginning_of_more_in_every_run() {
        for routing in [Routing::Uniform, Routing::Text] {
            let many = token_ids(routing, 201_088, 1000);
            assert_eq!(token_ids(routing, 201_088, 100), many[..100]);
        }
    }
}
