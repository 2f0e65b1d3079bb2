//! The files of cubecl as one, behind a checksum of all of it.
//!
//! After eight bytes of checksum each file is its path and its content, both as their length and their bytes. Numbers are
//! 64 bits, the lowest byte first.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

/// Bytes of a number.
const NUMBER: usize = size_of::<u64>();

/// The files of cubecl in `directory`; `None` where one of them is being written to.
///
/// # Errors
/// What the system says of reading.
pub fn pack(directory: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut paths = Vec::new();
    find(directory, &mut paths)?;
    paths.sort();
    let mut packed = vec![0; NUMBER];
    for path in paths {
        let content = fs::read(&path)?;
        let name = path.strip_prefix(directory).ok().and_then(Path::to_str);
        let Some(name) = name.filter(|_| is_whole(&path, &content)) else {
            return Ok(None);
        };
        for part in [name.as_bytes(), &content] {
            packed.extend((part.len() as u64).to_le_bytes());
            packed.extend(part);
        }
    }
    let checksum = sum(&packed[NUMBER..]).to_le_bytes();
    packed[..NUMBER].copy_from_slice(&checksum);
    Ok(Some(packed))
}

/// The files of an archive, each with its path below the directory; `None` where it is damaged.
pub fn unpack(archive: &[u8]) -> Option<Vec<(&Path, &[u8])>> {
    let (checksum, mut rest) = archive.split_first_chunk::<NUMBER>()?;
    if u64::from_le_bytes(*checksum) != sum(rest) {
        return None;
    }
    let mut files = Vec::new();
    while !rest.is_empty() {
        let name = std::str::from_utf8(part(&mut rest)?).ok()?;
        files.push((Path::new(name), part(&mut rest)?));
    }
    Some(files)
}

/// The checksum that `archive` begins with.
pub fn checksum(archive: &[u8]) -> u64 {
    archive
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// This hash may be another one in other versions of Rust, and so in other builds, which have archives of their own.
fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<NUMBER>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (part, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

/// Tables of contents and kernels; what else there is, as locks, is for the moment.
fn find(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, found)?;
        } else if path
            .extension()
            .is_some_and(|end| end == "cbor" || end == "log")
        {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether the last record is all there. cubecl would take what follows half a record for its rest.
fn is_whole(path: &Path, content: &[u8]) -> bool {
    if path.extension().is_some_and(|end| end == "log") {
        return content.last().is_none_or(|last| *last == b'\n');
    }
    let mut records = Cursor::new(content);
    while records.position() < content.len() as u64 {
        if ciborium::from_reader::<IgnoredAny, _>(&mut records).is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_any_other_byte_is_damage() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        file("vulkan/chunk0.cbor", b"\x82\x07\x63abc");
        file("vulkan/toc.json.log", b"{}\n");
        file("vulkan/toc.json.log.lock", b"now");
        file("empty.json.log", b"");
        let packed = pack(directory.path()).unwrap().unwrap();
        let expected: [(&Path, &[u8]); 3] = [
            (Path::new("empty.json.log"), b""),
            (Path::new("vulkan/chunk0.cbor"), b"\x82\x07\x63abc"),
            (Path::new("vulkan/toc.json.log"), b"{}\n"),
        ];
        assert_eq!(unpack(&packed).unwrap(), expected);
        for at in 0..packed.len() {
            assert_eq!(unpack(&packed[..at]), None, "{at} bytes");
            let mut damaged = packed.clone();
            damaged[at] ^= 1;
            assert_eq!(unpack(&damaged), None, "byte {at}");
        }
        assert_eq!(unpack(&[packed, vec![0]].concat()), None);
    }

    #[test]
    fn a_file_in_the_middle_of_a_record_is_not_packed() {
        for (name, content) in [
            ("chunk0.cbor", b"\x82\x07\x63ab".as_slice()),
            ("chunk0.cbor", b"\x82\x07\x63abc\x82"),
            ("toc.json.log", b"{}\n{"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join(name), content).unwrap();
            assert_eq!(pack(directory.path()).unwrap(), None, "{name}");
        }
    }
}
