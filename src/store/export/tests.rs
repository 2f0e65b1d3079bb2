use std::time::Duration;

use super::*;
use crate::session::Message;
use crate::store::NodeId;

fn turn(messages: Vec<Message>, finish: Finish) -> Entry {
    Entry::Turn(TurnRecord {
        messages,
        finish,
        prompt_tokens: 70,
        cached_tokens: 0,
        generated_tokens: 12,
        prefill: Duration::from_millis(500),
        time_to_first_token: None,
        decode: Duration::from_secs(1),
        seed: 7,
    })
}

/// A question with an answer, and a second branch that is the current one.
fn tree() -> Tree {
    let mut tree = Tree::default();
    tree.push(Entry::User("What is *this*?".to_owned()));
    tree.push(turn(
        vec![Message::assistant("final", "That.")],
        Finish::Stop,
    ));
    tree.set_head(Some(NodeId(0)));
    let call = Message {
        recipient: Some("functions.look".to_owned()),
        ..Message::assistant("commentary", "{\"at\": \"```\"}")
    };
    tree.push(turn(
        vec![
            Message::assistant("analysis", "Let me see.\n\n```\nunclosed"),
            Message::assistant("commentary", "I will look."),
            call,
        ],
        Finish::ToolCall,
    ));
    tree.push(Entry::User("Go on".to_owned()));
    tree.push(turn(
        vec![
            Message::assistant("analysis", ""),
            Message::assistant("final", "It is\n\n- th"),
        ],
        Finish::Cancelled,
    ));
    tree
}

#[test]
fn markdown_has_the_current_branch_under_its_title_with_folded_thinking() {
    let about = [
        ("Date", Some("2025-06-28".to_owned())),
        ("Model", Some("tiny".to_owned())),
        ("Device", None),
    ];
    insta::assert_snapshot!(markdown("A\ntitle", &about, &tree()), @r#"
    # A title

    - Date: 2025-06-28
    - Model: tiny

    ## You

    What is *this*?

    ## gpt-oss

    <details>
    <summary>Thinking</summary>

    Let me see.

    ```
    unclosed
    ```

    </details>

    I will look.

    Calls `look`:

    ````
    {"at": "```"}
    ````

    ## You

    Go on

    ## gpt-oss

    It is

    - th

    *(stopped)*
    "#);
}

#[test]
fn code_is_left_as_it_is_and_closed_where_it_was_cut_off() {
    for whole in [
        "```rust\n  let a = 1;\n\n\t// <b>\n```",
        "~~~\n```\n~~~\nafter",
        "````\n```\nno end\n````",
        "``` is three `ticks` in a line",
        "    ```\n    indented",
        "none",
    ] {
        assert_eq!(closed(whole), whole);
    }
    assert_eq!(closed("a\n```rust\nlet"), "a\n```rust\nlet\n```");
    assert_eq!(closed(" ~~~~\nx\n~~~\n"), " ~~~~\nx\n~~~\n~~~~");
    let mut tree = Tree::default();
    let code = "    indented\n\n```rust\nlet a = 1;  \n```";
    tree.push(Entry::User("Code".to_owned()));
    tree.push(turn(vec![Message::assistant("final", code)], Finish::Stop));
    assert!(markdown("x", &[], &tree).contains(&format!("## gpt-oss\n\n{code}\n")));
}

#[test]
fn json_has_every_branch_and_figure() {
    let mut small = Tree::default();
    small.push(Entry::User("Hi".to_owned()));
    small.push(turn(
        vec![Message::assistant("final", "Hello!")],
        Finish::Stop,
    ));
    insta::assert_snapshot!(json("Hi", &small), @r#"
    {
      "gptoss_export": 1,
      "title": "Hi",
      "head": 1,
      "entries": [
        {
          "type": "user",
          "id": 0,
          "parent": null,
          "text": "Hi"
        },
        {
          "type": "turn",
          "id": 1,
          "parent": 0,
          "messages": [
            {
              "role": "assistant",
              "channel": "final",
              "content": [
                {
                  "text": "Hello!"
                }
              ]
            }
          ],
          "finish": "stop",
          "prompt_tokens": 70,
          "cached_tokens": 0,
          "generated_tokens": 12,
          "prefill_seconds": 0.5,
          "ttft_seconds": null,
          "decode_seconds": 1.0,
          "seed": 7
        }
      ]
    }
    "#);

    let all: serde_json::Value = serde_json::from_str(&json("Hi", &tree())).unwrap();
    assert_eq!(all["entries"].as_array().unwrap().len(), 5);
    assert_eq!(all["head"], 4);
}

#[test]
fn nothing_said_is_a_title_alone() {
    assert_eq!(markdown("x", &[], &Tree::default()), "# x\n");
}

#[test]
fn characters_that_command_a_terminal_are_made_visible() {
    let mut tree = Tree::default();
    tree.push(Entry::User("a\tb".to_owned()));
    tree.push(turn(
        vec![Message::assistant(
            "final",
            "c\u{1b}[31md\u{9b}2J\u{202e}e\u{7f}",
        )],
        Finish::Stop,
    ));
    assert_eq!(
        markdown("T", &[], &tree),
        "# T\n\n## You\n\na\tb\n\n## gpt-oss\n\nc␛[31md\\u{9b}2J\\u{202e}e␡\n"
    );
}
