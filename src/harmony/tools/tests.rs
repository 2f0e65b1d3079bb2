use super::{Tool, ToolNamespace, parse_tools, tools_section};
use serde_json::{Value, json};

fn error(tools: &Value) -> String {
    parse_tools(&tools.to_string()).unwrap_err().to_string()
}

/// A function whose parameters are `schema`, as the prompt has it.
fn rendered(schema: Value) -> String {
    let tool = Tool {
        name: "f".to_owned(),
        description: String::new(),
        parameters: Some(schema),
    };
    let section = tools_section([&ToolNamespace {
        name: "functions".to_owned(),
        description: None,
        tools: vec![tool],
    }]);
    let start = section.find("type f = ").unwrap();
    let end = section.find("\n\n} // namespace").unwrap();
    section[start..end].to_owned()
}

#[test]
fn reads_tools_in_all_usual_forms() {
    let schema = json!({"type": "object", "properties": {"z": {}, "a": {}}});
    let function = json!({"name": "f", "description": "Does.", "parameters": schema});
    let mut flat = function.clone();
    flat["type"] = json!("function");
    flat["strict"] = json!(true);
    let expected = Tool {
        name: "f".to_owned(),
        description: "Does.".to_owned(),
        parameters: Some(schema),
    };
    for entry in [
        json!({"type": "function", "function": function}),
        json!({"function": function}),
        flat,
        function.clone(),
    ] {
        let tools = parse_tools(&json!([entry]).to_string()).unwrap();
        assert_eq!(tools, std::slice::from_ref(&expected));
    }
    assert_eq!(parse_tools("[]").unwrap(), []);
}

#[test]
fn a_tool_needs_only_a_name() {
    let tools = parse_tools(r#"[{"name": "f", "description": null, "parameters": null}]"#);
    let expected = Tool {
        name: "f".to_owned(),
        description: String::new(),
        parameters: None,
    };
    assert_eq!(tools.unwrap(), [expected]);
}

#[test]
fn errors_name_the_entry_the_field_and_what_was_found() {
    let good = json!({"name": "good"});
    for (entry, expected) in [
        (json!(7), "tool 1: `entry` must be an object, found 7"),
        (
            json!({"type": "web_search"}),
            "tool 1: `type` must be \"function\", found \"web_search\"",
        ),
        (
            json!({"type": "function", "function": "f"}),
            "tool 1: `function` must be an object, found \"f\"",
        ),
        (
            json!({"type": "function", "function": {"description": "d"}}),
            "tool 1: `function.name` must be a string of letters, digits, `_`, `-` and `.`, found nothing",
        ),
        (
            json!({"name": "get weather"}),
            "tool 1: `name` must be a string of letters, digits, `_`, `-` and `.`, found \"get weather\"",
        ),
        (
            json!({"name": "f", "description": ["d"]}),
            "tool 1: `description` must be a string, found a list",
        ),
        (
            json!({"name": "f", "parameters": "none"}),
            "tool 1: `parameters` must be an object (a JSON schema), found \"none\"",
        ),
        (
            good.clone(),
            "tool 1: the name `good` is taken by an earlier tool",
        ),
    ] {
        assert_eq!(error(&json!([good, entry])), expected);
    }
    assert!(error(&json!({"name": "f"})).ends_with("found an object"));
    let error = parse_tools("[{]").unwrap_err().to_string();
    assert_eq!(
        error,
        "the tools are not valid JSON: key must be a string at line 1 column 3"
    );
}

#[test]
fn nested_objects_and_lists_are_indented_as_in_training() {
    let schema = json!({"type": "object", "properties": {
        "outer": {"type": "object", "properties": {
            "inner": {"type": "array", "items": {"type": "object", "properties": {
                "leaf": {"type": "string", "enum": ["a", "b"], "default": "a"}
            }}}
        }, "required": ["inner"]}
    }});
    assert_eq!(
        rendered(schema),
        "\
type f = (_: {
outer?: {
    inner: {
        leaf?: \"a\" | \"b\", // default: a
        }[],
    },
}) => any;"
    );
}

#[test]
fn variants_have_a_line_each_with_their_comments() {
    let schema = json!({"type": "object", "properties": {
        "size": {"description": "How big", "default": 1, "oneOf": [
            {"type": "string", "description": "How big"},
            {"type": "integer", "description": "Centimetres", "default": 1, "nullable": true},
        ]},
    }});
    assert_eq!(
        rendered(schema),
        "\
type f = (_: {
// default: 1
size?:
 | string
 | number | null // Centimetres default: 1
,
}) => any;"
    );
    let schema = json!({"oneOf": [{"type": "string", "default": "x"}, {"type": "null"}]});
    assert_eq!(
        rendered(schema),
        "type f = (_: \n | string // default: \"x\"\n | any) => any;"
    );
}

#[test]
fn a_schema_of_odd_types_is_any_and_never_an_error() {
    for schema in [
        json!({}),
        json!({"type": 7, "properties": []}),
        json!({"type": ["x", 1], "oneOf": "no"}),
        json!({"type": "object", "properties": {"a": 1, "b": {"type": {}}}, "required": "a"}),
        json!({"type": "object", "properties": {"a": {"oneOf": 1, "default": 2}}}),
        json!({"type": "array", "items": [1, 2]}),
        json!({"type": "string", "enum": [1, null]}),
        json!({"oneOf": []}),
    ] {
        assert!(rendered(schema).starts_with("type f = (_: "));
    }
}

#[test]
fn a_schema_without_end_is_cut() {
    let mut list = json!({"type": "string"});
    let mut object = json!({"type": "string"});
    for _ in 0..500 {
        list = json!({"type": "array", "items": list});
        object = json!({"type": "object", "properties": {"p": object}});
    }
    assert!(rendered(list).starts_with("type f = (_: any[][]"));
    assert!(rendered(object).contains("p?: any,"));
    let deep = "[".repeat(100_000);
    assert!(parse_tools(&deep).is_err());
}
