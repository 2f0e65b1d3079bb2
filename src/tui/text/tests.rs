use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::*;

fn wrapped(text: &str, width: usize, hanging: &str) -> Vec<String> {
    let lines = wrap(&Line::from(text), width, &Line::from(hanging));
    lines.iter().map(ToString::to_string).collect()
}

/// Cells that ratatui's buffer moves on by.
fn drawn(text: &str) -> usize {
    let mut buffer = Buffer::empty(Rect::new(0, 0, 400, 1));
    usize::from(buffer.set_stringn(0, 0, text, 400, Style::new()).0)
}

/// Text of what is hard for terminals: wide, combining, joined, right to left, zero width, tabs.
pub fn hard_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,9}",
        3 => " {1,3}",
        1 => "[日本語、。（）カ]{1,4}",
        1 => prop::sample::select(vec!["👩‍👩‍👧", "🇩🇪🇫🇷", "e\u{301}\u{323}", "☀️", "1️⃣", "שלום", "عربي", "\u{200b}", "\u{301}", "-", "\t"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..25).prop_map(|pieces| pieces.concat())
}

#[test]
fn widths_are_those_of_terminals() {
    for (text, cells) in [
        ("abc", 3),
        ("日本語", 6),
        ("e\u{301}", 1),
        ("👩‍👩‍👧", 2),
        ("☀️", 2),
        ("🇩🇪", 2),
        ("שלום", 4),
        ("\u{200b}", 0),
        ("a\x07b", 2),
    ] {
        assert_eq!(width(text), cells, "{text:?}");
        assert_eq!(drawn(text), cells, "{text:?} as drawn");
    }
}

#[test]
fn half_width_sound_marks_count_as_ratatui_counts_them() {
    for text in ["カ\u{ff9e}", "ｶ\u{ff9e}", "ﾊ\u{ff9f}"] {
        assert_eq!(width(text), drawn(text), "{text:?}");
    }
}

#[test]
fn lines_break_between_words_and_hang() {
    assert_eq!(wrapped("one two three", 8, "  "), ["one two", "  three"]);
    assert_eq!(wrapped("one   two", 4, ""), ["one", "two"]);
    assert_eq!(wrapped("one two ", 7, ""), ["one two"]);
    assert_eq!(wrapped("", 4, "  "), [""]);
    // Only what leaves two cells of the hanging indent.
    assert_eq!(wrapped("ab cd", 3, "    "), ["ab", " cd"]);
}

#[test]
fn long_words_break_at_graphemes() {
    assert_eq!(wrapped("abcdefgh", 3, ""), ["abc", "def", "gh"]);
    assert_eq!(wrapped("x abcdefgh", 4, ""), ["x", "abcd", "efgh"]);
    assert_eq!(wrapped("👩‍👩‍👧👩‍👩‍👧", 3, ""), ["👩‍👩‍👧", "👩‍👩‍👧"]);
    assert_eq!(
        wrapped("e\u{301}e\u{301}e\u{301}", 2, ""),
        ["e\u{301}e\u{301}", "e\u{301}"]
    );
}

#[test]
fn wide_text_breaks_anywhere_but_at_its_punctuation() {
    assert_eq!(wrapped("日本語日本語", 4, ""), ["日本", "語日", "本語"]);
    assert_eq!(wrapped("日本語、日本", 6, ""), ["日本", "語、日", "本"]);
    assert_eq!(wrapped("日本（語）", 6, ""), ["日本", "（語）"]);
    assert_eq!(wrapped("日本word語", 6, ""), ["日本", "word語"]);
}

#[test]
fn tabs_are_spaces_to_the_next_stop() {
    assert_eq!(wrapped("a\tb\tc", 20, ""), ["a   b   c"]);
}

#[test]
fn styles_survive_a_break() {
    let red = Style::new().fg(Color::Red);
    let line = Line::from(vec![Span::raw("ab "), Span::styled("cd ef", red)]);
    assert_eq!(
        wrap(&line, 5, &Line::from("> ")),
        [
            Line::from(vec![Span::raw("ab "), Span::styled("cd", red)]),
            Line::from(vec![Span::raw("> "), Span::styled("ef", red)]),
        ]
    );
}

#[test]
fn code_keeps_every_space() {
    let lines = wrap_anywhere(&Line::from("ab   cd"), 3);
    let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["ab ", "  c", "d"]);
}

fn without_spaces(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_whitespace())
        .collect()
}

proptest! {
    #[test]
    fn the_width_is_what_ratatui_draws(text in hard_text()) {
        prop_assert_eq!(width(&text), drawn(&text));
    }

    #[test]
    fn no_wrapped_line_is_too_wide_and_no_text_is_lost(text in hard_text(), columns in 1_usize..120, hanging in " {0,8}") {
        let lines = wrap(&Line::from(text.as_str()), columns, &Line::from(hanging));
        for line in &lines {
            prop_assert!(line_width(line) <= columns.max(2), "{line:?}");
            prop_assert_eq!(line_width(line), drawn(&line.to_string()));
        }
        let shown: String = lines.iter().map(ToString::to_string).collect();
        prop_assert_eq!(without_spaces(&shown), without_spaces(&text));
        let code = wrap_anywhere(&Line::from(text.as_str()), columns);
        prop_assert!(code.iter().all(|line| line_width(line) <= columns.max(2)));
        let shown: String = code.iter().map(ToString::to_string).collect();
        prop_assert_eq!(without_spaces(&shown), without_spaces(&text));
    }
}
