//! The configuration file: TOML, one flat table of settings.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::{Spanned, Value as Toml};

use super::given::Value;
use super::{Config, Error, Given};

/// Reads every setting of a file, in the order of its lines.
pub(super) fn read(config: Config) -> Result<Given, Error> {
    let error = |span: Option<Range<usize>>, problem: String| Error::Config {
        path: config.path.to_owned(),
        line: line(config.text, span.map_or(0, |span| span.start)),
        problem,
    };
    let table: BTreeMap<Spanned<String>, Toml> = toml::from_str(config.text).map_err(|reason| {
        let span = reason.span();
        error(
            span.clone(),
            problem(&reason, span.and_then(|span| config.text.get(span))),
        )
    })?;
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut given = Given::default();
    for (key, value) in entries {
        let span = key.span();
        given
            .set(key.get_ref(), value.into())
            .map_err(|problem| error(Some(span), problem))?;
    }
    Ok(given)
}

/// What the parser says, and of what, where that is short.
fn problem(reason: &toml::de::Error, of: Option<&str>) -> String {
    let message = reason.message();
    match of.map(str::trim) {
        Some(of) if (1..=40).contains(&of.len()) && !of.contains('\n') => {
            format!("{message}: `{of}`")
        }
        _ => message.to_owned(),
    }
}

/// The line of a byte, counted from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

impl From<Toml> for Value {
    fn from(value: Toml) -> Self {
        match value {
            Toml::String(text) => Self::Text(text),
            Toml::Integer(number) => Self::Literal(number.to_string()),
            Toml::Float(number) => Self::Literal(number.to_string()),
            Toml::Boolean(switch) => Self::Literal(switch.to_string()),
            Toml::Datetime(date) => Self::Literal(date.to_string()),
            Toml::Array(_) => Self::Other("a list"),
            Toml::Table(_) => Self::Other("a table"),
        }
    }
}
