use super::super::message::Kind;
use super::super::testing::{ids, tiny};
use super::super::{Content, Conversation, Message, RenderOptions, Role, render_with};
use super::{Event, MAX_HEADER, Parser, parse};
use crate::tokenizer::Tokenizer;
use proptest::prelude::*;
use std::sync::Arc;

fn read(markup: &str) -> Vec<Message> {
    parse(&tiny(), &ids(markup))
}

/// Kind and text of each message.
fn shown(markup: &str) -> Vec<(Kind, String)> {
    read(markup)
        .iter()
        .map(|message| (message.kind(), message.text().into_owned()))
        .collect()
}

fn said(kind: Kind, text: &str) -> (Kind, String) {
    (kind, text.to_owned())
}

/// Events of each token, and those of the end.
fn events(tokens: &[u32]) -> Vec<Vec<Event>> {
    let mut parser = Parser::new(tiny());
    let mut events: Vec<_> = tokens.iter().map(|&token| parser.push(token)).collect();
    events.push(parser.finish());
    events
}

fn assistant(channel: &str) -> Message {
    Message {
        content: Vec::new(),
        ..Message::assistant(channel, "")
    }
}

#[test]
fn streams_a_message_as_start_texts_and_end() {
    let tokens = ids("<|channel|>final<|message|>ab<|return|>");
    let text = |text: &str| Event::Text(text.to_owned());
    let seen: Vec<Event> = events(&tokens).concat();
    let (first, last) = (seen.first().unwrap(), seen.last().unwrap());
    assert_eq!(first, &Event::Start(assistant("final")));
    assert_eq!(last, &Event::End(Message::assistant("final", "ab")));
    let middle = &seen[1..seen.len() - 1];
    assert!(middle == [text("ab")] || middle == [text("a"), text("b")]);
}

// The tests that follow are what users of other programs met; see gpt-oss's issue trackers.

#[test]
fn a_garbled_channel_is_thinking_and_the_answer_after_it_is_shown() {
    for garbled in [
        "?? ",
        "commentary?",
        "thoughts",
        "analysis<|channel|>analysis",
        "!? no idea",
    ] {
        let markup = format!(
            "<|channel|>{garbled}<|message|>hi<|end|>\
             <|start|>assistant<|channel|>final<|message|>ok<|return|>"
        );
        let expected = [said(Kind::Thinking, "hi"), said(Kind::Final, "ok")];
        assert_eq!(shown(&markup), expected, "{garbled}");
    }
}

#[test]
fn a_garbled_channel_does_not_hide_a_tool_call() {
    let message = &read("<|channel|>?? to=functions.a json<|message|>{}<|call|>")[0];
    assert_eq!(message.kind(), Kind::ToolCall);
    assert_eq!(message.tool_name(), Some("a"));
}

#[test]
fn of_a_doubled_channel_the_last_that_exists_counts() {
    for (header, kind) in [
        ("<|channel|><|channel|>final", Kind::Final),
        ("<|channel|>analysis<|channel|>final", Kind::Final),
        ("<|channel|>final<|channel|>??", Kind::Final),
        ("<|channel|>commentary<|channel|>commentary", Kind::Preamble),
    ] {
        assert_eq!(
            shown(&format!("{header}<|message|>x<|end|>")),
            [said(kind, "x")],
            "{header}"
        );
    }
}

#[test]
fn surplus_header_words_make_analysis_not_a_tool_call() {
    for header in [
        "<|channel|>\u{2013}\u{2013}commentary to=x y z",
        "<|channel|>analysis \u{2013}\u{2013}commentary to=x y z",
    ] {
        let markup = format!(
            "{header}<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>"
        );
        let expected = [said(Kind::Thinking, "hm"), said(Kind::Final, "4")];
        assert_eq!(shown(&markup), expected, "{header}");
    }
}

#[test]
fn surplus_words_do_not_hide_a_call_to_a_namespaced_tool() {
    let header = "<|channel|>commentary to=functions.a now please <|constrain|>json";
    let message = &read(&format!("{header}<|message|>{{}}<|call|>"))[0];
    assert_eq!(message.kind(), Kind::ToolCall);
    assert_eq!(message.tool_name(), Some("a"));
}

