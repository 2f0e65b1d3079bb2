//! Tool definitions in JSON, and their TypeScript in the developer message.

#![no_main]

use gptoss::harmony::{Conversation, DeveloperContent, Message, parse_tools, render};
use gptoss::{count, is_special, tiny};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use std::collections::HashSet;

fuzz_target!(|text: &str| {
    let tools = match parse_tools(text) {
        Ok(tools) => tools,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let names: HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names.len(), tools.len());
    let entries = tools.iter().map(|tool| {
        json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
    });
    let again = parse_tools(&entries.collect::<serde_json::Value>().to_string());
    assert_eq!(again.expect("what was read can be written"), tools);

    let tokenizer = tiny();
    let developer = DeveloperContent { tools: Some(tools.clone()), ..DeveloperContent::default() };
    let ids = render(&Conversation::from(vec![Message::developer(developer)]), &tokenizer);
    // start, message, end; and the assistant's start.
    assert_eq!(ids.iter().filter(|&&id| is_special(id)).count(), 4);
    assert_eq!(count(&ids, tokenizer.special().start), 2);

    let section = tokenizer.decode(&ids);
    for tool in &tools {
        assert!(section.contains(&format!("type {} = (", tool.name)), "{section}");
    }
    // Indents grow with the depth, which is bounded; descriptions of variants are said twice at most.
    assert!(section.len() <= 500 + 200 * text.len(), "{} of {}", section.len(), text.len());
});
