//! Bytes of a terminal to keys, pastes and the mouse.
//!
//! A sequence may come in pieces, and its end may never come: what is unfinished is given up after a moment, and Ctrl-C is one
//! whatever stands before it. Answers of the terminal to questions are no keys. The forms are those of ECMA-48, of xterm
//! (<https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>) and of kitty
//! (<https://sw.kovidgoyal.net/kitty/keyboard-protocol/>).

mod sequences;

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// How long ESC may be the beginning of something.
const ESCAPE: Duration = Duration::from_millis(25);
/// How long the rest of a sequence may take.
const SEQUENCE: Duration = Duration::from_millis(100);
/// How long nothing may come in a paste, or in a string of the terminal.
const PASTE: Duration = Duration::from_secs(1);

const CTRL_C: u8 = 0x03;
const ESC: u8 = 0x1b;
const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
/// How long after a paste was given up its rest may come: it must not be taken for keys, of which Enter sends.
const LATE: Duration = Duration::from_secs(30);

/// What the terminal said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Key(KeyEvent),
    Paste(String),
    /// Notches of the wheel; up is negative.
    Wheel(i16),
    Click,
    /// It can tell Shift-Enter from Enter.
    Keyboard,
    /// It has answered what everybody answers.
    Attributes,
}

/// What stands at the beginning of the bytes.
enum Parsed {
    /// So many bytes, and what they mean, if anything.
    Whole(usize, Option<Heard>),
    /// The beginning of something.
    Part(Duration),
}

/// Takes bytes as they come.
#[derive(Debug, Default)]
pub struct Decoder {
    /// What is not understood yet.
    bytes: Vec<u8>,
    /// What was pasted so far.
    paste: Option<Vec<u8>>,
    /// When the last byte came.
    last: Option<Instant>,
    /// A paste was given up before its end came; its last byte came then.
    given_up: Option<Instant>,
}

impl Decoder {
    /// Bytes came at `now`.
    pub fn push(&mut self, bytes: &[u8], now: Instant) -> Vec<Heard> {
        let mut heard = self.expire(now);
        self.last = Some(now);
        let bytes = match self.rest_of_paste(bytes, now) {
            (None, bytes) => bytes,
            (Some(rest), bytes) => {
                heard.push(rest);
                bytes
            }
        };
        if bytes.is_empty() {
            return heard;
        }
        // Somebody presses it: in a paste it would come with other bytes.
        if bytes == [CTRL_C] || bytes == b"\x1b[99;5u" {
            self.give_up_paste(&mut heard);
            self.bytes.clear();
            heard.push(control('c'));
            return heard;
        }
        self.bytes.extend_from_slice(bytes);
        self.parse(&mut heard);
        // The same where it came right behind what has no end.
        if self
            .paste
            .as_mut()
            .is_some_and(|paste| paste.pop_if(|last| *last == CTRL_C).is_some())
        {
            self.give_up_paste(&mut heard);
            heard.push(control('c'));
        }
        heard
    }

    /// What of `bytes` belongs to a paste that was given up, and what does not: all up to its end, and what comes in
    /// one piece with a line break, which nobody types so fast.
    fn rest_of_paste<'a>(&mut self, bytes: &'a [u8], now: Instant) -> (Option<Heard>, &'a [u8]) {
        let late = |since: &Instant| now.saturating_duration_since(*since) < LATE;
        if self.paste.is_some() || !self.given_up.as_ref().is_some_and(late) {
            return (None, bytes);
        }
        let mut windows = bytes.windows(PASTE_END.len());
        let (rest, after) = match windows.position(|window| window == PASTE_END) {
            Some(at) => {
                self.given_up = None;
                (&bytes[..at], &bytes[at + PASTE_END.len()..])
            }
            None if bytes.len() > 1 && bytes[0] != ESC && bytes.contains(&b'\r') => {
                self.given_up = Some(now);
                (bytes, &bytes[bytes.len()..])
            }
            None => return (None, bytes),
        };
        let text = String::from_utf8_lossy(rest).into_owned();
        (
            Some(text).filter(|text| !text.is_empty()).map(Heard::Paste),
            after,
        )
    }

    /// The paste so far, whose rest may still come.
    fn give_up_paste(&mut self, heard: &mut Vec<Heard>) {
        if self.paste.is_some() {
            self.given_up = self.last;
            heard.extend(self.end_paste());
        }
    }

    /// How long to wait for more before [`Decoder::expire`]; `None` where nothing is unfinished.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let lasts = match &self.paste {
            Some(_) => PASTE,
            None if self.bytes.is_empty() => return None,
            None => match parse(&self.bytes) {
                Parsed::Part(lasts) => lasts,
                Parsed::Whole(..) => Duration::ZERO,
            },
        };
        let last = self.last.unwrap_or(now);
        Some((last + lasts).saturating_duration_since(now))
    }

    /// Gives up what is unfinished for too long at `now`.
    pub fn expire(&mut self, now: Instant) -> Vec<Heard> {
        let mut heard = Vec::new();
        if !self.wait(now).is_some_and(|wait| wait.is_zero()) {
            return heard;
        }
        if self.paste.is_some() {
            self.give_up_paste(&mut heard);
            return heard;
        }
        match self.bytes.as_slice() {
            [ESC] => heard.push(key(KeyCode::Esc)),
            [ESC, ESC] => heard.extend([key(KeyCode::Esc), key(KeyCode::Esc)]),
            [ESC, byte @ (b'O' | b'P' | b']' | b'_')] => heard.push(alt(char::from(*byte))),
            // A half sequence is nothing.
            _ => {}
        }
        self.bytes.clear();
        heard
    }

    /// What was pasted, its end lost or not.
    fn end_paste(&mut self) -> Option<Heard> {
        let mut pasted = self.paste.take()?;
        pasted.append(&mut self.bytes);
        Some(Heard::Paste(String::from_utf8_lossy(&pasted).into_owned()))
    }

    fn parse(&mut self, heard: &mut Vec<Heard>) {
        loop {
            if let Some(pasted) = &mut self.paste {
                // The end may have begun in the piece before.
                let from = pasted.len().saturating_sub(PASTE_END.len() - 1);
                pasted.append(&mut self.bytes);
                let mut windows = pasted[from..].windows(PASTE_END.len());
                let Some(at) = windows.position(|window| window == PASTE_END) else {
                    return;
                };
                self.bytes = pasted.split_off(from + at + PASTE_END.len());
                pasted.truncate(from + at);
                let rest = std::mem::take(&mut self.bytes);
                heard.extend(self.end_paste());
                self.bytes = rest;
            }
            if self.bytes.is_empty() {
                return;
            }
            match parse(&self.bytes) {
                Parsed::Part(_) => return,
                Parsed::Whole(length, meaning) => {
                    let begins = self.bytes.starts_with(PASTE_BEGIN);
                    self.bytes.drain(..length);
                    heard.extend(meaning);
                    if begins {
                        self.paste = Some(Vec::new());
                    }
                }
            }
        }
    }
}

