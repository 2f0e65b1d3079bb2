use super::*;

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

/// What is heard when each piece comes at its milliseconds, and what is then given up after a long while.
fn heard(pieces: &[(u64, &[u8])]) -> Vec<Heard> {
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let mut decoder = Decoder::default();
    let mut heard = Vec::new();
    for (time, bytes) in pieces {
        heard.extend(decoder.push(bytes, at(*time)));
    }
    heard.extend(decoder.expire(at(1_000_000)));
    assert_eq!(decoder.wait(at(1_000_000)), None);
    heard
}

fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Heard {
    Heard::Key(KeyEvent::new(code, modifiers))
}

fn typed(text: &str) -> Vec<Heard> {
    text.chars().map(letter).collect()
}

#[test]
fn keys_are_what_terminals_send_for_them() {
    use KeyCode::{
        BackTab, Backspace, Char, Delete, Down, End, Enter, Esc, F, Home, Insert, Left, PageDown,
        PageUp, Right, Tab, Up,
    };
    for (bytes, code, modifiers) in [
        ("a", Char('a'), NONE),
        ("Ä", Char('Ä'), SHIFT),
        ("日", Char('日'), NONE),
        ("👩", Char('👩'), NONE),
        ("\r", Enter, NONE),
        ("\n", Char('j'), CTRL),
        ("\t", Tab, NONE),
        ("\x7f", Backspace, NONE),
        ("\x08", Char('h'), CTRL),
        ("\x01", Char('a'), CTRL),
        ("\x1f", Char('7'), CTRL),
        ("\0", Char(' '), CTRL),
        ("\x1b", Esc, NONE),
        ("\x1be", Char('e'), ALT),
        ("\x1b\r", Enter, ALT),
        ("\x1b\x7f", Backspace, ALT),
        ("\x1b[A", Up, NONE),
        ("\x1bOB", Down, NONE),
        ("\x1b[1;5C", Right, CTRL),
        ("\x1b[1;3D", Left, ALT),
        ("\x1b\x1b[A", Up, ALT),
        ("\x1b[H", Home, NONE),
        ("\x1b[1;5F", End, CTRL),
        ("\x1b[1~", Home, NONE),
        ("\x1b[2~", Insert, NONE),
        ("\x1b[3~", Delete, NONE),
        ("\x1b[5~", PageUp, NONE),
        ("\x1b[6;2~", PageDown, SHIFT),
        ("\x1bOP", F(1), NONE),
        ("\x1b[[B", F(2), NONE),
        ("\x1b[15~", F(5), NONE),
        ("\x1b[24~", F(12), NONE),
        ("\x1b[Z", BackTab, SHIFT),
        ("\x1b[13;2u", Enter, SHIFT),
        ("\x1b[9;2u", BackTab, SHIFT),
        ("\x1b[27u", Esc, NONE),
        ("\x1b[116;6u", Char('t'), CTRL | SHIFT),
        ("\x1b[97;5:1u", Char('a'), CTRL),
        ("\x1b[57414u", Enter, NONE),
        ("\x1b[57400u", Char('1'), NONE),
        ("\x1b[27;2;13~", Enter, SHIFT),
        ("\x1b]", Char(']'), ALT),
        ("\x1bP", Char('P'), ALT | SHIFT),
    ] {
        let expected = [pressed(code, modifiers)];
        assert_eq!(heard(&[(0, bytes.as_bytes())]), expected, "{bytes:?}");
        // In pieces of a byte each it is the same, where they come in time.
        let pieces: Vec<_> = bytes.as_bytes().chunks(1).map(|byte| (0, byte)).collect();
        assert_eq!(heard(&pieces), expected, "{bytes:?} in pieces");
    }
    assert_eq!(heard(&[(0, b"\x1b[97;5:3u")]), [], "released");
}

#[test]
fn the_mouse_is_its_wheel_and_its_buttons() {
    for (bytes, expected) in [
        (&b"\x1b[<64;5;5M"[..], vec![Heard::Wheel(-1)]),
        (b"\x1b[<65;5;5M", vec![Heard::Wheel(1)]),
        (b"\x1b[<0;5;5M\x1b[<0;5;5m", vec![Heard::Click]),
        (b"\x1b[<35;5;5M", vec![]),
        (b"\x1b[M`!!", vec![Heard::Wheel(-1)]),
    ] {
        assert_eq!(heard(&[(0, bytes)]), expected);
    }
}

#[test]
fn a_paste_is_one_whatever_is_in_it_and_however_it_comes() {
    let bytes = "a\x1b[200~x\r\x04\x1b[A日\x1b[201~b".as_bytes();
    let mut expected = typed("a");
    expected.push(Heard::Paste("x\r\x04\x1b[A日".to_owned()));
    expected.extend(typed("b"));
    assert_eq!(heard(&[(0, bytes)]), expected);
    for length in [2, 3, 5, 7] {
        let pieces: Vec<_> = bytes.chunks(length).map(|piece| (0, piece)).collect();
        assert_eq!(heard(&pieces), expected, "{length}");
    }
}

