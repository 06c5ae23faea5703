//! Parses the date format of HTTP (`Sun, 06 Nov 1994 08:49:37 GMT`) into seconds since 1970.
//!
//! Only differences of two dates are used, so this small parser replaces a calendar library.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Days from March 1st of year 0 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_468;

/// Parses a date. The obsolete forms, which no current server sends, are not supported.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (_weekday, rest) = text.trim().split_once(", ")?;
    let mut words = rest.split(' ');
    let day: i64 = number(words.next()?, 1..=31)?;
    let month = words.next()?;
    let month = i64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let year: i64 = number(words.next()?, 1970..=9999)?;
    let mut clock = words.next()?.split(':');
    let hour = number(clock.next()?, 0..=23)?;
    let minute = number(clock.next()?, 0..=59)?;
    let second = number(clock.next()?, 0..=60)?;
    if words.next()? != "GMT" || words.next().is_some() || clock.next().is_some() {
        return None;
    }
    Some(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

fn number(text: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    text.parse().ok().filter(|number| range.contains(number))
}

/// Days since 1970-01-01 in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last day of its year and needs no special case.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month_from_march = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    year * 365 + leap_days + day_of_year - DAYS_BEFORE_1970
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn known_dates_have_known_seconds() {
        assert_eq!(parse("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse("Tue, 29 Feb 2028 12:00:00 GMT"), Some(1_835_438_400));
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 99 Nov 1994 1:2:3 GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
