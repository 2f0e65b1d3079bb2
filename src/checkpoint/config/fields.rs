//! The entries of a JSON object, taken out with errors that name file and key.

use std::path::Path;

use serde_json::{Map, Value};

use crate::checkpoint::error::Error;

pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Map<String, Value>, Error> {
    serde_json::from_slice(text).map_err(|reason| Error::Json {
        path: path.to_owned(),
        reason,
    })
}

/// A JSON value for a message, however long it is.
pub(super) fn shortened(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// One JSON object. `null` counts as absent.
pub(super) struct Fields<'a> {
    pub path: &'a Path,
    /// Where the object is within the file: empty, or `rope_scaling.`
    pub prefix: String,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub fn of(path: &'a Path, object: &'a Map<String, Value>) -> Self {
        Self {
            path,
            prefix: String::new(),
            object,
        }
    }

    pub fn find(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub fn fault(&self, key: &str, found: impl ToString, expected: impl Into<String>) -> Error {
        Error::Config {
            path: self.path.to_owned(),
            key: format!("{}{key}", self.prefix),
            found: found.to_string(),
            expected: expected.into(),
        }
    }

    pub fn architecture(&self, found: Option<&Value>) -> Error {
        let found = found.map(shortened).unwrap_or_default();
        Error::Architecture {
            path: self.path.to_owned(),
            found: found.trim_matches('"').to_owned(),
        }
    }

    pub fn rule(
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
    pub fn only(&self, key: &str, expected: &Value) -> Result<(), Error> {
        match self.find(key) {
            Some(value) if value != expected => {
                Err(self.fault(key, shortened(value), expected.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// A number from 1 to `most` that goes by any of `keys`; where it is given twice, both must agree.
    pub fn count(&self, keys: &[&str], most: usize) -> Result<usize, Error> {
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

    pub fn number(&self, key: &str) -> Result<f64, Error> {
        self.optional_number(key)?
            .ok_or_else(|| self.fault(key, "missing", "a number"))
    }

    pub fn optional_number(&self, key: &str) -> Result<Option<f64>, Error> {
        let number = |value: &Value| {
            value
                .as_f64()
                .filter(|number| number.is_finite())
                .ok_or_else(|| self.fault(key, shortened(value), "a number"))
        };
        self.find(key).map(number).transpose()
    }

    pub fn object(&self, key: &str) -> Result<Option<Self>, Error> {
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
}
