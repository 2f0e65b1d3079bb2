//! Notices that a generation has begun to repeat itself.

/// Longest block, in tokens, whose repetition is noticed: a few paragraphs.
const LONGEST_PERIOD: usize = 512;
/// A block is said to loop once it stands there this often in a row ...
const TIMES: usize = 8;
/// ... and the whole run has this many tokens: `----------` in a table is no loop.
const SHORTEST_RUN: usize = 128;

/// The output repeats the same block of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// Tokens in the block.
    pub period: usize,
    /// How often it stands there in a row.
    pub times: usize,
}

/// Watches tokens as they are made; speaks once.
#[derive(Debug, Default)]
pub struct RepetitionWatch {
    tokens: Vec<u32>,
    /// `matches[p - 1]`: how many tokens up to now equal the one `p` places before them.
    matches: Vec<usize>,
    spoken: bool,
}

impl RepetitionWatch {
    /// Takes the next token; says so when it completes a loop, the first time only.
    pub fn push(&mut self, token: u32) -> Option<Repetition> {
        if self.spoken {
            return None;
        }
        self.matches
            .resize(self.tokens.len().min(LONGEST_PERIOD), 0);
        let mut found = None;
        for (index, (matches, earlier)) in self
            .matches
            .iter_mut()
            .zip(self.tokens.iter().rev())
            .enumerate()
        {
            *matches = if *earlier == token { *matches + 1 } else { 0 };
            let (period, run) = (index + 1, *matches + index + 1);
            if found.is_none() && run >= SHORTEST_RUN.max(period * TIMES) {
                found = Some(Repetition {
                    period,
                    times: run / period,
                });
            }
        }
        self.tokens.push(token);
        self.spoken = found.is_some();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(tokens: impl IntoIterator<Item = u32>) -> Vec<(usize, Repetition)> {
        let mut watch = RepetitionWatch::default();
        tokens
            .into_iter()
            .enumerate()
            .filter_map(|(position, token)| Some((position, watch.push(token)?)))
            .collect()
    }

    #[test]
    fn says_once_that_a_block_repeats() {
        // Some text, then a block of 20 tokens for ever: the 8th copy ends at 50 + 160.
        let text = (0..50).map(|token| token + 1000);
        let block = (0..400).map(|position| position % 20);
        let expected = Repetition {
            period: 20,
            times: 8,
        };
        assert_eq!(watch(text.chain(block)), [(209, expected)]);
    }

    #[test]
    fn a_single_token_loops_only_after_a_long_run() {
        assert_eq!(watch([7; 127]), []);
        let expected = Repetition {
            period: 1,
            times: 128,
        };
        assert_eq!(watch([7; 500]), [(127, expected)]);
    }

    #[test]
    fn counting_and_varied_text_are_no_loops() {
        // `1, 2, 3, ...`: a comma at every second place, something new between.
        let counting = (0..2000).map(|position| {
            if position % 2 == 1 {
                11
            } else {
                100 + position
            }
        });
        assert_eq!(watch(counting), []);
        // The same sentence with one word changed each time.
        let varied = (0..2000).map(|position| {
            if position % 10 == 9 {
                1000 + position
            } else {
                position % 10
            }
        });
        assert_eq!(watch(varied), []);
    }

    #[test]
    fn blocks_longer_than_the_limit_are_left_alone() {
        let long = LONGEST_PERIOD as u32 + 1;
        assert_eq!(watch((0..long * 12).map(|position| position % long)), []);
    }
}
