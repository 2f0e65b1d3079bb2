//! The clipboard: the terminal's own over OSC 52, and the system's where this is the machine that the user
//! sits at.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::Sender;

use crossterm::clipboard::CopyToClipboard;
use crossterm::execute;

use crate::tui::Incoming;
use crate::tui::event::Msg;

/// Many terminals ignore more than this in one OSC 52 sequence.
const OSC_52_LIMIT: usize = 74_994;

/// A program that puts its standard input on the clipboard, with its arguments.
type Program = &'static [&'static str];

/// Copies `text`; [`Msg::Done`] follows when that is over.
pub fn copy(text: &str, events: &Sender<Incoming>) -> io::Result<()> {
    #[cfg(not(windows))]
    execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))?;
    let (text, events) = (text.to_owned(), events.clone());
    // A program that hangs, as one may without a display, must not hang the chat.
    std::thread::Builder::new()
        .name("clipboard".to_owned())
        .spawn(move || {
            let programs = programs(std::env::consts::OS, |name| {
                std::env::var_os(name).is_some_and(|value| !value.is_empty())
            });
            let system = programs.iter().any(|program| feed(program, &text).is_ok());
            let _ = events.send(Incoming::Msg(Msg::Done(said(&text, system))));
        })
        .map(|_| ())
}

/// What may copy here, in the order to try.
fn programs(system: &str, is_set: impl Fn(&str) -> bool) -> Vec<Program> {
    if is_set("SSH_CONNECTION") || is_set("SSH_TTY") {
        // The clipboard of a machine far away is of no use.
        return Vec::new();
    }
    let mut programs: Vec<Program> = Vec::new();
    match system {
        "macos" => programs.push(&["pbcopy"]),
        "windows" => programs.push(&["clip.exe"]),
        _ => {
            if is_set("WAYLAND_DISPLAY") {
                programs.push(&["wl-copy"]);
            }
            if is_set("DISPLAY") {
                programs.push(&["xclip", "-selection", "clipboard"]);
                programs.push(&["xsel", "--clipboard", "--input"]);
            }
            if is_set("WSL_DISTRO_NAME") {
                programs.push(&["clip.exe"]);
            }
        }
    }
    programs
}

fn feed(program: Program, text: &str) -> io::Result<()> {
    let (name, arguments) = program
        .split_first()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let written = match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(text.as_bytes()),
        None => Ok(()),
    };
    let status = child.wait()?;
    written?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{name} ended with {status}")))
    }
}

fn said(text: &str, system: bool) -> String {
    let count = text.chars().count();
    let encoded = text.len().div_ceil(3) * 4;
    if !system && encoded > OSC_52_LIMIT {
        format!("{count} characters sent to the clipboard; a terminal may refuse that many")
    } else {
        format!("copied {count} characters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(system: &str, set: &[&str]) -> Vec<&'static str> {
        programs(system, |name| set.contains(&name))
            .iter()
            .map(|program| program[0])
            .collect()
    }

    #[test]
    fn the_clipboard_is_the_one_of_the_machine_that_the_user_sits_at() {
        assert_eq!(names("macos", &[]), ["pbcopy"]);
        assert_eq!(
            names("linux", &["WAYLAND_DISPLAY", "DISPLAY"]),
            ["wl-copy", "xclip", "xsel"]
        );
        assert_eq!(names("linux", &["WSL_DISTRO_NAME"]), ["clip.exe"]);
        assert_eq!(names("linux", &[]), [""; 0]);
        assert_eq!(names("macos", &["SSH_CONNECTION"]), [""; 0]);
    }

    #[test]
    fn a_text_that_a_terminal_may_refuse_is_not_called_copied() {
        let long = "x".repeat(60_000);
        assert_eq!(said(&long, true), "copied 60000 characters");
        assert!(said(&long, false).contains("may refuse"));
        assert_eq!(said("é!", false), "copied 2 characters");
    }
}
