use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::super::text::width;
use super::*;

fn editor(text: &str) -> Editor {
    let mut editor = Editor::default();
    editor.set_text(text);
    editor
}

fn typed(text: &str) -> Editor {
    let mut editor = Editor::default();
    for grapheme in text.graphemes(true) {
        editor.insert(grapheme);
    }
    editor
}

fn caret(editor: &mut Editor, columns: usize) -> (usize, usize) {
    editor.layout(columns).caret
}

#[test]
fn a_grapheme_is_passed_and_deleted_whole() {
    for grapheme in ["e\u{301}", "👩‍👩‍👧", "🇩🇪", "日", "☀️"] {
        let mut editor = editor(&format!("a{grapheme}b"));
        assert!(editor.go(Motion::Left));
        assert!(editor.go(Motion::Left));
        assert_eq!(editor.caret(), 1, "{grapheme}");
        assert!(editor.delete(Motion::Right));
        assert_eq!(editor.text(), "ab");
    }
}

#[test]
fn a_mark_typed_later_joins_its_letter() {
    let mut editor = typed("e");
    editor.insert("\u{301}");
    assert!(editor.delete(Motion::Left));
    assert_eq!(editor.text(), "");
}

#[test]
fn motions_at_the_ends_say_so() {
    let mut editor = editor("ab\ncd");
    for motion in [
        Motion::Right,
        Motion::Down,
        Motion::End,
        Motion::Last,
        Motion::WordRight,
    ] {
        assert!(!editor.go(motion), "{motion:?}");
    }
    assert!(editor.go(Motion::First));
    for motion in [
        Motion::Left,
        Motion::Up,
        Motion::Home,
        Motion::First,
        Motion::WordLeft,
    ] {
        assert!(!editor.go(motion), "{motion:?}");
    }
}

#[test]
fn words_are_passed_with_what_is_between() {
    let mut editor = editor("let foo_bar = 12.5;\n  don't");
    let mut stops = vec![editor.caret()];
    while editor.go(Motion::WordLeft) {
        stops.push(editor.caret());
    }
    assert_eq!(stops, [27, 22, 14, 4, 0]);
    let mut stops = Vec::new();
    while editor.go(Motion::WordRight) {
        stops.push(editor.caret());
    }
    assert_eq!(stops, [3, 11, 18, 27]);
}

#[test]
fn home_and_end_stay_in_the_line() {
    let mut editor = editor("ab\ncd\nef");
    assert!(editor.go(Motion::Up));
    assert!(editor.go(Motion::Home));
    assert_eq!(editor.caret(), 3);
    assert!(editor.go(Motion::End));
    assert_eq!(editor.caret(), 5);
}

#[test]
fn killing_takes_the_line_and_then_its_break() {
    let mut editor = editor("ab\ncd\nef");
    editor.go(Motion::Up);
    assert!(editor.delete(Motion::Home));
    assert_eq!(editor.text(), "ab\n\nef");
    assert!(editor.delete(Motion::Home));
    assert_eq!(editor.text(), "ab\nef");
    assert!(editor.delete(Motion::End));
    assert_eq!(editor.text(), "abef");
    assert!(editor.delete(Motion::End));
    assert_eq!(editor.text(), "ab");
    assert!(!editor.delete(Motion::End));
}

#[test]
fn vertical_motion_keeps_the_column_over_short_lines() {
    let mut editor = editor("abcdef\nx\nabcdef");
    editor.layout(20);
    editor.go(Motion::Left);
    editor.go(Motion::Up);
    assert_eq!(caret(&mut editor, 20), (1, 1));
    editor.go(Motion::Up);
    assert_eq!(caret(&mut editor, 20), (5, 0));
}

#[test]
fn vertical_motion_follows_wrapped_lines() {
    let mut editor = editor("one two three");
    assert_eq!(editor.layout(8).lines, ["one two ", "three"]);
    assert!(editor.go(Motion::Up));
    assert_eq!(caret(&mut editor, 8), (5, 0));
    assert!(!editor.go(Motion::Up));
    assert!(editor.go(Motion::Down));
    assert_eq!(caret(&mut editor, 8), (5, 1));
}

