//! Retries of failed requests to models.

use crate::provider::ProviderError;
use std::time::Duration;

/// Decides whether and when to retry a failed request. Applies to requests to models, never to tools.
pub trait RetryPolicy: Send + Sync {
    /// Returns the delay before retry number `attempt`, counted from 1; `None` gives up.
    fn delay(&self, error: &ProviderError, attempt: u32) -> Option<Duration>;

    /// Returns the maximum number of retries, for people.
    fn max_attempts(&self) -> u32;
}

/// Retries after a refused image, however few the policy allows: first without the new images, then without any.
const IMAGE_ATTEMPTS: u32 = 2;

/// Exponential backoff with jitter, for rate limits, overload and network errors only.
///
/// The defaults ride out an outage of about five minutes: ten retries after 1, 2, 4, … and at most 60 seconds. A vendor
/// that asks for a longer delay than the policy's own gets it, up to [`Backoff::max_server_delay`]; a shorter request
/// does not shorten the delay. A request is given up after [`Backoff::max_attempts`] retries, on an error that no retry
/// can fix, or when the vendor asks for a longer delay than allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// Maximum number of retries; 0 disables them.
    pub max_attempts: u32,
    /// Delay before the first retry.
    pub initial: Duration,
    /// Factor between consecutive delays.
    pub factor: f64,
    /// Maximum of the policy's own delay, with jitter.
    pub max: Duration,
    /// Maximum delay requested by a vendor; longer requests are not retried.
    pub max_server_delay: Duration,
    /// Range of the random factor applied to each delay.
    pub jitter: (f64, f64),
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            initial: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(60),
            max_server_delay: Duration::from_secs(300),
            jitter: (0.8, 1.2),
        }
    }
}

impl RetryPolicy for Backoff {
    fn delay(&self, error: &ProviderError, attempt: u32) -> Option<Duration> {
        if matches!(error, ProviderError::ImageRefused { .. }) {
            // Another request, without the image, which waits for nothing.
            return (attempt <= self.max_attempts.max(IMAGE_ATTEMPTS)).then_some(Duration::ZERO);
        }
        if !error.is_retryable() || attempt > self.max_attempts {
            return None;
        }
        let wanted = error.retry_after().unwrap_or_default();
        (wanted <= self.max_server_delay).then(|| wanted.max(self.own_delay(attempt)))
    }

    fn max_attempts(&self) -> u32 {
        self.max_attempts
    }
}

impl Backoff {
    fn own_delay(&self, attempt: u32) -> Duration {
        let power = self.factor.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
        let seconds = (self.initial.as_secs_f64() * power).min(self.max.as_secs_f64());
        let (low, high) = self.jitter;
        let delay = Duration::try_from_secs_f64(seconds * (low + (high - low) * fastrand::f64()));
        delay.unwrap_or(self.max).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> ProviderError {
        ProviderError::Network { message: "gone".into() }
    }

    fn limited(retry_after: Option<Duration>) -> ProviderError {
        ProviderError::RateLimited { message: "slow down".into(), retry_after }
    }

    #[test]
    fn delays_grow_within_the_jitter_up_to_the_cap() {
        let policy = Backoff { max_attempts: 20, max: Duration::from_secs(30), ..Backoff::default() };
        for attempt in 1..=20 {
            let nominal = (1 << (attempt - 1).min(10)).min(30) as f64;
            for _ in 0..500 {
                let delay = policy.delay(&network(), attempt).unwrap().as_secs_f64();
                assert!((nominal * 0.8..=(nominal * 1.2).min(30.0)).contains(&delay), "{attempt}: {delay}");
            }
        }
    }

    #[test]
    fn default_policy_rides_out_an_outage_of_several_minutes() {
        let policy = Backoff { jitter: (0.8, 0.8), ..Backoff::default() };
        let delays = (1..).map_while(|attempt| policy.delay(&network(), attempt));
        let total: Duration = delays.sum();
        assert!((180..600).contains(&total.as_secs()), "{total:?}");
    }

    #[test]
    fn only_retryable_errors_are_retried_up_to_the_limit() {
        let policy = Backoff::default();
        assert!(policy.delay(&network(), 10).is_some() && policy.delay(&network(), 11).is_none());
        for error in [
            ProviderError::Auth { message: String::new() },
            ProviderError::Api { status: Some(400), message: String::new() },
            ProviderError::ContextOverflow { message: String::new() },
            ProviderError::Malformed { message: String::new() },
            ProviderError::Cancelled,
        ] {
            assert_eq!(policy.delay(&error, 1), None, "{error}");
        }
    }

    #[test]
    fn refused_image_is_retried_at_once_even_without_other_retries() {
        let refused = ProviderError::ImageRefused { message: String::new() };
        for max_attempts in [0, 10] {
            let policy = Backoff { max_attempts, ..Backoff::default() };
            assert_eq!(policy.delay(&refused, 1), Some(Duration::ZERO));
            assert_eq!(policy.delay(&refused, 11), None);
        }
    }

    #[test]
    fn vendor_delay_applies_unless_too_long_or_shorter_than_the_own() {
        let policy = Backoff { jitter: (1.0, 1.0), ..Backoff::default() };
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(policy.delay(&limited(seconds(7)), 1), seconds(7));
        assert_eq!(policy.delay(&limited(seconds(0)), 3), seconds(4), "a request for no delay is no hurry");
        assert_eq!(policy.delay(&limited(seconds(90)), 10), seconds(90), "the cap is for the own delay");
        assert_eq!(policy.delay(&limited(seconds(3600)), 1), None);
    }
}
