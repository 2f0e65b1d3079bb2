//! Numbers and sizes as flags, variables and files have them.

use std::ops::RangeInclusive;

/// What a size may be.
pub const SIZE: &str = "a size above 0 such as 8GB, 7.5 GB, 11GiB or 500MB, or a number of bytes";

/// Units of a size, in small letters, and their bytes.
const UNITS: [(&str, u64); 9] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// The whole number `text`, which is digits alone.
///
/// # Errors
/// What was expected: a number from `least` on, or up to the most that there is room for.
pub fn whole<T: TryFrom<u64>>(text: &str, least: u64) -> Result<T, String> {
    if !is_digits(text) {
        return Err(format!("a whole number from {least} on"));
    }
    match text.parse::<u64>() {
        Ok(number) if number < least => Err(format!("a whole number from {least} on")),
        Ok(number) => {
            T::try_from(number).map_err(|_| format!("a whole number up to {}", usize::MAX))
        }
        Err(_) => Err(format!("a whole number up to {}", u64::MAX)),
    }
}

/// The whole number `text` within `range`.
///
/// # Errors
/// What was expected.
pub fn within(text: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if is_digits(text) && range.contains(&number) => Ok(number),
        _ => Err(format!(
            "a whole number from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

/// The number `text`, of which no sign says that it is positive.
///
/// # Errors
/// What was expected.
pub fn decimal(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(number) if !text.starts_with('+') => Ok(number),
        _ => Err("a number".to_owned()),
    }
}

/// The bytes of the size `text`: a number with a unit, decimal or binary, in letters of any case, or whole bytes.
///
/// # Errors
/// What was expected: `SIZE`.
pub fn size(text: &str) -> Result<u64, String> {
    bytes(text.trim()).ok_or_else(|| SIZE.to_owned())
}

fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    let bytes = match number.split_once('.') {
        None if is_digits(number) => number.parse::<u64>().ok()?.checked_mul(unit)?,
        Some((whole, part)) if unit > 1 && is_digits(whole) && is_digits(part) => {
            let bytes = number.parse::<f64>().ok()? * unit as f64;
            (bytes < u64::MAX as f64).then_some(bytes.round() as u64)?
        }
        _ => return None,
    };
    (bytes > 0).then_some(bytes)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_a_unit_or_bytes() {
        for (text, bytes) in [
            ("8GB", 8_000_000_000),
            ("7.5 GB", 7_500_000_000),
            ("11GiB", 11 << 30),
            ("500MB", 500_000_000),
            ("62.44mb", 62_440_000),
            (" 1 kib ", 1024),
            ("12 B", 12),
            ("2TB", 2_000_000_000_000),
            ("8000000000", 8_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            " ",
            "GB",
            "0",
            "0GB",
            "0.0GB",
            "-8GB",
            "+8GB",
            "8G",
            "8 gigabytes",
            "8,5GB",
            "8.5",
            "8.GB",
            ".5GB",
            "1.2.3GB",
            "1e9",
            "8GB 1",
            "all",
            "inf",
            "99999999999GB",
            "18446744073709551616",
            "99999999999.5GB",
        ] {
            assert_eq!(size(text), Err(SIZE.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_number_has_no_plus() {
        assert_eq!(whole::<usize>("3", 0), Ok(3));
        assert_eq!(within("3", 1..=4), Ok(3));
        assert_eq!(decimal("0.5"), Ok(0.5));
        assert_eq!(decimal("-1"), Ok(-1.0));
        assert_eq!(
            whole::<usize>("+3", 1),
            Err("a whole number from 1 on".to_owned())
        );
        assert_eq!(
            within("+3", 1..=4),
            Err("a whole number from 1 to 4".to_owned())
        );
        assert_eq!(decimal("+0.5"), Err("a number".to_owned()));
    }
}
