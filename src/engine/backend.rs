//! The seam between the model and what runs it.
//!
//! [`Transformer`](super::model::Transformer) is written once, over this trait. Activations are tensors of a burn
//! backend; weights are whatever the kernels of that backend read best. Two kinds of engine implement it: the
//! fast ones with kernels of their own, and [`Twin`](super::twin::Twin), the same operations in plain burn
//! calls on any burn backend, against which the fast ones are tested.

use std::ops::Range;

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor};

use super::rope::Rope;
use super::{Draw, Drawn, Error, KvType, Likeliest, sampler};
use crate::checkpoint::{Bf16, Experts, Linear};

/// Which experts each token goes to, in falling order of their logits, and with what weight.
pub struct Routing<B: Backend> {
    /// `[tokens, experts_per_token]`
    pub ids: Tensor<B, 2, Int>,
    /// `[tokens, experts_per_token]`, each row sums to 1.
    pub weights: Tensor<B, 2>,
}

/// The operations gpt-oss is made of. `n` is the number of tokens of one forward pass.
pub trait Engine: Send + Sync {
    /// The burn backend whose tensors carry the activations, always in f32.
    type Burn: Backend;
    /// A small dense vector: a norm's gain, the sinks.
    type Vector: Send + Sync;
    /// A dense weight `[rows, cols]` with its bias.
    type Linear: Send + Sync;
    /// A table with one row per token id: embedding and unembedding.
    type Table: Send + Sync;
    /// The packed weights of all experts of one layer, both products.
    type Experts: Send + Sync;
    /// The cosines and sines for the positions of one forward pass.
    type Rotation;
    /// The keys and values of one layer.
    type History: Send;

    /// What the figures call it: `cpu (candle, avx2, compute f32, dense bf16, kv bf16, 2 threads)`.
    fn describe(&self) -> String;

    /// What went wrong since it was asked last, on a device that tells late.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Gpu`]
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Runs a whole forward pass, where the engine's threads are at hand.
    fn run<R: Send>(&self, forward: impl FnOnce() -> R + Send) -> R {
        forward()
    }

    /// Takes over a vector.
    fn load_vector(&self, vector: &Bf16) -> Self::Vector;
    /// Takes over weights that read the same input, as one product with the rows of all of them.
    fn load_linear(&self, parts: &[&Linear]) -> Self::Linear;
    /// Takes over a router, which is never rounded: a small error there sends a token elsewhere.
    fn load_router(&self, router: &Linear) -> Self::Linear {
        self.load_linear(&[router])
    }
    /// Takes over an embedding or unembedding.
    fn load_table(&self, table: &Bf16) -> Self::Table;
    /// Takes over the experts of a layer.
    fn load_experts(&self, gate_up: &Experts, down: &Experts) -> Self::Experts;
    /// An empty history for `kv_heads` heads of `head_dim`.
    fn new_history(&self, kv_heads: usize, head_dim: usize, kv_type: KvType) -> Self::History;

    /// The rows of `tokens`: `[n, hidden]`.
    fn embed(&self, tokens: &[u32], table: &Self::Table) -> Tensor<Self::Burn, 2>;

    /// `x / sqrt(mean(x²) + eps) · gain` per row of `[n, hidden]`.
    fn rms_norm(
        &self,
        x: Tensor<Self::Burn, 2>,
        gain: &Self::Vector,
        eps: f32,
    ) -> Tensor<Self::Burn, 2>;

    /// `t Wᵀ + b`, where `t` is the [norm](Self::rms_norm) of `x`: `[n, cols]` to `[n, rows]`.
    fn norm_linear(
        &self,
        x: Tensor<Self::Burn, 2>,
        gain: &Self::Vector,
        eps: f32,
        weight: &Self::Linear,
    ) -> Tensor<Self::Burn, 2>;

    /// `residual + x Wᵀ + b`.
    fn add_linear(
        &self,
        residual: Tensor<Self::Burn, 2>,
        x: Tensor<Self::Burn, 2>,
        weight: &Self::Linear,
    ) -> Tensor<Self::Burn, 2>;

    /// Cosines and sines for `positions`.
    fn rotation(&self, positions: Range<usize>, rope: &Rope) -> Self::Rotation;

    /// Takes q, k and v apart, `[n, (heads + 2 kv_heads) · head_dim]` at positions `start..start + n`: rotates the
    /// halves of every head of q and k, writes k and v into the history, over what may be there, and gives q,
    /// `[n, heads, head_dim]`.
    fn append(
        &self,
        history: &mut Self::History,
        start: usize,
        qkv: Tensor<Self::Burn, 2>,
        rotation: &Self::Rotation,
    ) -> Tensor<Self::Burn, 3>;

    /// Lets go of the memory of positions from `len` on, as far as that is simple.
    fn truncate(&self, history: &mut Self::History, len: usize);

    /// Attention of q, `[n, heads, head_dim]` at positions `start..start + n`, over the keys that
    /// [`visible`](super::cache::visible) allows, with one sink logit per head in the denominator: `[n, heads · head_dim]`.
    fn attention(
        &self,
        q: Tensor<Self::Burn, 3>,
        history: &Self::History,
        start: usize,
        window: Option<usize>,
        sinks: &Self::Vector,
    ) -> Tensor<Self::Burn, 2>;

    /// The [norm](Self::rms_norm) of `x`, and for each row of it the `top_k` experts by router logit with the softmax over
    /// those logits alone.
    fn norm_route(
        &self,
        x: Tensor<Self::Burn, 2>,
        gain: &Self::Vector,
        eps: f32,
        router: &Self::Linear,
        top_k: usize,
    ) -> (Tensor<Self::Burn, 2>, Routing<Self::Burn>);

    /// `residual` and the chosen experts' MLPs of `x`, clamped at `limit`, summed by weight: all `[n, hidden]`.
    fn add_experts(
        &self,
        residual: Tensor<Self::Burn, 2>,
        x: Tensor<Self::Burn, 2>,
        routing: Routing<Self::Burn>,
        experts: &Self::Experts,
        limit: f32,
    ) -> Tensor<Self::Burn, 2>;

    /// `x Wᵀ` over the whole vocabulary, read back: `[n, vocab]` row-major.
    ///
    /// # Errors
    /// [`Error::Device`] where the device failed on the way.
    fn logits(
        &self,
        x: Tensor<Self::Burn, 2>,
        unembedding: &Self::Table,
    ) -> Result<Vec<f32>, Error>;

    /// The `k` likeliest token ids after one row `[1, hidden]` with their logits, falling, of equal ones the first;
    /// `None` where a logit is not finite.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    fn likeliest(
        &self,
        x: Tensor<Self::Burn, 2>,
        unembedding: &Self::Table,
        k: usize,
    ) -> Result<Likeliest, Error> {
        Ok(sampler::likeliest(&self.logits(x, unembedding)?, k))
    }

    /// The token id after one row `[1, hidden]` that [`sampler::draw`] falls on; `None` where a logit is not finite. A
    /// device that adds up in f32 may give a neighbour where the draw is within 1e-5 of the border between them.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    fn draw(
        &self,
        x: Tensor<Self::Burn, 2>,
        unembedding: &Self::Table,
        draw: Draw,
    ) -> Result<Drawn, Error> {
        Ok(sampler::draw(&mut self.logits(x, unembedding)?, draw))
    }
}
