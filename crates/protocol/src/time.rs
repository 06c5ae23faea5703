//! Formatting of times.

use crate::Millis;

const DAY: i64 = 86_400_000;

/// Formats a time as `2026-11-15T08:00:00.000Z`, the form of OpenCode's default titles.
pub fn iso8601(time: Millis) -> String {
    let (days, rest) = (time.div_euclid(DAY), time.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, millis) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

/// Returns true if a text has the form that [`iso8601`] writes.
pub fn is_iso8601(text: &str) -> bool {
    const FORM: &str = "0000-00-00T00:00:00.000Z";
    let fits = |(letter, form): (u8, u8)| if form == b'0' { letter.is_ascii_digit() } else { letter == form };
    text.len() == FORM.len() && text.bytes().zip(FORM.bytes()).all(fits)
}

/// Returns year, month and day of a day number since 1970-01-01, in the proleptic Gregorian calendar. Counts from
/// March, so that the leap day is the last day of its year and months have a regular length.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097; // 400 years
    let days = days + 719_468; // from 0000-03-01
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_by_the_gregorian_calendar() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso8601(1_794_724_537_447), "2026-11-15T06:35:37.447Z");
        assert_eq!(iso8601(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn formatted_times_are_recognised() {
        assert!(is_iso8601(&iso8601(1_794_724_537_447)));
        for text in ["", "mine", "2026-11-15", "2026-11-15T06:35:37.447+", "2026-11-15T06:35:37.447Z "] {
            assert!(!is_iso8601(text), "{text:?}");
        }
    }
}
