//! `$VISUAL` or `$EDITOR` on a text.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Child;
use std::process::{Command, ExitStatus};
use std::time::SystemTime;
#[cfg(unix)]
use std::time::{Duration, Instant};

#[cfg(unix)]
use crate::tui::signals;

/// What is started where nothing is set.
const DEFAULT: &str = if cfg!(windows) { "notepad" } else { "vi" };

/// How often it is looked whether the editor, or the chat, has ended.
#[cfg(unix)]
const GLANCE: Duration = Duration::from_millis(20);
/// How long an editor may take to end when it is told to.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_millis(500);

/// The text as the user leaves it, or why there is none. The terminal must be the editor's.
pub fn edit(text: &str) -> Result<String, String> {
    let name = chosen(|name| std::env::var(name).ok());
    let draft = Draft::new(text).map_err(|error| format!("no file to edit: {error}"))?;
    let status =
        run(&name, &draft.0).map_err(|error| format!("`{name}` cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!(
            "`{name}` ended with {status}: the draft is as it was"
        ));
    }
    let edited = fs::read_to_string(&draft.0)
        .map_err(|error| format!("what `{name}` wrote cannot be read: {error}"))?;
    let edited = edited.replace("\r\n", "\n");
    // Editors put it there.
    Ok(edited.strip_suffix('\n').unwrap_or(&edited).to_owned())
}

fn chosen(variable: impl Fn(&str) -> Option<String>) -> String {
    ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.trim().is_empty())
        .unwrap_or_else(|| DEFAULT.to_owned())
}

/// Through the shell, as the variable may hold arguments and quotes.
#[cfg(unix)]
fn run(name: &str, path: &Path) -> io::Result<ExitStatus> {
    let mut editor = Command::new("/bin/sh")
        .args(["-c", &format!("{name} \"$1\""), "sh"])
        .arg(path)
        .spawn()?;
    loop {
        if let Some(status) = editor.try_wait()? {
            return Ok(status);
        }
        if signals::is_ending() {
            return end(&mut editor);
        }
        std::thread::sleep(GLANCE);
    }
}

/// Ends an editor: the chat is to end, and its file goes away.
#[cfg(unix)]
fn end(editor: &mut Child) -> io::Result<ExitStatus> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    if let Ok(id) = i32::try_from(editor.id()) {
        // One that has ended already is no failure.
        let _ = kill(Pid::from_raw(id), Signal::SIGHUP);
    }
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = editor.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(GLANCE);
    }
    editor.kill()?;
    editor.wait()
}

#[cfg(not(unix))]
fn run(name: &str, path: &Path) -> io::Result<ExitStatus> {
    let mut words = name.split_whitespace();
    Command::new(words.next().unwrap_or(DEFAULT))
        .args(words)
        .arg(path)
        .status()
}

/// A file that only this user reads, for as long as it is edited.
struct Draft(PathBuf);

impl Draft {
    fn new(text: &str) -> io::Result<Self> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos());
        let name = format!("gptoss-{}-{now}.md", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        let draft = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visual_comes_before_editor_and_nothing_is_nothing() {
        let with = |set: &[(&str, &str)]| {
            chosen(|name| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(
            with(&[("EDITOR", "nano"), ("VISUAL", "code -w")]),
            "code -w"
        );
        assert_eq!(with(&[("EDITOR", "nano"), ("VISUAL", " ")]), "nano");
        assert_eq!(with(&[]), DEFAULT);
    }

    #[test]
    fn a_draft_is_private_and_goes_away() {
        let draft = Draft::new("a\nb").unwrap();
        let path = draft.0.clone();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        drop(draft);
        assert!(!path.exists());
    }

    #[test]
    #[cfg(unix)]
    fn an_editor_may_have_arguments_and_its_failure_is_told() {
        let draft = Draft::new("old").unwrap();
        assert!(run("sed -i s/old/new/", &draft.0).unwrap().success());
        assert_eq!(fs::read_to_string(&draft.0).unwrap(), "new");
        assert!(!run("false", &draft.0).unwrap().success());
    }
}
