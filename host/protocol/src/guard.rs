//! The one place that catches panics: of tools, hooks, approvers and other ports that run in this process.
//!
//! A panic there must not take the run with it, because a run always reports its end and leaves no call without a
//! result. The code that panicked is not called again for the same purpose; anything it protects is refused or
//! withheld.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// A panic of code that the loop called.
#[derive(Debug, thiserror::Error)]
#[error("panicked: {0}")]
pub struct Panicked(String);

impl Panicked {
    fn from_payload(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self(text.unwrap_or_else(|| "no message".to_owned()))
    }
}

/// Calls a function.
///
/// # Errors
/// The function panicked.
pub fn caught<T>(function: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|payload| Panicked::from_payload(&*payload))
}

/// Drives a future to its end. Create futures of others within `future`, because that may panic as well.
///
/// # Errors
/// The future panicked.
pub async fn caught_async<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| match caught(|| future.as_mut().poll(cx)) {
        Ok(poll) => poll.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_becomes_an_error_with_its_message() {
        assert_eq!(caught(|| 7).unwrap(), 7);
        assert_eq!(caught(|| panic!("a {}", "b")).map(|()| 0).unwrap_err().to_string(), "panicked: a b");
        let after_a_pause = async {
            tokio::task::yield_now().await;
            panic!("late")
        };
        assert_eq!(caught_async(after_a_pause).await.map(|()| 0).unwrap_err().to_string(), "panicked: late");
    }
}
