//! What the sequences of keys and of the mouse mean.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Heard, Parsed, SEQUENCE};

/// `ESC [`, parameters, one last character.
pub(super) fn csi(bytes: &[u8]) -> Parsed {
    match bytes.get(2) {
        // Function keys of the Linux console.
        Some(b'[') => {
            return match bytes.get(3) {
                Some(last @ b'A'..=b'E') => {
                    let code = KeyCode::F(last - b'A' + 1);
                    Parsed::Whole(4, Some(Heard::Key(KeyEvent::from(code))))
                }
                Some(_) => Parsed::Whole(3, None),
                None => Parsed::Part(SEQUENCE),
            };
        }
        // The mouse of a terminal that knows no better form: button, column, row.
        Some(b'M') => {
            return match bytes.get(3) {
                Some(button) if bytes.len() >= 6 => {
                    Parsed::Whole(6, mouse(u32::from(button.saturating_sub(32)), true))
                }
                _ => Parsed::Part(SEQUENCE),
            };
        }
        _ => {}
    }
    for (at, byte) in bytes.iter().enumerate().skip(2) {
        match byte {
            b' '..=b'?' => {}
            b'@'..=b'~' => {
                let parameters = std::str::from_utf8(&bytes[2..at]).unwrap_or_default();
                return Parsed::Whole(at + 1, meaning(parameters, *byte));
            }
            // Broken off; what stands there is something else.
            _ => return Parsed::Whole(at, None),
        }
    }
    Parsed::Part(SEQUENCE)
}

/// The last character after `ESC O`.
pub(super) fn ss3(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'M' => KeyCode::Enter,
        b'P'..=b'S' => KeyCode::F(last - b'P' + 1),
        _ => return None,
    })
}

fn meaning(parameters: &str, last: u8) -> Option<Heard> {
    if let Some(rest) = parameters.strip_prefix('<') {
        let button = rest.split(';').next()?.parse().ok()?;
        return mouse(button, last == b'M');
    }
    if parameters.starts_with('?') {
        return match last {
            b'u' => Some(Heard::Keyboard),
            b'c' => Some(Heard::Attributes),
            _ => None,
        };
    }
    let mut numbers = parameters.split(';').map(|parameter| {
        let mut parts = parameter.split(':').map(|part| part.parse::<u32>().ok());
        (parts.next().flatten(), parts.next().flatten())
    });
    let (first, _) = numbers.next().unwrap_or_default();
    let (mut held, kind) = numbers.next().unwrap_or_default();
    let mut code = match last {
        b'A'..=b'D' | b'F' | b'H' | b'P' | b'Q' | b'S' => ss3(last)?,
        b'Z' => {
            return Some(Heard::Key(KeyEvent::new(
                KeyCode::BackTab,
                KeyModifiers::SHIFT,
            )));
        }
        b'u' => of_number(first?)?,
        // `27;modifiers;code~`, as xterm has keys that it has no other form for.
        b'~' if first == Some(27) => of_number(numbers.next()?.0?)?,
        b'~' => of_tilde(first?)?,
        _ => return None,
    };
    // Released.
    if kind == Some(3) {
        return None;
    }
    let modifiers = modifiers(held.take().unwrap_or(1));
    if code == KeyCode::Tab && modifiers.contains(KeyModifiers::SHIFT) {
        code = KeyCode::BackTab;
    }
    Some(Heard::Key(KeyEvent::new(code, modifiers)))
}

fn modifiers(parameter: u32) -> KeyModifiers {
    let bits = parameter.saturating_sub(1);
    [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
    ]
    .into_iter()
    .filter(|(bit, _)| bits & bit != 0)
    .fold(KeyModifiers::NONE, |all, (_, one)| all | one)
}

fn of_tilde(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(number as u8 - 10),
        17..=21 => KeyCode::F(number as u8 - 11),
        23 | 24 => KeyCode::F(number as u8 - 12),
        _ => return None,
    })
}

/// A key by its character, or by its number in kitty's list.
fn of_number(number: u32) -> Option<KeyCode> {
    Some(match number {
        9 => KeyCode::Tab,
        13 | 57414 => KeyCode::Enter,
        27 => KeyCode::Esc,
        8 | 127 => KeyCode::Backspace,
        57399..=57408 => KeyCode::Char(char::from_digit(number - 57399, 10)?),
        57409 => KeyCode::Char('.'),
        57410 => KeyCode::Char('/'),
        57411 => KeyCode::Char('*'),
        57412 => KeyCode::Char('-'),
        57413 => KeyCode::Char('+'),
        57415 => KeyCode::Char('='),
        57417 => KeyCode::Left,
        57418 => KeyCode::Right,
        57419 => KeyCode::Up,
        57420 => KeyCode::Down,
        57421 => KeyCode::PageUp,
        57422 => KeyCode::PageDown,
        57423 => KeyCode::Home,
        57424 => KeyCode::End,
        57425 => KeyCode::Insert,
        57426 => KeyCode::Delete,
        57344..=63743 => return None,
        number => KeyCode::Char(char::from_u32(number).filter(|letter| !letter.is_control())?),
    })
}

/// A button: the wheel has numbers of its own, and movements a bit.
fn mouse(button: u32, pressed: bool) -> Option<Heard> {
    // Shift, Alt and Ctrl.
    match button & !0b1_1100 {
        64 => Some(Heard::Wheel(-1)),
        65 => Some(Heard::Wheel(1)),
        0..=2 if pressed => Some(Heard::Click),
        _ => None,
    }
}
