//! Function tools and their TypeScript form.

mod typescript;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A function the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The name within its namespace.
    pub name: String,
    /// What it does; may have several lines.
    pub description: String,
    /// A JSON schema, its properties in order.
    pub parameters: Option<Value>,
}

/// Tools under one name: `functions` for the caller's, `browser`, `python`, ...
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolNamespace {
    /// The prefix of its tools' names.
    pub name: String,
    /// What the namespace is for; may have several lines.
    pub description: Option<String>,
    /// A namespace without functions is described in plain text (`python`).
    pub tools: Vec<Tool>,
}

/// Why a list of tools cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ToolError {
    /// Not JSON at all.
    #[error("the tools are not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but no list.
    #[error(
        "the tools must be a JSON list such as [{{\"type\": \"function\", \"function\": {{\"name\": ...}}}}], found {found}"
    )]
    NotAList { found: String },
    /// A field of an entry is missing or wrong.
    #[error("tool {index}: `{field}` must be {expected}, found {found}")]
    Field {
        /// Counted from 0, as in the file.
        index: usize,
        field: String,
        expected: &'static str,
        found: String,
    },
    /// Two entries of one name.
    #[error("tool {index}: the name `{name}` is taken by an earlier tool")]
    Duplicate { index: usize, name: String },
}

/// Reads a list of function tools: `{"type": "function", "function": {"name", "description",
/// "parameters"}}` as in OpenAI's chat API, the same without the inner object as in its responses
/// API, or `{"name", "description", "parameters"}` alone.
///
/// # Errors
/// Names the entry by its index (from 0), the field, what was expected and what was found.
pub fn parse_tools(json: &str) -> Result<Vec<Tool>, ToolError> {
    let list: Value = serde_json::from_str(json)?;
    let Value::Array(entries) = list else {
        let found = brief(&list);
        return Err(ToolError::NotAList { found });
    };
    let mut names = HashSet::new();
    let mut tools = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let tool = Entry { index, prefix: "" }.tool(entry)?;
        if !names.insert(tool.name.clone()) {
            let name = tool.name;
            return Err(ToolError::Duplicate { index, name });
        }
        tools.push(tool);
    }
    Ok(tools)
}

/// Where in the list an error is.
#[derive(Clone, Copy)]
struct Entry {
    index: usize,
    prefix: &'static str,
}

impl Entry {
    fn error(self, field: &str, expected: &'static str, found: Option<&Value>) -> ToolError {
        ToolError::Field {
            index: self.index,
            field: format!("{}{field}", self.prefix),
            expected,
            found: found.map_or("nothing".to_owned(), brief),
        }
    }

    fn tool(self, entry: &Value) -> Result<Tool, ToolError> {
        let Some(fields) = entry.as_object() else {
            return Err(ToolError::Field {
                index: self.index,
                field: "entry".to_owned(),
                expected: "an object",
                found: brief(entry),
            });
        };
        if let Some(kind) = fields.get("type")
            && kind != "function"
        {
            return Err(self.error("type", "\"function\"", Some(kind)));
        }
        match fields.get("function") {
            None => self.function(fields),
            Some(Value::Object(function)) => Self {
                prefix: "function.",
                ..self
            }
            .function(function),
            Some(other) => Err(self.error("function", "an object", Some(other))),
        }
    }

    fn function(self, fields: &Map<String, Value>) -> Result<Tool, ToolError> {
        const NAME: &str = "a string of letters, digits, `_`, `-` and `.`";
        let name = match fields.get("name") {
            Some(Value::String(name)) if is_name(name) => name.clone(),
            other => return Err(self.error("name", NAME, other)),
        };
        let description = match fields.get("description") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            other => return Err(self.error("description", "a string", other)),
        };
        let parameters = match fields.get("parameters") {
            None | Some(Value::Null) => None,
            Some(schema @ Value::Object(_)) => Some(schema.clone()),
            other => return Err(self.error("parameters", "an object (a JSON schema)", other)),
        };
        Ok(Tool {
            name,
            description,
            parameters,
        })
    }
}

/// Header words end at white space, so a name with any could not be called.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(allowed)
}

/// A value for a message: short ones as they are, long ones by what they are.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().count() > 40 => "a long string".to_owned(),
        short => short.to_string(),
    }
}

/// The `# Tools` section: each namespace with its functions as TypeScript types.
pub(super) fn tools_section<'a>(namespaces: impl IntoIterator<Item = &'a ToolNamespace>) -> String {
    let mut sections = vec!["# Tools".to_owned()];
    for namespace in namespaces {
        let mut lines = vec![format!("## {}\n", namespace.name)];
        let comment = if namespace.tools.is_empty() {
            ""
        } else {
            "// "
        };
        for line in namespace.description.iter().flat_map(|text| text.lines()) {
            lines.push(format!("{comment}{line}"));
        }
        if !namespace.tools.is_empty() {
            lines.push(format!("namespace {} {{\n", namespace.name));
            for tool in &namespace.tools {
                lines.extend(tool.description.lines().map(|line| format!("// {line}")));
                let parameters = tool.parameters.as_ref();
                let arguments = parameters.map_or(String::new(), |schema| {
                    format!("_: {}", typescript::type_of(schema))
                });
                lines.push(format!("type {} = ({arguments}) => any;\n", tool.name));
            }
            lines.push(format!("}} // namespace {}", namespace.name));
        }
        sections.push(lines.join("\n"));
    }
    sections.join("\n\n")
}

#[cfg(test)]
mod tests;
