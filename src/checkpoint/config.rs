//! config.json in its published forms.

use std::path::Path;

use serde_json::{Map, Value};

use super::error::Error;

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
                Form::HuggingFace => fields.layer_types()?,
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
        let yarn = &self.rope_scaling;
        fields.rule(
            yarn.factor >= 1.0,
            "YaRN's factor",
            yarn.factor,
            "at least 1",
        )?;
        fields.rule(
            yarn.beta_slow > 0.0,
            "YaRN's beta_slow",
            yarn.beta_slow,
            "a positive number",
        )?;
        fields.rule(
            yarn.beta_fast > yarn.beta_slow,
            "YaRN's beta_fast",
            yarn.beta_fast,
            format!("more than beta_slow, which is {}", yarn.beta_slow),
        )
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
        let named = model_type.is_none_or(|value| value == "gpt_oss")
            && architectures.is_none_or(|value| {
                value
                    .as_array()
                    .is_some_and(|list| list.iter().any(|name| name == "GptOssForCausalLM"))
            });
        if !named {
            let found = architectures
                .or(model_type)
                .map(shortened)
                .unwrap_or_default();
            return Err(Error::Architecture {
                path: fields.path.to_owned(),
                found,
            });
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
        let scaling = object.yarn(fields)?;
        if let (Some(old), Some(_)) = (&old, &new) {
            let expected = "what `rope_parameters` says";
            fields.rule(
                old.yarn(fields)? == scaling,
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
                    format!("{inner}, as within `{}`", object.prefix),
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

    /// The context is what YaRN extends the initial one to.
    fn original(fields: &Fields) -> Result<Self, Error> {
        let scaling = RopeScaling {
            factor: fields.number("rope_scaling_factor")?,
            beta_fast: fields.number("rope_ntk_beta")?,
            beta_slow: fields.number("rope_ntk_alpha")?,
            original_max_position_embeddings: fields
                .count(&["initial_context_length"], MOST_POSITIONS)?,
        };
        let context = scaling.original_max_position_embeddings as f64 * scaling.factor;
        fields.rule(
            (1.0..=MOST_POSITIONS as f64).contains(&context),
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

fn parse(path: &Path, text: &[u8]) -> Result<Map<String, Value>, Error> {
    serde_json::from_slice(text).map_err(|reason| Error::Json {
        path: path.to_owned(),
        reason,
    })
}

/// A JSON value for a message, however long it is.
fn shortened(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The entries of one JSON object, taken out with errors that name file and key. `null` counts as absent.
struct Fields<'a> {
    path: &'a Path,
    /// Where the object is within the file: empty, or `rope_scaling.`
    prefix: String,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(path: &'a Path, object: &'a Map<String, Value>) -> Self {
        Self {
            path,
            prefix: String::new(),
            object,
        }
    }

    fn find(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn fault(&self, key: &str, found: impl ToString, expected: impl Into<String>) -> Error {
        Error::Config {
            path: self.path.to_owned(),
            key: format!("{}{key}", self.prefix),
            found: found.to_string(),
            expected: expected.into(),
        }
    }

    fn rule(
        &self,
        holds: bool,
        key: &str,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> Result<(), Error> {
        if holds {
            Ok(())
        } else {
            Err(self.fault(key, found, expected))
        }
    }

    /// Refuses any other value than `expected`; the key may be absent.
    fn only(&self, key: &str, expected: &Value) -> Result<(), Error> {
        match self.find(key) {
            Some(value) if value != expected => {
                Err(self.fault(key, shortened(value), expected.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// A number from 1 to `most` that goes by any of `keys`; where it is given twice, both must agree.
    fn count(&self, keys: &[&str], most: usize) -> Result<usize, Error> {
        let expected = || format!("a whole number from 1 to {most}");
        let mut given = keys.iter().filter_map(|&key| Some((key, self.find(key)?)));
        let (key, value) = given
            .next()
            .ok_or_else(|| self.fault(keys[0], "missing", expected()))?;
        if let Some((other, different)) = given.find(|(_, other)| *other != value) {
            let expected = format!("{}, as `{key}`", shortened(value));
            return Err(self.fault(other, shortened(different), expected));
        }
        value
            .as_u64()
            .filter(|n| (1..=most as u64).contains(n))
            .map(|n| n as usize)
            .ok_or_else(|| self.fault(key, shortened(value), expected()))
    }

    fn number(&self, key: &str) -> Result<f64, Error> {
        self.optional_number(key)?
            .ok_or_else(|| self.fault(key, "missing", "a number"))
    }

    fn optional_number(&self, key: &str) -> Result<Option<f64>, Error> {
        let number = |value: &Value| {
            value
                .as_f64()
                .filter(|number| number.is_finite())
                .ok_or_else(|| self.fault(key, shortened(value), "a number"))
        };
        self.find(key).map(number).transpose()
    }

    fn object(&self, key: &str) -> Result<Option<Self>, Error> {
        let object = |value: &'a Value| match value {
            Value::Object(object) => Ok(Self {
                path: self.path,
                prefix: format!("{}{key}.", self.prefix),
                object,
            }),
            other => Err(self.fault(key, shortened(other), "an object")),
        };
        self.find(key).map(object).transpose()
    }

    fn layer_types(&self) -> Result<Vec<LayerType>, Error> {
        let expected = "a list of \"sliding_attention\" and \"full_attention\", one per layer";
        match self.find("layer_types") {
            None => Err(self.fault("layer_types", "missing", expected)),
            Some(Value::Array(names)) => names
                .iter()
                .map(|name| match name.as_str() {
                    Some("sliding_attention") => Ok(LayerType::Sliding),
                    Some("full_attention") => Ok(LayerType::Full),
                    _ => Err(self.fault("layer_types", shortened(name), expected)),
                })
                .collect(),
            Some(other) => Err(self.fault("layer_types", shortened(other), expected)),
        }
    }

    /// `self` is `rope_scaling` or `rope_parameters` of `config`.
    fn yarn(&self, config: &Self) -> Result<RopeScaling, Error> {
        let kind = if self.find("rope_type").is_some() {
            "rope_type"
        } else {
            "type"
        };
        let found = self.find(kind).map_or_else(|| "missing".into(), shortened);
        self.rule(
            self.find(kind).is_some_and(|kind| kind == "yarn"),
            "rope_type",
            found,
            "\"yarn\"",
        )?;
        // transformers rounds YaRN's range where the key is absent; every published file has it, as false.
        self.only("truncate", &Value::from(false))?;
        for key in ["attention_factor", "mscale", "mscale_all_dim"] {
            if let Some(value) = self.find(key) {
                return Err(self.fault(
                    key,
                    shortened(value),
                    "no such key, gpt-oss scales by 0.1 ln(factor) + 1",
                ));
            }
        }
        let original = "original_max_position_embeddings";
        Ok(RopeScaling {
            factor: self.number("factor")?,
            beta_fast: self.number("beta_fast")?,
            beta_slow: self.number("beta_slow")?,
            original_max_position_embeddings: if self.find(original).is_some() {
                self.count(&[original], MOST_POSITIONS)?
            } else {
                config.count(&["initial_context_length"], MOST_POSITIONS)?
            },
        })
    }
}