#[test]
fn vertical_motion_counts_cells_not_characters() {
    let mut editor = editor("日本語\nabcd");
    editor.layout(20);
    editor.go(Motion::Up);
    assert_eq!(caret(&mut editor, 20), (4, 0));
    // In the middle of a wide one: before it.
    editor.go(Motion::Down);
    editor.go(Motion::Left);
    editor.go(Motion::Up);
    assert_eq!(caret(&mut editor, 20), (2, 0));
    editor.go(Motion::Down);
    assert_eq!(caret(&mut editor, 20), (3, 1));
}

#[test]
fn the_caret_after_a_full_line_is_below_it() {
    let mut editor = editor("abcd\nx");
    editor.go(Motion::First);
    editor.go(Motion::End);
    assert_eq!(
        editor.layout(4),
        Layout {
            lines: vec!["abcd".to_owned(), String::new(), "x".to_owned()],
            caret: (0, 1)
        }
    );
    assert!(editor.go(Motion::Up));
    assert_eq!(caret(&mut editor, 4), (0, 0));
    editor.go(Motion::End);
    assert!(editor.go(Motion::Down));
    assert_eq!(caret(&mut editor, 4), (0, 1));
}

#[test]
fn the_caret_stands_right_after_every_kind_of_text() {
    for (text, column) in [
        ("日本", 4),
        ("👩‍👩‍👧", 2),
        ("e\u{301}", 1),
        ("a\tb", 5),
        ("\t", 4),
        ("☀️", 2),
        ("שלום", 4),
    ] {
        assert_eq!(caret(&mut editor(text), 20), (column, 0), "{text:?}");
    }
    assert_eq!(editor("a\tb").layout(20).lines, ["a   b"]);
}

#[test]
fn undo_goes_word_by_word_and_redo_comes_back() {
    let mut editor = typed("one two  three");
    let mut texts = Vec::new();
    while editor.undo() {
        texts.push(editor.text().to_owned());
    }
    assert_eq!(texts, ["one two  ", "one ", ""]);
    while editor.redo() {}
    assert_eq!((editor.text(), editor.caret()), ("one two  three", 14));
}

#[test]
fn a_paste_is_one_step_and_so_is_a_run_of_backspaces() {
    let mut editor = typed("ab");
    editor.insert("\x1b[31mpasted\r\ntext");
    assert_eq!(editor.text(), "abpasted\ntext");
    for _ in 0..5 {
        editor.delete(Motion::Left);
    }
    assert_eq!(editor.text(), "abpasted");
    editor.undo();
    assert_eq!(editor.text(), "abpasted\ntext");
    editor.undo();
    assert_eq!((editor.text(), editor.caret()), ("ab", 2));
    assert!(editor.redo());
    editor.insert("!");
    assert!(!editor.redo(), "something else was done");
}

#[test]
fn replacing_everything_can_be_undone() {
    let mut editor = typed("draft");
    editor.go(Motion::Left);
    editor.set_text("from the history");
    assert_eq!(editor.caret(), 16);
    editor.undo();
    assert_eq!((editor.text(), editor.caret()), ("draft", 4));
}

#[test]
fn a_unit_is_passed_and_deleted_whole_and_comes_back_whole() {
    let mut editor = Editor::default();
    let unit = editor.add_unit("[pasted]".to_owned()).unwrap().to_string();
    editor.insert("a");
    editor.insert(&unit);
    editor.insert("b");
    assert_eq!(editor.layout(20).lines, ["a[pasted]b"]);
    assert_eq!(caret(&mut editor, 20), (10, 0));
    assert!(editor.go(Motion::Left) && editor.go(Motion::Left));
    assert_eq!(caret(&mut editor, 20), (1, 0));
    assert!(editor.delete(Motion::Right));
    assert_eq!(editor.text(), "ab");
    assert!(editor.undo());
    assert!(editor.go(Motion::WordLeft));
    assert!(editor.delete(Motion::WordRight));
    assert_eq!(editor.text(), format!("{unit}b"));
    // A step of its own, whatever was typed before.
    let mut editor = typed("x");
    let unit = editor.add_unit("[pasted]".to_owned()).unwrap().to_string();
    editor.insert(&unit);
    assert!(editor.delete(Motion::WordLeft));
    assert_eq!(editor.text(), "x");
    assert!(editor.undo() && editor.undo());
    assert_eq!(editor.text(), "x");
}

