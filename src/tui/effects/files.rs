//! Files that the user names: read as text, written but never over another.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// More text than any context holds (131,072 tokens of at most 128 bytes).
const MOST_BYTES: u64 = 16 << 20;

/// The text of a file: UTF-8, without a byte order mark, CRLF as LF, one line break less at the end; or why
/// it cannot be read.
pub fn read(path: &Path) -> Result<String, String> {
    let path = expanded(path);
    // A pipe or a device would hold up the chat for as long as it likes.
    if !fs::metadata(&path).map_err(said)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(said)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!(
            "it has more than {} MiB, which is more text than any context holds",
            MOST_BYTES >> 20
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("it is not UTF-8 text (byte {at})")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n");
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(text.to_owned())
}

#[allow(clippy::needless_pass_by_value)] // As `map_err` hands it over.
fn said(error: std::io::Error) -> String {
    error.to_string()
}

/// Writes a new file; what it says is for the status line.
pub fn export(path: &Path, content: &str) -> Result<String, String> {
    let shown = path.display();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_text_by_the_rules_of_run() {
        let home = tempfile::tempdir().unwrap();
        let read = |content: &[u8]| {
            let path = home.path().join("x.txt");
            fs::write(&path, content).unwrap();
            super::read(&path)
        };
        assert_eq!(read("\u{feff}a\r\nb\n".as_bytes()), Ok("a\nb".to_owned()));
        assert_eq!(read(b"a\n\n"), Ok("a\n".to_owned()));
        assert_eq!(
            read(b"ab\xff"),
            Err("it is not UTF-8 text (byte 2)".to_owned())
        );
        assert_eq!(read(b" \n"), Err("it is empty".to_owned()));
        assert_eq!(super::read(home.path()), Err("it is not a file".to_owned()));
        assert!(super::read(&home.path().join("no")).is_err());
    }

    #[test]
    fn an_export_never_writes_over_a_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.md");
        assert!(export(&path, "one").unwrap().starts_with("written to"));
        assert!(
            export(&path, "two")
                .unwrap_err()
                .contains("is there already")
        );
        assert_eq!(fs::read_to_string(path).unwrap(), "one");
    }
}