#[test]
fn text_without_a_header_is_the_answer_and_streams_at_once() {
    let tokens = ids("I can't help with that.<|return|>");
    let seen = events(&tokens);
    assert!(
        matches!(seen[0].as_slice(), [Event::Start(_), Event::Text(_)]),
        "{:?}",
        seen[0]
    );
    let expected = Message::new(Role::Assistant, "I can't help with that.");
    assert_eq!(seen.concat().last(), Some(&Event::End(expected.clone())));
    assert_eq!(expected.kind(), Kind::Final);
}

#[test]
fn text_that_could_be_a_header_is_held_back_only_until_it_cannot() {
    for text in [
        "to be or not to be",
        "final call",
        "json is a format",
        " analysis of it",
    ] {
        assert_eq!(
            shown(&format!("{text}<|return|>")),
            [said(Kind::Final, text)]
        );
        assert_eq!(shown(text), [said(Kind::Final, text)]);
    }
}

#[test]
fn an_end_in_the_header_gives_an_empty_message() {
    for end in ["<|return|>", "<|endoftext|>", "<|end|>", "<|call|>"] {
        assert_eq!(shown(end), [said(Kind::Final, "")], "{end}");
        let markup = format!("<|channel|>analysis{end}");
        assert_eq!(shown(&markup), [said(Kind::Thinking, "")], "{end}");
    }
    assert_eq!(shown(""), []);
}

#[test]
fn a_content_type_needs_no_space_before_constrain() {
    let expected = Message {
        recipient: Some("functions.x".to_owned()),
        content_type: Some("<|constrain|>json".to_owned()),
        ..Message::assistant("commentary", "{}")
    };
    for header in [
        "<|channel|>commentary to=functions.x<|constrain|>json",
        "<|channel|>commentary to=functions.x <|constrain|>json",
        "<|channel|>commentary to=functions.x <|constrain|> json",
        " to=functions.x<|channel|>commentary <|constrain|>json",
        " to=functions.x <|constrain|>json<|channel|>commentary",
        "<|channel|>commentary functions.x <|constrain|>json",
    ] {
        let message = read(&format!("{header}<|message|>{{}}<|call|>"));
        assert_eq!(message, std::slice::from_ref(&expected), "{header}");
    }
}

#[test]
fn a_tool_call_that_was_cut_off_is_reported_with_what_there_is() {
    let header = "<|channel|>commentary to=functions.x<|constrain|>json";
    for (markup, text) in [
        (format!("{header}<|message|>{{\"loc"), "{\"loc"),
        (format!("{header}<|message|>"), ""),
        (header.to_owned(), ""),
        (" to=functions.x<|call|>".to_owned(), ""),
        (" to=functions.x json".to_owned(), ""),
    ] {
        let messages = read(&markup);
        let [message] = messages.as_slice() else {
            panic!("{markup}: {messages:?}");
        };
        assert_eq!(message.tool_name(), Some("x"), "{markup}");
        assert_eq!(message.text(), text, "{markup}");
        assert!(message.arguments().is_err(), "{markup}");
    }
}

#[test]
fn a_header_word_that_is_a_content_type_is_no_recipient() {
    // openai-harmony takes the one word for a recipient here, which would call a tool `json`.
    let message = &read("<|channel|>commentary json<|message|>{}<|end|>")[0];
    assert_eq!(message.content_type.as_deref(), Some("json"));
    assert_eq!(message.kind(), Kind::Preamble);
    let message = &read("<|channel|>commentary <|constrain|>json<|message|>{}<|end|>")[0];
    assert_eq!(message.content_type.as_deref(), Some("<|constrain|>json"));
    assert_eq!(message.kind(), Kind::Preamble);
}