#[test]
fn a_unit_is_a_word_to_the_lines_and_cut_where_it_is_too_long() {
    let mut editor = Editor::default();
    let unit = editor.add_unit("[pasted 1,200]".to_owned()).unwrap();
    editor.insert(&format!("ab{unit}cd"));
    assert_eq!(editor.layout(14).lines, ["ab", "[pasted 1,200]", "cd"]);
    assert_eq!(editor.layout(8).lines, ["ab", "[pasted…", "cd"]);
    assert!(editor.go(Motion::Up));
    assert_eq!(caret(&mut editor, 8), (0, 1));
    assert!(editor.go(Motion::Up));
    assert_eq!(caret(&mut editor, 8), (1, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(String),
    Go(Motion),
    Delete(Motion),
    Undo,
    Redo,
    Layout(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Motion::{Down, End, First, Home, Last, Left, Right, Up, WordLeft, WordRight};
    let motion = prop::sample::select(vec![
        Left, Right, Up, Down, WordLeft, WordRight, Home, End, First, Last,
    ]);
    let text = prop_oneof![
        4 => "[a-c ]",
        1 => "[a-c \n日]{0,9}",
        1 => prop::sample::select(vec!["👩‍👩‍👧", "🇩🇪", "🇫", "\u{301}", "\u{200d}", "\t", "\n"]).prop_map(str::to_owned),
    ];
    let step = prop_oneof![
        4 => text.prop_map(Step::Insert),
        3 => motion.clone().prop_map(Step::Go),
        2 => motion.prop_map(Step::Delete),
        1 => Just(Step::Undo),
        1 => Just(Step::Redo),
        1 => (1_usize..12).prop_map(Step::Layout),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// Every edit is a replacement in a plain string, told by where the caret is before and after.
    #[test]
    fn edits_are_those_of_a_plain_string(steps in steps()) {
        let mut editor = Editor::default();
        let mut versions = vec![String::new()];
        for step in steps {
            let (text, caret) = (editor.text().to_owned(), editor.caret());
            match step {
                Step::Insert(new) => {
                    editor.insert(&new);
                    prop_assert_eq!(editor.text(), format!("{}{new}{}", &text[..caret], &text[caret..]));
                }
                Step::Go(motion) => {
                    let moved = editor.go(motion);
                    prop_assert_eq!(editor.text(), &text);
                    prop_assert_eq!(moved, editor.caret() != caret);
                }
                Step::Delete(motion) => {
                    let mut other = editor.clone();
                    other.go(motion);
                    let deleted = editor.delete(motion);
                    prop_assert_eq!(deleted, editor.text() != text);
                    if other.caret() != caret {
                        let (start, end) = (caret.min(other.caret()), caret.max(other.caret()));
                        prop_assert_eq!(editor.text(), format!("{}{}", &text[..start], &text[end..]));
                    }
                }
                Step::Undo => {
                    if editor.undo() {
                        prop_assert!(versions.iter().any(|version| version == editor.text()));
                        editor.redo();
                        prop_assert_eq!(editor.text(), &text);
                        editor.undo();
                    }
                }
                Step::Redo => {
                    editor.redo();
                }
                Step::Layout(columns) => {
                    let layout = editor.layout(columns);
                    let (column, row) = layout.caret;
                    prop_assert!(row < layout.lines.len());
                    prop_assert!(column < columns.max(2), "{layout:?}");
                    prop_assert!(layout.lines.iter().all(|line| width(line) <= columns.max(2)));
                    let joined = layout.lines.concat().replace(' ', "");
                    prop_assert_eq!(joined, editor.text().replace(['\n', '\t', ' '], ""));
                }
            }
            let caret = editor.caret();
            prop_assert!(caret == editor.text().len() || editor.text().grapheme_indices(true).any(|(at, _)| at == caret));
            versions.push(editor.text().to_owned());
        }
        while editor.undo() {}
        prop_assert_eq!(editor.text(), "");
    }

    #[test]
    fn rows_joined_are_the_text(text in "[a-c \n\t日é]{0,80}", columns in 1_usize..20) {
        let mut joined = String::new();
        for row in rows::rows(&text, columns, &Units::default()) {
            joined.push_str(&text[row.range.clone()]);
            if !row.is_wrapped {
                joined.push('\n');
            }
        }
        prop_assert_eq!(joined.strip_suffix('\n'), Some(text.as_str()));
    }
}
