//! Attention over the history of a layer, with a sink in the denominator of every head.
//!
//! Few tokens split the keys over cubes, so that a long history is read by the whole device; many tokens are taken in
//! tiles, so that each key that is read serves several of them. In both, the query heads that share a key head share
//! each load, and the softmax goes along with the keys: a largest score and a sum that begin with the sink, and are
//! corrected when a larger score comes.

#[allow(
    clippy::manual_is_multiple_of,
    clippy::too_many_lines,
    clippy::trivially_copy_pass_by_ref,
    reason = "kernels know no other remainder, share their registers over the whole of a step, and lend shared memory"
)]
mod decode;
#[allow(
    clippy::too_many_lines,
    clippy::trivially_copy_pass_by_ref,
    reason = "as in decode"
)]
mod prefill;

use cubecl::prelude::*;

use super::history::{History, cube_dim, four};
use super::{Buffer, Gpu};
use crate::engine::KvType;

/// The most tokens that go the way of decoding.
pub const DECODE_TOKENS: usize = 8;
/// Units of a cube.
const UNITS: u32 = 128;
/// A score that no key has, and which leaves nothing after `exp`.
const NOTHING: f32 = -1e30;

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    head_dim: usize,
    /// Query heads of a key head.
    group: usize,
    kv_type: KvType,
    /// Whether units exchange values within their plane, and not through shared memory.
    plane: bool,
}

impl Shape {
    /// Vectors of four values in a head.
    const fn fours(self) -> usize {
        self.head_dim / 4
    }

    /// Vectors of four values that one load of keys or values brings.
    const fn per_load(self) -> usize {
        self.kv_type.load() * self.kv_type.per_word() / 4
    }

    /// Loads in a head.
    const fn loads(self) -> usize {
        self.fours() / self.per_load()
    }
}

/// Tokens at positions `start..start + n`, and what they see.
#[derive(Clone, Copy, Debug)]
pub struct Queries {
    /// How many.
    pub n: usize,
    /// The position of the first.
    pub start: usize,
    /// Query heads.
    pub heads: usize,
    /// How many keys a token sees with its own, in a sliding layer.
    pub window: Option<usize>,
}

impl Queries {
    /// The most keys that one of them sees.
    fn most_keys(self) -> usize {
        let all = self.start + self.n;
        self.window.map_or(all, |window| all.min(window))
    }

    /// The window as the kernels take it.
    fn window_or_all(self) -> u32 {
        self.window.map_or(u32::MAX, |window| window as u32)
    }
}

/// Words of the buffer that [`attention`] works in.
pub const fn work_len(heads: usize, head_dim: usize) -> usize {
    DECODE_TOKENS * heads * decode::MOST_SPLITS * (head_dim + 2)
}

/// Attention of `q`, `[n, heads · head_dim]`, over what `history` holds up to each token's own position, scaled by
/// `1 / sqrt(head_dim)`. `sinks` are `[heads]`: one more logit in the denominator. `out` is `[n, heads · head_dim]`.
/// Query head `h` reads key head `h / (heads / kv_heads)`.
///
/// One launch; two where few tokens see many keys.
pub fn attention<R: Runtime>(
    gpu: &Gpu<R>,
    q: &Buffer,
    history: &History,
    queries: Queries,
    sinks: &Buffer,
    work: &Buffer,
    out: &Buffer,
) {
    if queries.n <= DECODE_TOKENS {
        decode::decode(gpu, q, history, queries, sinks, work, out);
    } else {
        prefill::prefill(gpu, q, history, queries, sinks, out);
    }
}

/// Asserts what both ways rely on; the number of query heads of a key head.
fn checked(history: &History, queries: Queries, q: &Buffer, sinks: &Buffer, out: &Buffer) -> usize {
    let Queries {
        n,
        start,
        heads,
        window,
    } = queries;
    let group = heads / history.kv_heads;
    assert_eq!(group * history.kv_heads, heads);
    assert!(
        matches!(group, 1 | 2 | 4 | 8),
        "{group} query heads to a key head have no kernel"
    );
    assert!(n > 0 && start + n <= history.capacity && window != Some(0));
    assert!(q.len >= n * heads * history.head_dim && out.len >= n * heads * history.head_dim);
    assert!(sinks.len >= heads);
    group
}

/// The first key that the token at `position` sees.
#[cube]
fn first_visible(position: u32, window: u32) -> u32 {
    position + 1u32 - u32::min(window, position + 1u32)
}

/// The sum of the products.
#[cube]
fn dot(a: Vector<f32, Const<4>>, b: Vector<f32, Const<4>>) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
}

#[cfg(test)]
mod tests;
