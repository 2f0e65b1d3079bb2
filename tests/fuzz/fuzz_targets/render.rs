//! Conversations to token ids: every control token in them is the renderer's, and no content is lost.

#![no_main]

use gptoss::harmony::message::Channels;
use gptoss::harmony::{
    Content, Conversation, DeveloperContent, Message, Reasoning, RenderOptions, Role, SystemContent, Tool,
    ToolNamespace, parse, render, render_with,
};
use gptoss::{count, is_special, tiny};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fn text(input: &mut Unstructured) -> Result<String> {
    input.arbitrary()
}

fn maybe<'a, T>(
    input: &mut Unstructured<'a>,
    make: fn(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Option<T>> {
    if input.arbitrary()? { make(input).map(Some) } else { Ok(None) }
}

fn several<'a, T>(
    input: &mut Unstructured<'a>,
    most: usize,
    make: fn(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..input.int_in_range(0..=most)?).map(|_| make(input)).collect()
}

fn tool(input: &mut Unstructured) -> Result<Tool> {
    let parameters = text(input)?;
    Ok(Tool {
        name: text(input)?,
        description: text(input)?,
        parameters: serde_json::from_str(&parameters).ok(),
    })
}

fn namespace(input: &mut Unstructured) -> Result<ToolNamespace> {
    let name = if input.arbitrary()? { "functions".to_owned() } else { text(input)? };
    Ok(ToolNamespace {
        name,
        description: maybe(input, text)?,
        tools: several(input, 3, tool)?,
    })
}

fn channels(input: &mut Unstructured) -> Result<Channels> {
    Ok(Channels {
        names: several(input, 3, text)?,
        required: input.arbitrary()?,
    })
}

fn content(input: &mut Unstructured) -> Result<Content> {
    Ok(match input.int_in_range(0..=5)? {
        0 => Content::System(SystemContent {
            identity: maybe(input, text)?,
            knowledge_cutoff: maybe(input, text)?,
            date: maybe(input, text)?,
            reasoning: maybe(input, |input| input.choose(&Reasoning::ALL).copied())?,
            tools: several(input, 2, namespace)?,
            channels: maybe(input, channels)?,
        }),
        1 => Content::Developer(DeveloperContent {
            instructions: maybe(input, text)?,
            tools: maybe(input, |input| several(input, 3, tool))?,
            namespaces: several(input, 2, namespace)?,
        }),
        _ => Content::Text(text(input)?),
    })
}

fn word(input: &mut Unstructured) -> Result<String> {
    const USUAL: [&str; 8] = [
        "analysis",
        "commentary",
        "final",
        "functions.f",
        "all",
        "assistant",
        "json",
        "<|constrain|>json",
    ];
    if input.arbitrary()? { input.choose(&USUAL).map(|&word| word.to_owned()) } else { text(input) }
}

fn message(input: &mut Unstructured) -> Result<Message> {
    const ROLES: [Role; 5] = [Role::System, Role::Developer, Role::User, Role::Assistant, Role::Tool];
    Ok(Message {
        role: *input.choose(&ROLES)?,
        name: maybe(input, word)?,
        channel: maybe(input, word)?,
        recipient: maybe(input, word)?,
        content_type: maybe(input, word)?,
        content: several(input, 3, content)?,
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let Ok(messages) = several(&mut input, 8, message) else {
        return;
    };
    let tokenizer = tiny();
    let special = tokenizer.special();
    let number = messages.len();
    let with_channel = messages.iter().filter(|message| message.channel.is_some()).count();
    let constrains = |message: &&Message| {
        message.content_type.as_ref().is_some_and(|kind| kind.starts_with("<|constrain|>"))
    };
    let constrained = messages.iter().filter(constrains).count();
    let texts: Vec<String> = messages.iter().map(|message| message.text().into_owned()).collect();
    let structured = |message: &Message| message.content.iter().any(|part| !matches!(part, Content::Text(_)));
    let all_text = !messages.iter().any(structured);
    let conversation = Conversation::from(messages);

    let whole = RenderOptions { keep_analysis: true, open_assistant: false };
    let ids = render_with(&conversation, &tokenizer, whole);
    assert_eq!(count(&ids, special.start), number);
    assert_eq!(count(&ids, special.message), number);
    assert_eq!(count(&ids, special.channel), with_channel);
    assert_eq!(count(&ids, special.constrain), constrained);
    assert_eq!(count(&ids, special.end) + count(&ids, special.call), number);
    let others = 3 * number + with_channel + constrained;
    assert_eq!(ids.iter().filter(|&&id| is_special(id)).count(), others);

    let opened = render_with(&conversation, &tokenizer, RenderOptions { open_assistant: true, ..whole });
    let opening = [&[special.start], &tokenizer.encode("assistant")[..]].concat();
    assert_eq!(opened, [ids.clone(), opening.clone()].concat());

    // What is left out are whole messages.
    let prompt = render(&conversation, &tokenizer);
    assert_eq!(count(&prompt, special.return_), 0);
    assert!(prompt.ends_with(&opening));
    let rendered = count(&prompt, special.message);
    assert!(rendered <= number);
    assert_eq!(count(&prompt, special.start), rendered + 1);
    assert_eq!(count(&prompt, special.end) + count(&prompt, special.call), rendered);

    // Strange headers may read as something else, but every content is found again.
    if all_text {
        let mut read = parse(&tokenizer, &ids).into_iter();
        for text in texts {
            assert!(read.any(|message| message.text() == text), "{text:?} of {}", tokenizer.decode(&ids));
        }
    }
});
