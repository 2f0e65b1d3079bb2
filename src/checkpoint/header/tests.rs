use proptest::prelude::*;
use safetensors::Dtype;

use super::*;

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + data, 7);
    file
}

fn fault(file: &[u8]) -> String {
    read(file).unwrap_err().to_string()
}

const TWO: &str = r#"{"__metadata__":{"format":"pt"},
    "b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]},
    "a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}}  "#;

#[test]
fn tensors_come_by_offset_with_their_place_in_the_file() {
    let base = 8 + TWO.len();
    let entry = |name: &str, dtype, shape: &[usize], range: Range<usize>| Entry {
        name: name.into(),
        tensor: TensorType {
            dtype,
            shape: shape.to_vec(),
        },
        range: base + range.start..base + range.end,
    };
    assert_eq!(
        read(&file(TWO, 12)).unwrap(),
        [
            entry("a", Dtype::BF16, &[2, 2], 0..8),
            entry("b", Dtype::U8, &[4], 8..12),
        ]
    );
}

#[test]
fn reads_a_file_without_tensors_and_one_with_empty_tensors() {
    assert_eq!(read(&file("{}", 0)).unwrap(), []);
    let empty = r#"{"y":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},
        "x":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]},
        "a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}"#;
    let names: Vec<_> = read(&file(empty, 1))
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, ["x", "y", "a"]);
}

#[test]
fn refuses_a_file_shorter_than_a_length() {
    assert_eq!(
        fault(b"1234567"),
        "it has 7 bytes, and 8 are needed for the length of its header"
    );
}

#[test]
fn refuses_a_header_that_is_longer_than_the_file() {
    assert_eq!(
        fault(&file(TWO, 0)[..50]),
        format!(
            "its header claims {} bytes, the file has 42 more",
            TWO.len()
        )
    );
}

#[test]
fn refuses_a_header_of_absurd_length_before_reading_it() {
    for claimed in [100_000_001, u64::MAX] {
        let mut file = file(TWO, 12);
        file[..8].copy_from_slice(&claimed.to_le_bytes());
        assert_eq!(
            fault(&file),
            format!("its header claims {claimed} bytes, the format allows 100000000")
        );
    }
}

#[test]
fn tells_a_git_lfs_pointer() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4792272488\n";
    assert_eq!(
        fault(pointer),
        "it is a Git LFS pointer, and `git lfs pull` gets the file itself"
    );
}

#[test]
fn refuses_a_header_that_is_not_json_with_line_and_column() {
    assert_eq!(
        fault(&file("{\"a\":\n oops}", 0)),
        "its header cannot be read: expected value at line 2 column 2"
    );
    assert_eq!(
        fault(&file("[1, 2]", 0)),
        "its header cannot be read: invalid type: sequence, expected an object with one entry per tensor at line 1 column 0"
    );
    assert!(fault(&file("{\"\u{0}\": 1}", 0)).contains("control character"));
    let mut not_text = file(TWO, 12);
    not_text[20] = 0xff;
    assert!(fault(&not_text).contains("invalid unicode code point at line 1"));
}

#[test]
fn refuses_an_entry_of_another_structure() {
    for (entry, expected) in [
        ("1", "invalid type: integer `1`, expected struct TensorInfo"),
        (
            r#"{"dtype":"U8","shape":[1]}"#,
            "missing field `data_offsets`",
        ),
        (
            r#"{"dtype":"MXFP4","shape":[1],"data_offsets":[0,1]}"#,
            "unknown variant `MXFP4`, expected one of",
        ),
        (
            r#"{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}"#,
            "invalid value: integer `-1`, expected usize",
        ),
        (
            r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1e3]}"#,
            "invalid type: floating point `1000.0`, expected usize",
        ),
        (
            r#"{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}"#,
            "duplicate field `dtype`",
        ),
    ] {
        let text = fault(&file(&format!(r#"{{"a":{entry}}}"#), 1));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn refuses_two_tensors_of_one_name() {
    let header = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
        "b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},
        "a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
    assert_eq!(fault(&file(header, 8)), "its header names `a` twice");
}

fn pair(first: [usize; 2], second: [usize; 2], data: usize) -> String {
    let entry = |[begin, end]: [usize; 2]| {
        let size = end.saturating_sub(begin);
        format!(r#"{{"dtype":"U8","shape":[{size}],"data_offsets":[{begin},{end}]}}"#)
    };
    let header = format!(r#"{{"first":{},"second":{}}}"#, entry(first), entry(second));
    fault(&file(&header, data))
}

#[test]
fn refuses_overlaps_holes_and_what_lies_outside() {
    assert_eq!(
        pair([0, 8], [4, 12], 12),
        "`second` begins at byte 4, inside `first`, which ends at 8"
    );
    assert_eq!(
        pair([0, 8], [12, 16], 16),
        "bytes 8 to 12 belong to no tensor"
    );
    assert_eq!(
        pair([1, 8], [8, 16], 16),
        "bytes 0 to 1 belong to no tensor"
    );
    assert_eq!(
        pair([0, 8], [8, 16], 20),
        "bytes 16 to 20 belong to no tensor"
    );
    assert_eq!(
        pair([0, 8], [8, 16], 15),
        "it is cut short: `second` ends at byte 16 of the data, the file holds 15"
    );
}

#[test]
fn refuses_offsets_that_do_not_match_type_and_shape() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        let header =
            format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
        fault(&file(&header, 8))
    };
    assert_eq!(
        one("BF16", "[2, 3]", "[0,8]"),
        "`a` is BF16 [2, 3] and occupies bytes 0 to 8; that type and shape do not take that many"
    );
    // The end before the beginning, half a byte, and products beyond usize (the last one wraps round to 8).
    for (dtype, shape, offsets) in [
        ("U8", "[8]", "[8,0]"),
        ("F4", "[1]", "[0,0]"),
        ("U8", "[4611686018427387904,16]", "[0,8]"),
        ("F64", "[2305843009213693953]", "[0,8]"),
    ] {
        let text = one(dtype, shape, offsets);
        assert!(text.contains("do not take that many"), "{text}");
    }
}

/// Their sum wraps round to the length of the data, which the crate `safetensors` 0.8 lets pass.
#[test]
fn refuses_sizes_that_add_up_to_more_than_a_usize() {
    let eighth = usize::MAX / 8;
    let mut header = String::from("{");
    for i in 0..8 {
        let (begin, end) = (i * eighth, (i + 1) * eighth);
        let entry =
            format!(r#""{i}":{{"dtype":"U8","shape":[{eighth}],"data_offsets":[{begin},{end}]}},"#);
        header.push_str(&entry);
    }
    let begin = 8 * eighth;
    let entry = format!(
        r#""8":{{"dtype":"U8","shape":[7],"data_offsets":[{begin},{}]}}}}"#,
        usize::MAX
    );
    header.push_str(&entry);
    assert!(fault(&file(&header, 0)).starts_with("it is cut short: `0` ends at byte"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = read(&bytes);
    }

    #[test]
    fn what_is_read_of_a_damaged_file_still_fills_it(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut file = file(TWO, 12);
        for (place, byte) in changes {
            let place = place.index(file.len());
            file[place] = byte;
        }
        if let Ok(entries) = read(&file) {
            let mut end = 8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
            for entry in entries {
                prop_assert_eq!(entry.range.start, end);
                end = entry.range.end;
            }
            prop_assert_eq!(end, file.len());
        }
    }
}