fn key(code: KeyCode) -> Heard {
    Heard::Key(KeyEvent::from(code))
}

fn control(letter: char) -> Heard {
    Heard::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL))
}

fn alt(letter: char) -> Heard {
    let shift = if letter.is_uppercase() {
        KeyModifiers::SHIFT
    } else {
        KeyModifiers::NONE
    };
    Heard::Key(KeyEvent::new(
        KeyCode::Char(letter),
        KeyModifiers::ALT | shift,
    ))
}

/// Parses the beginning of bytes, of which there is at least one.
fn parse(bytes: &[u8]) -> Parsed {
    if bytes[0] != ESC {
        return plain(bytes);
    }
    let Some(&second) = bytes.get(1) else {
        return Parsed::Part(ESCAPE);
    };
    let third = bytes.get(2).copied();
    match (second, third) {
        // Escape was begun and Ctrl-C pressed.
        (CTRL_C, _) => Parsed::Whole(1, None),
        (ESC, None) => Parsed::Part(ESCAPE),
        // Esc pressed just before a paste.
        (ESC, _) if bytes[1..].starts_with(PASTE_BEGIN) => {
            Parsed::Whole(1, Some(key(KeyCode::Esc)))
        }
        // Alt and a key that has a sequence of its own.
        (ESC, Some(b'[' | b'O')) => with_alt(parse(&bytes[1..])),
        (ESC, _) => Parsed::Whole(1, Some(key(KeyCode::Esc))),
        (b'[', _) => sequences::csi(bytes),
        (b'O', Some(last)) => match sequences::ss3(last) {
            Some(code) => Parsed::Whole(3, Some(key(code))),
            None => Parsed::Whole(2, Some(alt('O'))),
        },
        // What follows tells them from Alt and a letter.
        (b'O' | b']' | b'P' | b'_', None) => Parsed::Part(SEQUENCE),
        (b']', Some(b'0'..=b'9')) | (b'P', Some(b'0'..=b'9' | b'!' | b'$' | b'>' | b'+')) => {
            string(bytes)
        }
        (b'_', Some(b'G')) => string(bytes),
        _ => with_alt(plain(&bytes[1..])),
    }
}

/// With the ESC before it.
fn with_alt(parsed: Parsed) -> Parsed {
    match parsed {
        Parsed::Whole(length, Some(Heard::Key(mut event))) => {
            event.modifiers |= KeyModifiers::ALT;
            Parsed::Whole(length + 1, Some(Heard::Key(event)))
        }
        Parsed::Whole(length, heard) => Parsed::Whole(length + 1, heard),
        part @ Parsed::Part(_) => part,
    }
}

/// A character, or what a control character means.
fn plain(bytes: &[u8]) -> Parsed {
    let heard = match bytes[0] {
        b'\r' => key(KeyCode::Enter),
        b'\t' => key(KeyCode::Tab),
        0x7f => key(KeyCode::Backspace),
        0 => control(' '),
        byte @ 0x01..=0x1a => control(char::from(byte - 1 + b'a')),
        byte @ 0x1c..=0x1f => control(char::from(byte - 0x1c + b'4')),
        _ => return character(bytes),
    };
    Parsed::Whole(1, Some(heard))
}

fn character(bytes: &[u8]) -> Parsed {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let end = length.min(bytes.len());
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => Parsed::Whole(end, text.chars().next().map(letter)),
        Err(error) if error.error_len().is_none() => Parsed::Part(SEQUENCE),
        Err(_) => Parsed::Whole(1, None),
    }
}

fn letter(letter: char) -> Heard {
    let modifiers = if letter.is_uppercase() {
        KeyModifiers::SHIFT
    } else {
        KeyModifiers::NONE
    };
    Heard::Key(KeyEvent::new(KeyCode::Char(letter), modifiers))
}

/// An answer of the terminal in a string, which nobody asked for any more.
fn string(bytes: &[u8]) -> Parsed {
    for (at, byte) in bytes.iter().enumerate().skip(2) {
        match byte {
            0x07 | 0x18 | 0x1a => return Parsed::Whole(at + 1, None),
            &CTRL_C => return Parsed::Whole(at, None),
            &ESC => match bytes.get(at + 1) {
                Some(b'\\') => return Parsed::Whole(at + 2, None),
                Some(_) => return Parsed::Whole(at, None),
                None => break,
            },
            _ => {}
        }
    }
    Parsed::Part(PASTE)
}

#[cfg(test)]
mod tests;
