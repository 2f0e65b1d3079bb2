//! Numbers as people read them.

use std::time::Duration;

/// `12,345`
pub(crate) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `0.42 s`, `3.2 s`, `2 min 05 s`
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        ..0.995 => format!("{seconds:.2} s"),
        ..99.95 => format!("{seconds:.1} s"),
        _ => {
            let whole = seconds.round() as u64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        }
    }
}

/// `0.8`, `23.4`, `1,234`: tokens per second.
pub(crate) fn rate(value: f64) -> String {
    if value < 99.95 {
        format!("{value:.1}")
    } else {
        count(value.round() as usize)
    }
}

/// `1.5 GB`
pub(crate) fn bytes(number: u64) -> String {
    let number = number as f64;
    let (value, unit) = match number {
        ..1e6 => (number / 1e3, "kB"),
        ..1e9 => (number / 1e6, "MB"),
        _ => (number / 1e9, "GB"),
    };
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded_to_what_matters() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        let times = [0.004, 0.42, 3.21, 125.4].map(|s| seconds(Duration::from_secs_f64(s)));
        assert_eq!(times, ["0.00 s", "0.42 s", "3.2 s", "2 min 05 s"]);
        assert_eq!([0.84, 23.44, 1234.4].map(rate), ["0.8", "23.4", "1,234"]);
        assert_eq!(
            [1_500, 2_000_000, 13_800_000_000].map(bytes),
            ["1.5 kB", "2.0 MB", "13.8 GB"]
        );
    }
}
