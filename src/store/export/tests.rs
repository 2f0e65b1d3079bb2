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
fn markdown_has_the_current_branch_with_quoted_thinking() {
    insta::assert_snapshot!(markdown("A\ntitle", &tree()), @r#"
    # A title

    ## You

    What is *this*?

    ## gpt-oss

    > **Thinking**
    >
    > Let me see.
    >
    > ```
    > unclosed

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
    assert_eq!(markdown("x", &Tree::default()), "# x\n");
}