#[test]
fn a_paste_without_end_is_inserted_after_a_second() {
    let pasted = Heard::Paste("one".to_owned());
    assert_eq!(
        heard(&[(0, b"\x1b[200~on"), (900, b"e"), (1901, b"\r")]),
        [pasted.clone(), pressed(KeyCode::Enter, NONE)]
    );
    // Ctrl-C is one, at once.
    assert_eq!(
        heard(&[(0, b"\x1b[200~one"), (10, b"\x03")]),
        [pasted.clone(), control('c')]
    );
    assert_eq!(
        heard(&[(0, b"\x1b[200~one\x03")]),
        [pasted.clone(), control('c')]
    );
    // One that was pasted is none.
    assert_eq!(
        heard(&[(0, b"\x1b[200~a\x03b\x1b[201~")]),
        [Heard::Paste("a\x03b".to_owned())]
    );
    // Its end, should it come, is no key.
    assert_eq!(
        heard(&[(0, b"\x1b[200~one"), (1500, b"\x1b[201~")]),
        [pasted]
    );
}

#[test]
fn a_half_sequence_is_given_up_and_swallows_no_key() {
    for half in [&b"\x1b["[..], b"\x1b[1;", b"\x1b[<64;", b"\xe6\x97"] {
        assert_eq!(heard(&[(0, half), (150, b"a")]), typed("a"), "{half:?}");
        assert_eq!(
            heard(&[(0, half), (5, b"\x03")]),
            [control('c')],
            "{half:?}"
        );
    }
    assert_eq!(
        heard(&[(0, b"\x1b"), (50, b"[")]),
        [vec![pressed(KeyCode::Esc, NONE)], typed("[")].concat()
    );
    let mut interrupted = vec![control('c')];
    interrupted.extend(typed("x"));
    assert_eq!(heard(&[(0, b"\x1b[1\x03x")]), interrupted);
    assert_eq!(heard(&[(0, b"\xff\xc3")]), []);
}

#[test]
fn answers_of_the_terminal_are_no_keys() {
    for answer in [
        &b"\x1b]11;rgb:0000/0000/0000\x07"[..],
        b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
        b"\x1bP>|xterm(380)\x1b\\",
        b"\x1b_Gi=1;OK\x1b\\",
        b"\x1b[1;1R",
        b"\x1b[?2026;2$y",
        b"\x1b[I",
    ] {
        let pieces: [(u64, &[u8]); 3] = [(0, &answer[..3]), (60, &answer[3..]), (61, b"a")];
        assert_eq!(heard(&pieces), typed("a"), "{answer:?}");
    }
    // Late, and never ended.
    assert_eq!(
        heard(&[(0, b"\x1b]11;rg"), (700, b"b:00"), (800, b"\x03")]),
        [control('c')]
    );
    assert_eq!(
        heard(&[(0, b"\x1b[?1u\x1b[?62;4c")]),
        [Heard::Keyboard, Heard::Attributes]
    );
}

/// A slow line, or Ctrl-C, in the middle of a paste.
#[test]
fn the_rest_of_a_paste_that_was_given_up_is_no_keys() {
    let pasted = |text: &str| Heard::Paste(text.to_owned());
    let ctrl_c = pressed(KeyCode::Char('c'), CTRL);
    let begun: (u64, &[u8]) = (0, b"\x1b[200~first\rsecond li");
    assert_eq!(
        heard(&[begun, (1300, b"ne\r\x1b[201~x")]),
        [pasted("first\rsecond li"), pasted("ne\r"), letter('x')]
    );
    assert_eq!(
        heard(&[begun, (1300, b"ne\r/quit\r"), (1400, b"\x1b[201~")]),
        [pasted("first\rsecond li"), pasted("ne\r/quit\r")]
    );
    assert_eq!(
        heard(&[begun, (100, b"\x03"), (150, b"bbb\r\x1b[201~")]),
        [pasted("first\rsecond li"), ctrl_c, pasted("bbb\r")]
    );
    // Where the end is lost, keys work again.
    assert_eq!(
        heard(&[begun, (1300, b"a"), (1500, b"\r"), (1600, b"\x1b[A")]),
        [
            pasted("first\rsecond li"),
            letter('a'),
            pressed(KeyCode::Enter, NONE),
            pressed(KeyCode::Up, NONE)
        ]
    );
    // After the end, and long after, several bytes at once are keys as ever.
    assert_eq!(
        heard(&[begun, (1300, b"\x1b[201~"), (1400, b"a\r")]),
        [
            pasted("first\rsecond li"),
            letter('a'),
            pressed(KeyCode::Enter, NONE)
        ]
    );
    assert_eq!(
        heard(&[begun, (60_000, b"a\r")]),
        [
            pasted("first\rsecond li"),
            letter('a'),
            pressed(KeyCode::Enter, NONE)
        ]
    );
}

#[test]
fn escape_just_before_a_paste_is_a_key_of_its_own() {
    assert_eq!(
        heard(&[(0, b"\x1b\x1b[200~hello\r\x1b[201~")]),
        [
            pressed(KeyCode::Esc, NONE),
            Heard::Paste("hello\r".to_owned())
        ]
    );
    assert_eq!(
        heard(&[(0, b"\x1b"), (10, b"\x1b[200~hello\r\x1b[201~")]),
        [
            pressed(KeyCode::Esc, NONE),
            Heard::Paste("hello\r".to_owned())
        ]
    );
}
