//! config.json in its published forms.

mod fields;

use std::path::Path;

use serde_json::Value;

use super::error::Error;
use fields::{Fields, parse, shortened};

// Far above any gpt-oss, and so small that no product of them overflows a u64.
const MOST_LAYERS: usize = 1 << 10;
const MOST_HEADS: usize = 1 << 12;
const MOST_EXPERTS: usize = 1 << 14;
const MOST_CHANNELS: usize = 1 << 18;
const MOST_TOKENS: usize = 1 << 24;
const MOST_POSITIONS: usize = 1 << 30;

/// Fixed in `gpt_oss/torch/model.py::RMSNorm`.
const ORIGINAL_RMS_NORM_EPS: f64 = 1e-5;
const DEFAULT_SWIGLU_LIMIT: f64 = 7.0;

/// One entry of `layer_types`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerType {
    /// A query sees the last `sliding_window` positions, its own included.
    Sliding,
    /// A query sees all positions up to its own.
    Full,
}

/// YaRN (<https://arxiv.org/abs/2309.00071>) as config.json states it, never rounded.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeScaling {
    pub factor: f64,
    pub beta_fast: f64,
    pub beta_slow: f64,
    pub original_max_position_embeddings: usize,
}

/// The numbers of the model, checked to fit together.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// A multiple of 32, as `intermediate_size`.
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    /// A multiple of `num_key_value_heads`.
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    /// Even. Not `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    pub num_experts: usize,
    /// At most `num_experts`.
    pub experts_per_token: usize,
    pub vocab_size: usize,
    pub max_position_embeddings: usize,
    pub sliding_window: usize,
    /// One per layer.
    pub layer_types: Vec<LayerType>,
    pub rope_theta: f64,
    pub rope_scaling: RopeScaling,
    pub rms_norm_eps: f64,
    pub swiglu_limit: f64,
}

impl Config {
    /// Reads the `text` of a config.json, Hugging Face's or that of OpenAI's `original/`. `path` is for the errors.
    pub fn from_json(path: &Path, text: &[u8]) -> Result<Self, Error> {
        let object = parse(path, text)?;
        let fields = Fields::of(path, &object);
        let form = Form::of(&fields)?;
        let num_hidden_layers = fields.count(&["num_hidden_layers"], MOST_LAYERS)?;
        let rope = match form {
            Form::HuggingFace => Rope::hugging_face(&fields)?,
            Form::Original => Rope::original(&fields)?,
        };
        let config = Self {
            hidden_size: fields.count(&["hidden_size"], MOST_CHANNELS)?,
            intermediate_size: fields.count(&["intermediate_size"], MOST_CHANNELS)?,
            num_hidden_layers,
            num_attention_heads: fields.count(&["num_attention_heads"], MOST_HEADS)?,
            num_key_value_heads: fields.count(&["num_key_value_heads"], MOST_HEADS)?,
            head_dim: fields.count(&["head_dim"], MOST_HEADS)?,
            num_experts: fields.count(&["num_local_experts", "num_experts"], MOST_EXPERTS)?,
            experts_per_token: fields
                .count(&["num_experts_per_tok", "experts_per_token"], MOST_EXPERTS)?,
            vocab_size: fields.count(&["vocab_size"], MOST_TOKENS)?,
            max_position_embeddings: rope.max_position_embeddings,
            sliding_window: fields.count(&["sliding_window"], MOST_POSITIONS)?,
            layer_types: match form {
                Form::HuggingFace => layer_types(&fields)?,
                Form::Original => (0..num_hidden_layers).map(LayerType::original).collect(),
            },
            rope_theta: rope.theta,
            rope_scaling: rope.scaling,
            rms_norm_eps: match form {
                Form::HuggingFace => fields.number("rms_norm_eps")?,
                Form::Original => ORIGINAL_RMS_NORM_EPS,
            },
            swiglu_limit: fields
                .optional_number("swiglu_limit")?
                .unwrap_or(DEFAULT_SWIGLU_LIMIT),
        };
        config.check(&fields)?;
        Ok(config)
    }