#[test]
fn a_stray_word_does_not_turn_the_answer_into_a_tool_call() {
    // openai-harmony takes these words for recipients as well.
    for (header, kind) in [
        ("<|channel|>final answer", Kind::Final),
        ("<|channel|>final functions.x", Kind::Final),
        ("<|channel|>analysis hmm", Kind::Thinking),
    ] {
        let markup = format!("{header}<|message|>4<|return|>");
        assert_eq!(shown(&markup), [said(kind, "4")], "{header}");
    }
    let call = &read("<|channel|>commentary get_weather json<|message|>{}<|call|>")[0];
    assert_eq!(call.tool_name(), Some("get_weather"));
}

#[test]
fn channel_names_and_roles_never_reach_the_text() {
    let markup = "<|channel|>analysis<|message|>We need to add.<|end|>\
                  <|start|>assistant<|channel|>final<|message|>four<|return|>";
    let expected = [
        said(Kind::Thinking, "We need to add."),
        said(Kind::Final, "four"),
    ];
    assert_eq!(shown(markup), expected);
    // With control tokens left out, as some models do.
    let markup = markup.replace("assistant<|channel|>final", "assistantfinal");
    assert_eq!(shown(&markup), expected);
    assert_eq!(
        shown("analysis<|message|>x<|end|>"),
        [said(Kind::Thinking, "x")]
    );
}

#[test]
fn text_in_a_header_that_never_closes_is_kept() {
    let markup = "<|channel|>final the answer is 4<|return|>";
    assert_eq!(shown(markup), [said(Kind::Final, "the answer is 4")]);
    let markup = "<|channel|>final Yes<|return|>";
    assert_eq!(shown(markup), [said(Kind::Final, "Yes")]);
}

#[test]
fn a_header_that_grows_without_end_becomes_content() {
    let text = "and so on ".repeat(MAX_HEADER);
    let tokens = ids(&format!("<|channel|>analysis {text}"));
    let mut parser = Parser::new(tiny());
    let mut streamed = String::new();
    for &token in &tokens[..MAX_HEADER + 8] {
        for event in parser.push(token) {
            if let Event::Text(delta) = event {
                streamed += &delta;
            }
        }
    }
    assert!(
        text.starts_with(&streamed) && streamed.len() > MAX_HEADER,
        "{streamed}"
    );
    assert_eq!(
        parser.current(),
        Some(&assistant("analysis")),
        "thinking stays thinking"
    );
}

#[test]
fn a_header_after_free_text_begins_a_new_message() {
    let markup = "Well,<|channel|>final<|message|>4<|return|>";
    let expected = [said(Kind::Final, "Well,"), said(Kind::Final, "4")];
    assert_eq!(shown(markup), expected);
    let markup = "Well,<|start|>assistant<|channel|>analysis<|message|>4<|return|>";
    let expected = [said(Kind::Final, "Well,"), said(Kind::Thinking, "4")];
    assert_eq!(shown(markup), expected);
}

#[test]
fn text_after_a_message_without_a_start_is_kept() {
    let markup = "<|channel|>analysis<|message|>a<|end|>\n\
                  <|channel|>final<|message|>b<|return|>";
    let expected = [said(Kind::Thinking, "a"), said(Kind::Final, "b")];
    assert_eq!(shown(markup), expected);
    let markup = "<|channel|>final<|message|>a<|return|>text<|end|>\n<|end|>";
    let expected = [said(Kind::Final, "a"), said(Kind::Final, "text")];
    assert_eq!(shown(markup), expected);
}

#[test]
fn an_endoftext_that_ends_the_tokens_is_not_shown() {
    for rest in ["", "<|end|>", "<|endoftext|>"] {
        let markup = format!("<|channel|>final<|message|>4<|endoftext|>{rest}");
        assert_eq!(shown(&markup), [said(Kind::Final, "4")], "{rest}");
    }
    let markup = "<|channel|>final<|message|>4<|endoftext|>2<|return|>";
    assert_eq!(shown(markup), [said(Kind::Final, "4<|endoftext|>2")]);
}

#[test]
fn another_speaker_is_read_with_its_name() {
    let markup = "<|start|>user:anna<|message|>Hi<|end|>\
                  <|start|>functions.a to=assistant<|channel|>commentary<|message|>1<|end|>";
    let user = Message {
        name: Some("anna".to_owned()),
        ..Message::user("Hi")
    };
    let tool = Message {
        name: Some("functions.a".to_owned()),
        channel: Some("commentary".to_owned()),
        recipient: Some("assistant".to_owned()),
        ..Message::new(Role::Tool, "1")
    };
    assert_eq!(read(markup), [user, tool]);
}

