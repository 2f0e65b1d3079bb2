//! gpt-oss on one page, in the order and the words of `gpt_oss/torch/model.py`. Every name is defined before
//! it is used; `n` is the number of new tokens.

use std::ops::ControlFlow;

use burn::tensor::Tensor;

use super::backend::Engine;
use super::cache::KvCache;
use super::rope::Rope;
use super::{Draw, Drawn, Error, KvType, Likeliest};
use crate::checkpoint::{self, Checkpoint, Config, LayerType};

/// Attention with sinks over the layer's history.
struct AttentionBlock<E: Engine> {
    norm: E::Vector,
    /// Rows: every query head, every key head, every value head.
    qkv: E::Linear,
    sinks: E::Vector,
    out: E::Linear,
    /// Only the sliding layers have one.
    window: Option<usize>,
}

impl<E: Engine> AttentionBlock<E> {
    fn new(engine: &E, layer: &checkpoint::Layer, layer_type: LayerType, config: &Config) -> Self {
        Self {
            norm: engine.load_vector(&layer.attention_norm),
            qkv: engine.load_linear(&[&layer.q, &layer.k, &layer.v]),
            sinks: engine.load_vector(&layer.sinks),
            out: engine.load_linear(&[&layer.out]),
            window: (layer_type == LayerType::Sliding).then_some(config.sliding_window),
        }
    }

    /// # Shapes
    /// - `x`: `[n, hidden]`, and so is the result
    fn forward(
        &self,
        engine: &E,
        x: Tensor<E::Burn, 2>,
        config: &Config,
        rotation: &E::Rotation,
        history: &mut E::History,
        start: usize,
    ) -> Tensor<E::Burn, 2> {
        let eps = config.rms_norm_eps as f32;
        let qkv = engine.norm_linear(x.clone(), &self.norm, eps, &self.qkv);
        let q = engine.append(history, start, qkv, rotation);
        let t = engine.attention(q, history, start, self.window, &self.sinks);
        engine.add_linear(x, t, &self.out)
    }
}

/// The mixture of experts.
struct MlpBlock<E: Engine> {
    norm: E::Vector,
    router: E::Linear,
    experts: E::Experts,
}

impl<E: Engine> MlpBlock<E> {
    fn new(engine: &E, layer: &checkpoint::Layer) -> Self {
        Self {
            norm: engine.load_vector(&layer.mlp_norm),
            router: engine.load_router(&layer.router),
            experts: engine.load_experts(&layer.gate_up, &layer.down),
        }
    }

    /// # Shapes
    /// - `x`: `[n, hidden]`, and so is the result
    fn forward(&self, engine: &E, x: Tensor<E::Burn, 2>, config: &Config) -> Tensor<E::Burn, 2> {
        let (eps, top_k) = (config.rms_norm_eps as f32, config.experts_per_token);
        let (t, routing) = engine.norm_route(x.clone(), &self.norm, eps, &self.router, top_k);
        engine.add_experts(x, t, routing, &self.experts, config.swiglu_limit as f32)
    }
}

/// One layer.
struct TransformerBlock<E: Engine> {
    attention: AttentionBlock<E>,
    mlp: MlpBlock<E>,
}

/// Sees the residual stream `[n, hidden]` between blocks, and may end the pass.
pub type AfterBlock<'a, B> = dyn FnMut(usize, &Tensor<B, 2>) -> ControlFlow<()> + Send + 'a;

/// The whole model.
pub struct Transformer<E: Engine> {
    engine: E,
    config: Config,
    rope: Rope,
    embedding: E::Table,
    blocks: Vec<TransformerBlock<E>>,
    norm: E::Vector,
    unembedding: E::Table,
}

impl<E: Engine> Transformer<E> {
    /// Hands every weight of `checkpoint` to `engine`.
    pub fn new(engine: E, checkpoint: &Checkpoint) -> Self {
        let (config, weights) = (&checkpoint.config, &checkpoint.weights);
        let blocks = weights
            .layers
            .iter()
            .zip(&config.layer_types)
            .map(|(layer, &layer_type)| TransformerBlock {
                attention: AttentionBlock::new(&engine, layer, layer_type, config),
                mlp: MlpBlock::new(&engine, layer),
            })
            .collect();
        Self {
            config: config.clone(),
            rope: Rope::new(config),
            embedding: engine.load_table(&weights.embedding),
            blocks,
            norm: engine.load_vector(&weights.norm),
            unembedding: engine.load_table(&weights.unembedding),
            engine,
        }
    }

