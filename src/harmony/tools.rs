//! Function tools and their TypeScript form.

/// A function the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// A JSON schema, its properties in order.
    pub parameters: Option<serde_json::Value>,
}