    /// Channels of all query heads together.
    pub fn query_size(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Channels of all key (or value) heads together.
    pub fn key_value_size(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// Whether the numbers fit together; each by itself is in its range already.
    fn check(&self, fields: &Fields) -> Result<(), Error> {
        for (key, size) in [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
        ] {
            let expected = "a multiple of 32, the values in an MXFP4 block";
            fields.rule(size.is_multiple_of(32), key, size, expected)?;
        }
        let heads = self.num_attention_heads;
        fields.rule(
            heads.is_multiple_of(self.num_key_value_heads),
            "num_attention_heads",
            heads,
            format!(
                "a multiple of num_key_value_heads, which is {}",
                self.num_key_value_heads
            ),
        )?;
        fields.rule(
            self.head_dim.is_multiple_of(2),
            "head_dim",
            self.head_dim,
            "an even number, since RoPE rotates pairs",
        )?;
        fields.rule(
            self.experts_per_token <= self.num_experts,
            "num_experts_per_tok",
            self.experts_per_token,
            format!(
                "at most the number of experts, which is {}",
                self.num_experts
            ),
        )?;
        fields.rule(
            self.layer_types.len() == self.num_hidden_layers,
            "layer_types",
            format!("a list of {}", self.layer_types.len()),
            format!("one entry per layer, {} in all", self.num_hidden_layers),
        )?;
        fields.rule(
            self.rope_theta > 1.0,
            "rope_theta",
            self.rope_theta,
            "more than 1",
        )?;
        for (key, number) in [
            ("rms_norm_eps", self.rms_norm_eps),
            ("swiglu_limit", self.swiglu_limit),
        ] {
            fields.rule(number > 0.0, key, number, "a positive number")?;
        }
        Ok(())
    }
}

impl LayerType {
    /// `gpt_oss/torch/model.py`: every other layer slides, beginning with the first.
    fn original(layer: usize) -> Self {
        if layer.is_multiple_of(2) {
            Self::Sliding
        } else {
            Self::Full
        }
    }
}

/// Who wrote the file, and so the names in it.
#[derive(Clone, Copy)]
enum Form {
    /// transformers `GptOssConfig`.
    HuggingFace,
    /// `gpt_oss/torch/model.py::ModelConfig`: no architecture, no epsilon, no layer types.
    Original,
}

impl Form {
    fn of(fields: &Fields) -> Result<Self, Error> {
        let model_type = fields.find("model_type");
        let architectures = fields.find("architectures");
        if model_type.is_none() && architectures.is_none() {
            return Ok(Self::Original);
        }
        if let Some(names) = architectures {
            let mut names = names
                .as_array()
                .map_or(std::slice::from_ref(names), Vec::as_slice)
                .iter();
            if names.clone().all(|name| name != "GptOssForCausalLM") {
                return Err(fields.architecture(names.next().or(architectures)));
            }
        }
        if model_type.is_some_and(|name| name != "gpt_oss") {
            return Err(fields.architecture(model_type));
        }
        // The key of MLX conversions, whose weights are packed in another way.
        if fields.find("quantization").is_some() {
            return Err(Error::UnsupportedForm {
                path: fields.path.to_owned(),
                form: "MLX",
            });
        }
        if let Some(quantization) = fields.object("quantization_config")? {
            quantization.only("quant_method", &Value::from("mxfp4"))?;
        }
        fields.only("hidden_act", &Value::from("silu"))?;
        fields.only("attention_bias", &Value::from(true))?;
        fields.only("tie_word_embeddings", &Value::from(false))?;
        Ok(Self::HuggingFace)
    }
}

struct Rope {
    theta: f64,
    scaling: RopeScaling,
    max_position_embeddings: usize,
}

impl Rope {
    /// `rope_scaling` with `rope_theta` beside it, or, in newer files, `rope_parameters` with both.
    fn hugging_face(fields: &Fields) -> Result<Self, Error> {
        let old = fields.object("rope_scaling")?;
        let new = fields.object("rope_parameters")?;
        let expected = "YaRN's numbers, there or in `rope_parameters`";
        let object = new
            .as_ref()
            .or(old.as_ref())
            .ok_or_else(|| fields.fault("rope_scaling", "missing", expected))?;
        let scaling = Self::hugging_face_yarn(object, fields)?;
        if let (Some(old), Some(_)) = (&old, &new) {
            let expected = "what `rope_parameters` says";
            fields.rule(
                Self::hugging_face_yarn(old, fields)? == scaling,
                "rope_scaling",
                "different",
                expected,
            )?;
        }
        let theta = match (
            object.optional_number("rope_theta")?,
            fields.optional_number("rope_theta")?,
        ) {
            (Some(inner), Some(outer)) if inner.to_bits() != outer.to_bits() => {
                return Err(fields.fault(
                    "rope_theta",
                    outer,
                    format!("{inner}, as `{}rope_theta`", object.prefix),
                ));
            }
            (Some(theta), _) | (None, Some(theta)) => theta,
            (None, None) => fields.number("rope_theta")?,
        };
        Ok(Self {
            theta,
            scaling,
            max_position_embeddings: fields.count(&["max_position_embeddings"], MOST_POSITIONS)?,
        })
    }

    /// `object` is `rope_scaling` or `rope_parameters` of `fields`.
    fn hugging_face_yarn(object: &Fields, fields: &Fields) -> Result<RopeScaling, Error> {
        let kind = object.find("rope_type").or_else(|| object.find("type"));
        object.rule(
            kind.is_some_and(|kind| kind == "yarn"),
            "rope_type",
            kind.map_or_else(|| "missing".to_owned(), shortened),
            "\"yarn\"",
        )?;
        object.only("truncate", &Value::from(false))?;
        for key in ["attention_factor", "mscale", "mscale_all_dim"] {
            if let Some(value) = object.find(key) {
                let expected = "no such key, since gpt-oss scales by 0.1 ln(factor) + 1";
                return Err(object.fault(key, shortened(value), expected));
            }
        }
        let context = "original_max_position_embeddings";
        let context = match object.find(context) {
            Some(_) => object.count(&[context], MOST_POSITIONS)?,
            None => fields.count(&["initial_context_length"], MOST_POSITIONS)?,
        };
        yarn(object, ["factor", "beta_fast", "beta_slow"], context)
    }

    /// The context is what YaRN extends the initial one to.
    fn original(fields: &Fields) -> Result<Self, Error> {
        let keys = ["rope_scaling_factor", "rope_ntk_beta", "rope_ntk_alpha"];
        let context = fields.count(&["initial_context_length"], MOST_POSITIONS)?;
        let scaling = yarn(fields, keys, context)?;
        let context = context as f64 * scaling.factor;
        fields.rule(
            context <= MOST_POSITIONS as f64,
            "rope_scaling_factor",
            scaling.factor,
            format!("at most {MOST_POSITIONS} positions in all"),
        )?;
        Ok(Self {
            theta: fields.number("rope_theta")?,
            scaling,
            max_position_embeddings: context as usize,
        })
    }
}

/// The three numbers of YaRN under the names they have in `fields`: factor, beta_fast, beta_slow.
fn yarn(
    fields: &Fields,
    keys: [&str; 3],
    original_max_position_embeddings: usize,
) -> Result<RopeScaling, Error> {
    let [factor, beta_fast, beta_slow] = keys.map(|key| fields.number(key));
    let (factor, beta_fast, beta_slow) = (factor?, beta_fast?, beta_slow?);
    fields.rule(factor >= 1.0, keys[0], factor, "at least 1")?;
    fields.rule(beta_slow > 0.0, keys[2], beta_slow, "a positive number")?;
    fields.rule(
        beta_fast > beta_slow,
        keys[1],
        beta_fast,
        format!("more than `{}`, which is {beta_slow}", keys[2]),
    )?;
    Ok(RopeScaling {
        factor,
        beta_fast,
        beta_slow,
        original_max_position_embeddings,
    })
}

/// Ids that end generation: `eos_token_id` of generation_config.json or config.json, a number or a list.
/// Empty where the file has none.
pub(super) fn eos_token_ids(
    path: &Path,
    text: &[u8],
    vocab_size: usize,
) -> Result<Vec<u32>, Error> {
    let object = parse(path, text)?;
    let fields = Fields::of(path, &object);
    let Some(value) = fields.find("eos_token_id") else {
        return Ok(Vec::new());
    };
    let ids = match value {
        Value::Array(ids) => ids.as_slice(),
        id => std::slice::from_ref(id),
    };
    ids.iter()
        .map(|id| {
            id.as_u64()
                .filter(|&id| id < vocab_size as u64)
                .map(|id| id as u32)
                .ok_or_else(|| {
                    let expected = format!("token ids below vocab_size, which is {vocab_size}");
                    fields.fault("eos_token_id", shortened(value), expected)
                })
        })
        .collect()
}

fn layer_types(fields: &Fields) -> Result<Vec<LayerType>, Error> {
    let key = "layer_types";
    let expected = "a list of \"sliding_attention\" and \"full_attention\", one per layer";
    match fields.find(key) {
        None => Err(fields.fault(key, "missing", expected)),
        Some(Value::Array(names)) => names
            .iter()
            .map(|name| match name.as_str() {
                Some("sliding_attention") => Ok(LayerType::Sliding),
                Some("full_attention") => Ok(LayerType::Full),
                _ => Err(fields.fault(key, shortened(name), expected)),
            })
            .collect(),
        Some(other) => Err(fields.fault(key, shortened(other), expected)),
    }
}

#[cfg(test)]
mod tests;
