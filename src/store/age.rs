//! How long ago something was.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `now`, `5 min ago`, `3 h ago`, `2 d ago`; after a week the date.
pub(super) fn age(time: SystemTime, now: SystemTime, zone: &TimeZone) -> String {
    // Clocks are set back at times.
    let seconds = now.duration_since(time).unwrap_or_default().as_secs();
    match seconds {
        ..MINUTE => "now".to_owned(),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        _ if seconds < 7 * DAY => format!("{} d ago", seconds / DAY),
        _ => Timestamp::try_from(time).map_or_else(
            |_| "long ago".to_owned(),
            |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_age_is_rounded_down_and_a_date_after_a_week() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_751_112_005);
        let age = |seconds| super::age(time, time + Duration::from_secs(seconds), &TimeZone::UTC);
        assert_eq!(
            [0, 59, 60, 3599, 3600, 86_399, 86_400, 604_799, 604_800].map(age),
            [
                "now",
                "now",
                "1 min ago",
                "59 min ago",
                "1 h ago",
                "23 h ago",
                "1 d ago",
                "6 d ago",
                "2025-06-28"
            ]
        );
        let before = time - Duration::from_secs(100);
        assert_eq!(super::age(time, before, &TimeZone::UTC), "now");
    }
}