#[test]
fn a_character_cut_in_two_by_the_header_limit_is_whole() {
    let tokenizer = tiny();
    let wide = "日本語😀".repeat(MAX_HEADER);
    let text = parse(&tokenizer, &ids(&format!("<|channel|>?? {wide}")))[0]
        .text()
        .into_owned();
    assert_eq!(text, wide);
}

/// Control tokens, header words and bytes of broken characters, oftener than chance has them.
fn any_tokens() -> impl Strategy<Value = Vec<u32>> {
    let words = " to=functions.a analysis commentary final json assistant: x\n";
    let words = ids(words);
    let controls =
        ids("<|start|><|end|><|message|><|channel|><|constrain|><|return|><|call|><|endoftext|>");
    let token = prop_oneof![
        4 => prop::sample::select(controls),
        4 => prop::sample::select(words),
        2 => 0..2944_u32,
        1 => prop::sample::select(ids("日😀é")),
        1 => any::<u32>(),
    ];
    prop::collection::vec(token, 0..200)
}

/// The contract of the event stream.
fn check(tokens: &[u32], tokenizer: &Arc<Tokenizer>) -> Result<(), TestCaseError> {
    let mut open: Option<(Message, String)> = None;
    let mut ended = Vec::new();
    for event in events(tokens).concat() {
        match event {
            Event::Start(message) => {
                prop_assert!(open.is_none(), "a message began within another");
                prop_assert_eq!(&message.content, &[]);
                open = Some((message, String::new()));
            }
            Event::Text(delta) => {
                prop_assert!(!delta.is_empty());
                let (_, text) = open.as_mut().expect("text belongs to a message");
                text.push_str(&delta);
            }
            Event::End(message) => {
                let (header, text) = open.take().expect("what ends has begun");
                let content = vec![Content::Text(text)];
                prop_assert_eq!(&message, &Message { content, ..header });
                ended.push(message);
            }
        }
    }
    prop_assert!(open.is_none(), "a message was left open");
    prop_assert_eq!(ended, parse(tokenizer, tokens));
    Ok(())
}

/// A message as the renderer writes it and the parser can read it back.
fn any_message() -> impl Strategy<Value = Message> {
    let channel = prop::option::of(prop::sample::select(vec![
        "analysis",
        "commentary",
        "final",
    ]));
    let call = prop::option::of(("[a-z]{1,8}", prop::bool::ANY));
    (channel, call, any::<String>()).prop_map(|(channel, call, text)| {
        let text = text.replace("<|endoftext|>", "");
        let mut message = Message::new(Role::Assistant, text);
        message.channel = channel.map(str::to_owned);
        if let Some((name, constrained)) = call {
            message.recipient = Some(format!("functions.{name}"));
            message.content_type = constrained.then(|| "<|constrain|>json".to_owned());
        }
        message
    })
}

proptest! {
    #[test]
    fn any_tokens_give_whole_messages_and_no_panic(tokens in any_tokens()) {
        check(&tokens, &tiny())?;
    }

    #[test]
    fn no_text_of_a_content_is_lost(text in any::<String>()) {
        let tokenizer = tiny();
        let mut tokens = ids("<|channel|>final<|message|>");
        tokens.extend(tokenizer.encode(&text));
        prop_assert_eq!(parse(&tokenizer, &tokens), [Message::assistant("final", text)]);
    }

    #[test]
    fn rendered_messages_parse_to_themselves(
        messages in prop::collection::vec(any_message(), 0..5),
    ) {
        let tokenizer = tiny();
        let conversation = Conversation::from(messages);
        let options = RenderOptions { keep_analysis: true, open_assistant: false };
        let tokens = render_with(&conversation, &tokenizer, options);
        prop_assert_eq!(parse(&tokenizer, &tokens), conversation.messages);
    }
}
