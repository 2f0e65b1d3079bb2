use proptest::prelude::*;

use super::super::text::{is_unsafe, line_width};
use super::*;

fn at_once(source: &str, width: usize) -> Markdown {
    let mut markdown = Markdown::new(width, &Theme::standard());
    markdown.push(source);
    markdown.finish();
    markdown
}

fn shown(markdown: &Markdown) -> String {
    let lines = markdown.lines().iter().map(|line| format!("{line}\n"));
    lines.collect()
}

fn rendered(source: &str, width: usize) -> String {
    shown(&at_once(source, width))
}

/// What is shown of a text that has not ended.
fn streaming(source: &str) -> String {
    let mut markdown = Markdown::new(60, &Theme::standard());
    markdown.push(source);
    shown(&markdown)
}

const TOUR: &str = "\
# Title with *emphasis*

A paragraph with **strong**, ~~struck~~, `code`, a [link](https://example.org/a) and <https://example.org/b>.
Second line.

- one
- two with a text that is long enough to wrap
  - nested
    1. deep

  more of two
- [x] done
- [ ] to do

9. nine
10. ten

> A quote
> of two lines
>
> > and one inside

---

| Name | Count | Note |
|:-----|------:|:----:|
| a | 1 | x |
| longer | 100 | **y** |

```rust
fn main() { // hi
    let x = \"s\";
}
```

<b>html</b> and \\(a_1 * b_1\\) and $x_1 + y_1$

    indented

[ref]: https://example.org/c
";

#[test]
fn every_kind_of_block_is_shown() {
    insta::assert_snapshot!(rendered(TOUR, 60), @r#"
    Title with emphasis

    A paragraph with strong, struck, code, a link
    (https://example.org/a) and https://example.org/b.
    Second line.

    • one
    • two with a text that is long enough to wrap
      ◦ nested
        1. deep

      more of two
    • [x] done
    • [ ] to do

    9. nine
    10. ten

    │ A quote
    │ of two lines
    │
    │ │ and one inside

    ────────────────────────────────────────────────────────────

    Name   │ Count │ Note
    ───────┼───────┼─────
    a      │     1 │  x
    longer │   100 │  y

    rust
      fn main() { // hi
          let x = "s";
      }

    <b>html</b> and \(a_1 * b_1\) and $x_1 + y_1$

      indented

    [ref]: https://example.org/c
    "#);
}

#[test]
fn narrow_tables_wrap_and_then_become_fields() {
    let table =
        "| Name | Text |\n|---|---|\n| first | several words of text |\n| second | more |\n";
    insta::assert_snapshot!(rendered(table, 22), @r"
    Name   │ Text
    ───────┼──────────────
    first  │ several words
           │ of text
    second │ more
    ");
    insta::assert_snapshot!(rendered(table, 10), @r"
    Name:
      first
    Text:
      several
      words of
      text

    Name:
      second
    Text: more
    ");
}

#[test]
fn narrow_lists_and_quotes_give_up_their_indentation() {
    insta::assert_snapshot!(rendered("- one\n  - two\n    - three\n\n> quoted", 10), @r"
    • one
      ◦ two
        •
        three

    │ quoted
    ");
    insta::assert_snapshot!(rendered("- one\n  - two\n    - ```\n      c\n      ```\n- > q", 7), @r"
    • one
    ◦ two
    •
    c
    • q
    ");
}

#[test]
fn a_marker_alone_is_shown_at_any_width() {
    assert_eq!(rendered("1.\n2. a", 20), "1.\n2. a\n");
    assert_eq!(rendered("1.", 1), "1\n.\n");
}

#[test]
fn items_are_numbered_on_although_they_are_kept_one_by_one() {
    let list = "1. a\n1. b\n\n   more\n\n1. c\n   - d\n1. e\n\ntext\n\n1. f";
    let expected = "1. a\n2. b\n\n   more\n\n3. c\n   ◦ d\n4. e\n\ntext\n\n1. f\n";
    assert_eq!(rendered(list, 40), expected);
}

#[test]
fn what_is_open_is_shown_as_if_it_were_closed() {
    for (source, expected) in [
        ("a **bo", "a bo\n"),
        ("a **bold*", "a bold\n"),
        ("a **bold **", "a bold\n"),
        ("a *b **c", "a b c\n"),
        ("a `co", "a co\n"),
        ("a `", "a\n"),
        ("a ~~stru", "a stru\n"),
        ("2 * 3 and snake_case", "2 * 3 and snake_case\n"),
        ("see [the text](https://exam", "see the text\n"),
        ("Items:\n-", "Items:\n"),
        ("Items:\n- **fi", "Items:\n\n• fi\n"),
        ("1.", ""),
        ("#", ""),
        ("``", ""),
        ("```ru", "ru\n"),
        ("```rust\nlet", "rust\n  let\n"),
        ("```\nlet\n``", "  let\n"),
        ("- a\n  ```\n  x = `**", "• a\n    x = `**\n"),
        ("| a | b |\n|-", "a │ b\n──┼──\n"),
        ("| a | b |\n|---|---|\n| **c", "a │ b\n──┼──\nc │\n"),
    ] {
        assert_eq!(streaming(source), expected, "{source:?}");
    }
}

#[test]
fn emphasis_that_is_open_has_its_style_already() {
    let mut markdown = Markdown::new(40, &Theme::standard());
    markdown.push("a **bold");
    let styles: Vec<_> = markdown.lines()[0]
        .spans
        .iter()
        .map(|span| span.style)
        .collect();
    assert_eq!(styles, [Theme::standard().text, Theme::standard().strong]);
}

#[test]
fn code_has_the_colours_of_its_language() {
    let theme = Theme::standard();
    for (language, code, piece, style) in [
        ("rust", "let x = 1; // why", "let", theme.code_keyword),
        ("rust", "let x = 1; // why", "// why", theme.code_comment),
        ("rust", "let x = 1; // why", "1", theme.code_number),
        ("python", "def f(): return 's'", "f", theme.code_function),
        ("python", "def f(): return 's'", "'s'", theme.code_string),
        ("ts", "function f() {}", "f", theme.code_function),
        ("unheard-of", "let x = 1", "let x = 1", theme.text),
    ] {
        let markdown = at_once(&format!("```{language}\n{code}\n```\n"), 60);
        let spans = &markdown.lines()[1].spans;
        let found = spans.iter().find(|span| span.content == piece);
        assert_eq!(
            found.map(|span| span.style),
            Some(style),
            "{language}: {spans:?}"
        );
    }
}

#[test]
fn colours_reach_over_lines_and_go_on_from_an_unfinished_one() {
    let source = "```c\n/* a\nb */ int x;\n```\n";
    let whole = at_once(source, 60);
    assert_eq!(
        whole.lines()[2].spans[1].style,
        Theme::standard().code_comment
    );
    let mut streamed = Markdown::new(60, &Theme::standard());
    for piece in source.chars() {
        streamed.push(&piece.to_string());
    }
    streamed.finish();
    assert_eq!(streamed.lines(), whole.lines());
}

#[test]
fn code_is_handed_out_as_it_was() {
    let source = "```rust\nfn a() {\n    b\n}\n```\n\n1. x\n\n   ```\n   c\n   ```\n\n~~~\nopen";
    assert_eq!(
        at_once(source, 20).code_blocks(),
        ["fn a() {\n    b\n}\n", "c\n", "open\n"]
    );
    assert_eq!(at_once(source, 20).source(), source);
}

#[test]
fn escape_sequences_are_not_shown_even_in_pieces() {
    let mut markdown = Markdown::new(40, &Theme::standard());
    for piece in ["a\x1b", "[3", "1mb\x1b]0;ti", "tle\x07c\r", "\nd\u{202e}"] {
        markdown.push(piece);
    }
    markdown.finish();
    assert_eq!(shown(&markdown), "abc\nd\n");
}

#[test]
fn a_block_of_any_length_is_cut_rather_than_rendered_again_and_again() {
    let source = "many words ".repeat(10_000);
    let mut markdown = Markdown::new(80, &Theme::standard());
    markdown.push(&source);
    assert!(markdown.tail.len() <= MAX_OPEN);
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&shown(&markdown)), words(&source));
}

#[test]
fn a_table_of_any_length_stays_a_table() {
    let row = format!("| {} | b |\n", "cell ".repeat(10).trim());
    let markdown = at_once(&format!("| A | B |\n|---|---|\n{}", row.repeat(1000)), 80);
    let is_row = |line: &&Line<'_>| {
        line.to_string().starts_with("cell cell") && line.to_string().ends_with(" │ b")
    };
    assert_eq!(markdown.lines().iter().filter(is_row).count(), 1000);
    let others = markdown.lines().iter().filter(|line| !is_row(line)).count();
    assert_eq!(
        others % 3,
        2,
        "a header, a rule and between two tables a blank line"
    );
}

/// Words in the markup of a block, and the words as they are to be shown.
fn block() -> impl Strategy<Value = (String, String)> {
    let words = || prop::collection::vec("[a-z]{1,12}|[日本語]{1,4}", 1..12);
    let span = (0..6, words()).prop_map(|(kind, words)| {
        let text = words.join(" ");
        let marked = match kind {
            0 => format!("**{text}**"),
            1 => format!("*{text}*"),
            2 => format!("`{text}`"),
            3 => format!("~~{text}~~"),
            4 => format!("[{text}](#)"),
            _ => text.clone(),
        };
        (marked, text)
    });
    let inline = prop::collection::vec(span, 1..4).prop_map(|spans| {
        let (marked, plain): (Vec<_>, Vec<_>) = spans.into_iter().unzip();
        (marked.join(" "), plain.concat())
    });
    (0..9, inline.clone(), inline, words()).prop_map(
        |(kind, (marked, plain), (more, more_plain), code)| match kind {
            0 => (format!("## {marked}"), plain),
            1 => (format!("- {marked}\n- {more}"), plain + &more_plain),
            2 => (format!("1. {marked}\n\n   {more}"), plain + &more_plain),
            3 => (
                format!("- {marked}\n  - [ ] {more}"),
                format!("{plain}{more_plain}"),
            ),
            4 => (format!("> {marked}\n>\n> - {more}"), plain + &more_plain),
            5 => (
                format!("```rust\n{}\n```", code.join("\n")),
                format!("rust{}", code.concat()),
            ),
            6 => (
                format!(
                    "* {marked}\n\n  ```\n  {}\n  ```\n* {more}",
                    code.join("\n  ")
                ),
                plain + &code.concat() + &more_plain,
            ),
            7 => (format!("---\n{marked}  \n{more}"), plain + &more_plain),
            _ => (marked, plain),
        },
    )
}

/// A document of blocks, and its words.
fn document() -> impl Strategy<Value = (String, String)> {
    prop::collection::vec(block(), 0..6).prop_map(|blocks| {
        let (marked, plain): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        (marked.join("\n\n"), plain.concat())
    })
}

/// Anything that looks like markup, rarely well formed.
fn soup() -> impl Strategy<Value = String> {
    let pieces = vec![
        "*",
        "**",
        "_",
        "`",
        "```",
        "~~",
        "~~~",
        "#",
        "> ",
        "- ",
        "1. ",
        "2) ",
        "|",
        "|-|",
        "| a | b |\n|---|---|\n",
        "[",
        "](",
        ")",
        "<b>",
        "<!--",
        "\\",
        "\\(",
        "$",
        "&amp;",
        "---",
        "===",
        "\n",
        "\n",
        "\n\n",
        "    ",
        "  ",
        " ",
        " ",
        "word",
        "x",
        "日本",
        "👩‍👩‍👧",
        "\t",
        "[a]: b",
        "```rust\n",
        "- [x] ",
        "\x1b[1m",
        "\u{202e}",
        "\r\n",
        "\r",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..50).prop_map(|pieces| pieces.concat())
}

fn source() -> impl Strategy<Value = String> {
    prop_oneof![document().prop_map(|(marked, _)| marked), soup()]
}

fn letters(text: &str) -> String {
    text.chars()
        .filter(|character| character.is_alphabetic())
        .collect()
}

proptest! {
    #[test]
    fn no_line_is_too_wide_or_unsafe(source in source(), width in 1_usize..120) {
        for finished in [false, true] {
            let mut markdown = Markdown::new(width, &Theme::standard());
            markdown.push(&source);
            if finished {
                markdown.finish();
            }
            for line in markdown.lines() {
                prop_assert!(line_width(line) <= width.max(2), "{line:?}");
                prop_assert!(!line.to_string().contains(|c| is_unsafe(c) || c == '\n' || c == '\t'), "{line:?}");
            }
        }
    }

    #[test]
    fn the_text_is_preserved((marked, plain) in document(), width in 4_usize..120) {
        let shown = rendered(&marked, width).replace("(#)", "").replace("[ ]", "");
        prop_assert_eq!(letters(&shown), letters(&plain), "{}", marked);
    }

    #[test]
    fn any_split_gives_the_same_lines(source in source(), width in 1_usize..80, sizes in prop::collection::vec(1_usize..9, 1..20)) {
        let mut streamed = Markdown::new(width, &Theme::standard());
        let mut rest: Vec<char> = source.chars().collect();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let piece: String = rest.drain(..(*size).min(rest.len())).collect();
            streamed.push(&piece);
        }
        streamed.finish();
        let whole = at_once(&source, width);
        prop_assert_eq!(streamed.lines(), whole.lines());
        prop_assert_eq!(streamed.code_blocks(), whole.code_blocks());
        prop_assert_eq!(streamed.source(), source);
    }

    #[test]
    fn another_layout_and_back_changes_nothing(source in source(), width in 1_usize..80, other in 1_usize..80, finished: bool) {
        let theme = Theme::standard();
        let mut markdown = Markdown::new(width, &theme);
        markdown.push(&source);
        if finished {
            markdown.finish();
        }
        let (lines, codes) = (markdown.lines().to_vec(), markdown.code_blocks());
        markdown.layout(other, &Theme::plain());
        let mut fresh = Markdown::new(other, &Theme::plain());
        fresh.push(&source);
        if finished {
            fresh.finish();
        }
        prop_assert_eq!(markdown.lines(), fresh.lines());
        markdown.layout(width, &theme);
        prop_assert_eq!(markdown.lines(), lines);
        prop_assert_eq!(markdown.code_blocks(), codes);
    }
}
