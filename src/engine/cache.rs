//! The KV cache: the full history of every layer. Windows are applied when keys are read, so any prefix of it
//! is a valid cache of its own, and going back is free.

use std::ops::Range;

use super::KvType;
use super::backend::Engine;
use crate::checkpoint::Config;

/// The positions whose keys a query at `position` sees: itself and what came before, in a sliding layer no
/// further back than `window` positions, itself included.
pub fn visible(position: usize, window: Option<usize>) -> Range<usize> {
    let end = position + 1;
    window.map_or(0, |window| end.saturating_sub(window))..end
}

/// One history per layer and the number of positions that all of them hold.
pub struct KvCache<E: Engine> {
    /// In layer order.
    pub layers: Vec<E::History>,
    len: usize,
    capacity: usize,
}

impl<E: Engine> KvCache<E> {
    /// An empty cache for `config` that may grow to `capacity` positions.
    pub fn new(engine: &E, config: &Config, kv_type: KvType, capacity: usize) -> Self {
        let layers = (0..config.num_hidden_layers)
            .map(|_| engine.new_history(config.num_key_value_heads, config.head_dim, kv_type))
            .collect();
        Self {
            layers,
            len: 0,
            capacity,
        }
    }

    /// Committed positions.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is committed.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most positions it may hold.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes `n` positions part of the history, after the last layer has written them. What a forward pass
    /// wrote and did not commit is written over by the next one.
    pub fn commit(&mut self, n: usize) {
        self.len += n;
        debug_assert!(
            self.len <= self.capacity,
            "{} of {} positions",
            self.len,
            self.capacity
        );
    }

    /// Forgets everything from position `len` on.
    pub fn truncate(&mut self, engine: &E, len: usize) {
        if len < self.len {
            self.len = len;
            for history in &mut self.layers {
                engine.truncate(history, len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn a_query_in_a_sliding_layer_sees_128_keys_with_its_own() {
        assert_eq!(visible(200, Some(128)), 73..201);
        assert_eq!(visible(127, Some(128)), 0..128);
        assert_eq!(visible(128, Some(128)), 1..129);
        assert_eq!(visible(0, Some(128)), 0..1);
    }

    #[test]
    fn a_query_in_a_full_layer_sees_everything_up_to_itself() {
        assert_eq!(visible(0, None), 0..1);
        assert_eq!(visible(4273, None), 0..4274);
    }
}
