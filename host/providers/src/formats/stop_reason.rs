//! Stop reasons that a format does not list, judged by their words.
//!
//! A new reason may mean a normal end or a failure. A reply that failed must not pass for an answer, so reasons that say so
//! are errors, and all others end the reply.

use pinion_protocol::{ProviderError, StopReason};

/// Fragments of reasons, in lower case. Those that come first are more specific.
const GARBLED: &[&str] = &["malformed", "unexpected"];
const CUT_OFF: &[&str] = &["length", "max_token", "max_output", "token_limit", "context", "truncat", "incomplete"];
const BLOCKED: &[&str] = &[
    "filter",
    "sensitive",
    "safety",
    "block",
    "guardrail",
    "policy",
    "refus",
    "prohibit",
    "violation",
    "recitation",
    "moderat",
];
const FAILED: &[&str] = &[
    "error",
    "fail",
    "abort",
    "cancel",
    "timeout",
    "overload",
    "unavailable",
    "insufficient",
    "interrupt",
    "exception",
];

/// The end of a reply, or its failure, once the vendor announced it. Token counts may still follow.
pub(crate) type Announced = Option<Result<StopReason, ProviderError>>;

/// Takes over a later announcement. A failure and a cut remain, because some servers announce a normal end after them.
pub(crate) fn announce(known: &mut Announced, later: Result<StopReason, ProviderError>) {
    match known {
        Some(Err(_)) => {}
        Some(Ok(StopReason::Length)) if later.is_ok() => {}
        _ => *known = Some(later),
    }
}

/// Judges a reason that the format does not list.
pub(crate) fn unlisted(reason: &str) -> Result<StopReason, ProviderError> {
    let words = reason.to_lowercase();
    let says = |fragments: &[&str]| fragments.iter().any(|fragment| words.contains(fragment));
    match () {
        () if says(GARBLED) => Err(failed(&format!("the model's reply was malformed ({reason})"))),
        () if says(CUT_OFF) => Ok(StopReason::Length),
        () if says(BLOCKED) => Err(blocked(&format!("the vendor blocked the reply ({reason})"))),
        () if says(FAILED) => Err(failed(&format!("the vendor broke off the reply ({reason})"))),
        () => Ok(StopReason::Stop),
    }
}

/// The error for a reply that the same request would not get either.
pub(crate) fn blocked(message: &str) -> ProviderError {
    ProviderError::Api { status: None, message: message.to_owned() }
}

/// The error for a reply that another attempt may get.
pub(crate) fn failed(message: &str) -> ProviderError {
    ProviderError::Overloaded { message: message.to_owned(), retry_after: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_and_cut_remain_after_a_normal_end() {
        let last = |reasons: &[&str]| {
            let mut known = None;
            reasons.iter().for_each(|reason| announce(&mut known, unlisted(reason)));
            known.unwrap()
        };
        assert_eq!(last(&["stop", "max_tokens", "stop"]), Ok(StopReason::Length));
        assert!(last(&["max_tokens", "safety", "stop"]).is_err());
    }

    #[test]
    fn reason_that_names_a_failure_is_no_success() {
        for reason in ["a_future_reason", "COMPLETE", "eos", "pause_turn", "load", "stop_sequence"] {
            assert_eq!(unlisted(reason), Ok(StopReason::Stop), "{reason}");
        }
        for reason in ["max_tokens_reached", "OUTPUT_LENGTH", "context_window_exceeded", "incomplete"] {
            assert_eq!(unlisted(reason), Ok(StopReason::Length), "{reason}");
        }
        let garbled = "function_call_filter: MALFORMED_FUNCTION_CALL";
        for reason in ["ERROR", "job_failed", "cancelled", "upstream_timeout", garbled] {
            assert!(unlisted(reason).is_err_and(|error| error.is_retryable()), "{reason}");
        }
        for reason in ["SAFETY", "policy_violation", "content_filter_error"] {
            assert!(matches!(unlisted(reason), Err(ProviderError::Api { .. })), "{reason}");
        }
    }
}
