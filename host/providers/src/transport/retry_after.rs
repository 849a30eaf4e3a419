//! The delay before a retry, from response headers.
//!
//! The larger of `retry-after-ms` (OpenAI, Azure) and `retry-after` in seconds or as a date; without both, the reset time
//! of an exhausted limit (`x-ratelimit-reset-tokens: 6m0s`, `anthropic-ratelimit-requests-reset: 2026-…Z`, or a time of
//! the Unix epoch).

use super::classify::{parse_delay, seconds};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use reqwest::header::HeaderMap;
use std::time::Duration;

/// The pairs of headers for the remainder and the reset time of a limit.
const LIMITS: &[(&str, &str)] = &[
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
];

/// Returns the delay before a retry. `now` is compared with dates when the server sends no `date`.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let now = text("date").and_then(date).unwrap_or(now);
    let exact = text("retry-after-ms").and_then(|ms| seconds(ms.parse::<f64>().ok()? / 1000.0));
    let rounded = text("retry-after").and_then(|after| {
        let until_date = || date(after).map(|date| until(date, now));
        after.parse::<f64>().ok().and_then(seconds).or_else(until_date)
    });
    // Azure sends 0 ms along with 1 s.
    if let Some(delay) = exact.max(rounded) {
        return Some(delay);
    }
    let resets = LIMITS.iter().filter(|(remaining, _)| text(remaining) == Some("0"));
    resets.filter_map(|(_, reset)| reset_delay(text(reset)?, now)).max()
}

fn reset_delay(text: &str, now: Timestamp) -> Option<Duration> {
    // OpenRouter's are in milliseconds of the epoch, GitHub's in seconds. No delay is that long.
    let epoch = match text.parse::<i64>() {
        Ok(number) if number >= 1_000_000_000_000 => Timestamp::from_millisecond(number).ok(),
        Ok(number) if number >= 1_000_000_000 => Timestamp::from_second(number).ok(),
        _ => None,
    };
    match epoch.or_else(|| text.parse().ok()) {
        Some(at) => Some(until(at, now)),
        None => parse_delay(text),
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    let wait = at.duration_since(now);
    if wait.is_negative() { Duration::ZERO } else { wait.unsigned_abs().min(Duration::from_secs(86_400)) }
}

/// Parses a date: as HTTP writes it, in its two obsolete forms (RFC 9110, 5.6.7), or as ISO 8601 does.
fn date(text: &str) -> Option<Timestamp> {
    let obsolete = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let in_utc = |format: &&str| DateTime::strptime(format, text).ok()?.to_zoned(TimeZone::UTC).ok();
    let usual = rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
    usual.or_else(|| text.parse().ok()).or_else(|| Some(obsolete.iter().find_map(in_utc)?.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    fn delay(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        retry_after(&headers.collect(), "2026-11-06T08:49:37Z".parse().unwrap())
    }

    #[test]
    fn every_form_is_parsed() {
        assert_eq!(delay(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(delay(&[("retry-after", "0.25")]), Some(Duration::from_millis(250)));
        assert_eq!(delay(&[("retry-after", "7"), ("retry-after-ms", "1500")]), Some(Duration::from_secs(7)));
        assert_eq!(delay(&[("retry-after", "1"), ("retry-after-ms", "1500")]), Some(Duration::from_millis(1500)));
        assert_eq!(delay(&[("retry-after", "1"), ("retry-after-ms", "0")]), Some(Duration::from_secs(1)));
        assert_eq!(delay(&[("retry-after", "Fri, 06 Nov 2026 08:50:07 GMT")]), Some(Duration::from_secs(30)));
        for after in ["Friday, 06-Nov-26 08:50:07 GMT", "Fri Nov  6 08:50:07 2026", "2026-11-06T08:50:07Z"] {
            assert_eq!(delay(&[("retry-after", after)]), Some(Duration::from_secs(30)), "{after}");
        }
        let skewed = [("retry-after", "Sun, 01 Nov 2026 00:00:09 GMT"), ("date", "Sun, 01 Nov 2026 00:00:00 GMT")];
        assert_eq!(delay(&skewed), Some(Duration::from_secs(9)));
        assert_eq!(delay(&[]), None);
    }

    #[test]
    fn only_exhausted_limits_count() {
        let tokens = ("x-ratelimit-reset-tokens", "6m0s");
        assert_eq!(delay(&[("x-ratelimit-remaining-tokens", "0"), tokens]), Some(Duration::from_secs(360)));
        assert_eq!(delay(&[("x-ratelimit-remaining-tokens", "12"), tokens]), None);
        for reset in ["1793955007000", "1793955007"] {
            let headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)];
            assert_eq!(delay(&headers), Some(Duration::from_secs(30)), "{reset}");
        }
        let reset = ("anthropic-ratelimit-requests-reset", "2026-11-06T08:49:57Z");
        assert_eq!(delay(&[("anthropic-ratelimit-requests-remaining", "0"), reset]), Some(Duration::from_secs(20)));
    }

    #[test]
    fn invalid_delay_is_ignored_and_past_date_means_now() {
        for after in ["soon", "-5", "NaN", ""] {
            assert_eq!(delay(&[("retry-after", after)]), None, "{after}");
        }
        assert_eq!(delay(&[("retry-after", "inf")]), Some(Duration::from_secs(86_400)));
        assert_eq!(delay(&[("retry-after", "Thu, 05 Nov 2026 00:00:00 GMT")]), Some(Duration::ZERO));
    }
}
