//! Ages of sessions: as users write them, and as lists show them.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Units from the largest to the smallest. Months and years are left out: they differ in length.
const UNITS: [(char, u64); 4] = [('w', 7 * DAY), ('d', DAY), ('h', HOUR), ('m', MINUTE)];

/// Parses an age such as `30d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number with a unit (m, h, d or w), such as 30d".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok()).ok_or_else(wrong)?;
    let (_, seconds) = UNITS.into_iter().find(|(known, _)| *known == unit).ok_or_else(wrong)?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// A short form of an age, in its largest whole unit.
pub(crate) fn short(age: Duration) -> String {
    let seconds = age.as_secs();
    let unit = UNITS.into_iter().filter(|(unit, _)| *unit != 'w').find(|(_, length)| seconds >= *length);
    unit.map_or_else(|| "now".to_owned(), |(unit, length)| format!("{}{unit}", seconds / length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_number_and_a_unit() {
        assert_eq!(parse("30d"), Ok(Duration::from_secs(30 * DAY)));
        assert_eq!(parse("2w"), Ok(Duration::from_secs(14 * DAY)));
        assert_eq!(parse("90m"), Ok(Duration::from_secs(90 * MINUTE)));
        for wrong in ["", "30", "d", "-1d", "3y", "99999999999999999999d", "18446744073709551615w", "3 d"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_age_is_shown_in_its_largest_unit() {
        let shown = |seconds| short(Duration::from_secs(seconds));
        assert_eq!([shown(5), shown(70), shown(3 * HOUR), shown(45 * DAY)], ["now", "1m", "3h", "45d"]);
    }
}