    /// What runs it.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The numbers of the model.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// An empty cache that may grow to `capacity` positions.
    pub fn new_cache(&self, kv_type: KvType, capacity: usize) -> KvCache<E> {
        KvCache::new(&self.engine, &self.config, kv_type, capacity)
    }

    /// Runs `tokens` at the positions after what `cache` holds, commits them, and gives the logits of the last
    /// `logits` of them, `[logits, vocab_size]`.
    ///
    /// `after_block` sees the residual stream `[n, hidden]` after the embedding (0) and after every block
    /// (1, 2, ...) and may break off: then nothing is committed and the result is `None`.
    ///
    /// # Errors
    /// [`Error::Device`] and [`Error::Gpu`] where the device failed.
    pub fn forward(
        &self,
        tokens: &[u32],
        logits: usize,
        cache: &mut KvCache<E>,
        after_block: &mut AfterBlock<'_, E::Burn>,
    ) -> Result<Option<Vec<f32>>, Error> {
        let Some(x) = self.residual(tokens, cache, after_block) else {
            return Ok(None);
        };
        if logits == 0 {
            self.engine.check()?;
            return Ok(Some(Vec::new()));
        }
        let t = self.last(x, logits);
        self.engine.logits(t, &self.unembedding).map(Some)
    }

    /// As [`forward`](Self::forward), but gives the `k` likeliest ids after the last token alone; see
    /// [`Engine::likeliest`].
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn likeliest(
        &self,
        tokens: &[u32],
        k: usize,
        cache: &mut KvCache<E>,
        after_block: &mut AfterBlock<'_, E::Burn>,
    ) -> Result<Option<Likeliest>, Error> {
        let Some(x) = self.residual(tokens, cache, after_block) else {
            return Ok(None);
        };
        let t = self.last(x, 1);
        self.engine.likeliest(t, &self.unembedding, k).map(Some)
    }

    /// As [`forward`](Self::forward), but gives the id that `draw` falls on after the last token; see
    /// [`Engine::draw`].
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn draw(
        &self,
        tokens: &[u32],
        draw: Draw,
        cache: &mut KvCache<E>,
        after_block: &mut AfterBlock<'_, E::Burn>,
    ) -> Result<Option<Drawn>, Error> {
        let Some(x) = self.residual(tokens, cache, after_block) else {
            return Ok(None);
        };
        let t = self.last(x, 1);
        self.engine.draw(t, &self.unembedding, draw).map(Some)
    }

    /// The residual stream `[n, hidden]` after the last block.
    fn residual(
        &self,
        tokens: &[u32],
        cache: &mut KvCache<E>,
        after_block: &mut AfterBlock<'_, E::Burn>,
    ) -> Option<Tensor<E::Burn, 2>> {
        let (n, start) = (tokens.len(), cache.len());
        let rotation = self.engine.rotation(start..start + n, &self.rope);

        let mut x = self.engine.embed(tokens, &self.embedding);
        if after_block(0, &x).is_break() {
            return None;
        }
        for (i, (block, history)) in self.blocks.iter().zip(&mut cache.layers).enumerate() {
            x = block
                .attention
                .forward(&self.engine, x, &self.config, &rotation, history, start);
            x = block.mlp.forward(&self.engine, x, &self.config);
            if after_block(i + 1, &x).is_break() {
                return None;
            }
        }
        cache.commit(n);
        Some(x)
    }

    /// The last `rows` of `x`, as the unembedding takes them.
    fn last(&self, x: Tensor<E::Burn, 2>, rows: usize) -> Tensor<E::Burn, 2> {
        let [n, _] = x.dims();
        let last = x.narrow(0, n - rows, rows);
        self.engine
            .rms_norm(last, &self.norm, self.config.rms_norm_eps as f32)
    }
}

#[cfg(test)]
mod tests;
