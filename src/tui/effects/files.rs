//! Files that the user names: read as text, written but never over another.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::super::text;

/// More text than any context holds (131,072 tokens of at most 128 bytes).
const MOST_BYTES: u64 = 16 << 20;

/// The text of a file: UTF-8, without a byte order mark, CRLF as LF, one line break less at the end.
pub fn read(path: &Path) -> Result<String, String> {
    let full = expanded(path);
    let shown = shown(path);
    let failed = |error| format!("cannot read `{shown}`: {error}");
    // A pipe or a device would hold up the chat for as long as it likes.
    if !fs::metadata(&full).map_err(failed)?.is_file() {
        return Err(format!("`{shown}` is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(&full)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!(
            "`{shown}` has more than {} MiB, which is more text than any context holds",
            MOST_BYTES >> 20
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("`{shown}` is not UTF-8 text (byte {at})")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n");
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(format!("`{shown}` is empty"));
    }
    Ok(text.to_owned())
}

/// Writes a new file; what it says is for the status line.
pub fn export(path: &Path, content: &str) -> Result<String, String> {
    let shown = shown(path);
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => format!("`{shown}` is there already: give another name"),
        _ => format!("cannot write `{shown}`: {error}"),
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(expanded(path))
        .map_err(failed)?;
    file.write_all(content.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    Ok(format!("written to `{shown}`"))
}

/// `~` is the home directory here as in a shell.
fn expanded(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// As it may stand on the screen.
fn shown(path: &Path) -> String {
    text::sanitize(&path.to_string_lossy()).into_owned()
}
