//! JSON schema to the TypeScript types the model was trained with.
//!
//! Line breaks, indents and comments are those of openai-harmony, oddities included: what the
//! model saw in training is right, not what is tidy.

use serde_json::Value;
use std::fmt::Write;

/// How deep a schema is followed; what lies deeper is `any`.
const MAX_DEPTH: usize = 32;

/// The type of a value that satisfies `schema`.
pub(super) fn type_of(schema: &Value) -> String {
    let mut text = String::new();
    Writer { depth: 0 }.type_of(schema, "", &mut text);
    text
}

#[derive(Clone, Copy)]
struct Writer {
    depth: usize,
}

impl Writer {
    fn type_of(self, schema: &Value, indent: &str, out: &mut String) {
        if self.depth == MAX_DEPTH {
            out.push_str("any");
            return;
        }
        let deeper = Self {
            depth: self.depth + 1,
        };
        if let Some(variants) = list(schema, "oneOf") {
            for variant in variants {
                line(out, format_args!("\n{indent} | "));
                deeper.nullable_type(variant, &format!("{indent}   "), out);
                let description = string(variant, "description").map(str::to_owned);
                // Unlike elsewhere, the default of an enum keeps its quotes here.
                let default = variant.get("default").map(|default| match default {
                    Value::String(text) => format!("default: \"{text}\""),
                    other => format!("default: {other}"),
                });
                trailing_comment(out, description.into_iter().chain(default));
            }
            return;
        }
        if let Some(types) = list(schema, "type") {
            let names: Vec<_> = types.iter().filter_map(Value::as_str).collect();
            if !names.is_empty() {
                let names = names.into_iter().map(|name| match name {
                    "integer" => "number",
                    other => other,
                });
                out.push_str(&names.collect::<Vec<_>>().join(" | "));
                return;
            }
        }
        match string(schema, "type") {
            Some("object") => deeper.object(schema, indent, out),
            Some("string") => match enum_values(schema) {
                Some(values) => out.push_str(&values),
                None => out.push_str("string"),
            },
            Some("number" | "integer") => out.push_str("number"),
            Some("boolean") => out.push_str("boolean"),
            Some("array") => match schema.get("items") {
                Some(items) => {
                    deeper.type_of(items, indent, out);
                    out.push_str("[]");
                }
                None => out.push_str("Array<any>"),
            },
            _ => out.push_str("any"),
        }
    }

    fn nullable_type(self, schema: &Value, indent: &str, out: &mut String) {
        let from = out.len();
        self.type_of(schema, indent, out);
        let nullable = schema.get("nullable").and_then(Value::as_bool);
        if nullable == Some(true) && !out.get(from..).is_some_and(|text| text.contains("null")) {
            out.push_str(" | null");
        }
    }

    fn object(self, schema: &Value, indent: &str, out: &mut String) {
        if let Some(description) = string(schema, "description") {
            line(out, format_args!("{indent}// {description}\n"));
        }
        out.push_str("{\n");
        let required = list(schema, "required").unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let optional = if required.iter().any(|r| r == name) {
                ""
            } else {
                "?"
            };
            self.property(&format!("{name}{optional}"), property, indent, out);
        }
        line(out, format_args!("{indent}}}"));
    }

    fn property(self, name: &str, property: &Value, indent: &str, out: &mut String) {
        if let Some(title) = string(property, "title") {
            line(out, format_args!("{indent}// {title}\n{indent}//\n"));
        }
        let description = string(property, "description");
        if property.get("oneOf").is_none()
            && let Some(description) = description
        {
            line(out, format_args!("{indent}// {description}\n"));
        }
        if let Some(examples) = list(property, "examples")
            && !examples.is_empty()
        {
            line(out, format_args!("{indent}// Examples:\n"));
            for example in examples.iter().filter_map(Value::as_str) {
                line(out, format_args!("{indent}// - \"{example}\"\n"));
            }
        }
        if let Some(variants) = list(property, "oneOf") {
            self.one_of(name, property, variants, indent, out);
            return;
        }
        line(out, format_args!("{indent}{name}: "));
        self.nullable_type(property, &format!("{indent}    "), out);
        out.push(',');
        if property.get("oneOf").is_none() {
            trailing_comment(out, default_of(property));
        }
        out.push('\n');
    }

    /// A property of several types: one line for each.
    fn one_of(
        self,
        name: &str,
        property: &Value,
        variants: &[Value],
        indent: &str,
        out: &mut String,
    ) {
        let description = string(property, "description");
        let first = variants.first().and_then(|v| string(v, "description"));
        // A description that the first variant repeats is said there, the others' beside them.
        let above = description.filter(|_| description != first);
        if let Some(description) = above {
            line(out, format_args!("{indent}// {description}\n"));
        }
        if let Some(default) = default_of(property) {
            line(out, format_args!("{indent}// {default}\n"));
        }
        line(out, format_args!("{indent}{name}:\n"));
        for (index, variant) in variants.iter().enumerate() {
            line(out, format_args!("{indent} | "));
            self.nullable_type(variant, &format!("{indent}   "), out);
            let beside = string(variant, "description")
                .filter(|&own| Some(own) != description && !(index == 0 && above.is_some()))
                .map(str::to_owned);
            trailing_comment(out, beside.into_iter().chain(default_of(variant)));
            out.push('\n');
        }
        line(out, format_args!("{indent},\n"));
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all text");
}

fn trailing_comment(out: &mut String, parts: impl IntoIterator<Item = String>) {
    let parts: Vec<_> = parts.into_iter().collect();
    if !parts.is_empty() {
        line(out, format_args!(" // {}", parts.join(" ")));
    }
}

fn string<'a>(schema: &'a Value, key: &str) -> Option<&'a str> {
    schema.get(key).and_then(Value::as_str)
}

fn list<'a>(schema: &'a Value, key: &str) -> Option<&'a [Value]> {
    schema.get(key).and_then(Value::as_array).map(Vec::as_slice)
}

/// `"a" | "b"`; `None` if no string is among the values.
fn enum_values(schema: &Value) -> Option<String> {
    let values: Vec<_> = list(schema, "enum")?
        .iter()
        .filter_map(Value::as_str)
        .map(|value| format!("\"{value}\""))
        .collect();
    (!values.is_empty()).then(|| values.join(" | "))
}

/// `default: ...`; a string has quotes unless it is a value of an enum.
fn default_of(schema: &Value) -> Option<String> {
    let is_enum = list(schema, "enum").is_some_and(|values| !values.is_empty());
    Some(match schema.get("default")? {
        Value::String(text) if is_enum => format!("default: {text}"),
        Value::String(text) => format!("default: \"{text}\""),
        other => format!("default: {other}"),
    })
}
