//! The guard against keys that are not meant for a question: typed before it was visible, or pasted.

use std::time::Duration;

/// Time without any key that makes later keys count: longer than the pause between two keys of a fast typist or of a
/// paste.
pub(super) const QUIET: Duration = Duration::from_millis(300);
/// Keys that arrive within this time of each other were pasted, not pressed.
pub(super) const BURST: Duration = Duration::from_millis(40);
/// Hint after keys that arrived at once.
pub(super) const SEVERAL_KEYS: &str = "several keys at once: press a single one";

/// Decides which keys count as an answer `T` of the user.
#[derive(Debug)]
pub(super) struct KeyGuard<T> {
    /// Time since which no key arrived that does not count.
    since: Option<Duration>,
    is_quiet: bool,
    /// Keys have not counted yet.
    is_new: bool,
    /// An answer that counts unless another key follows at once.
    pressed: Option<(T, Duration)>,
}

impl<T> Default for KeyGuard<T> {
    fn default() -> Self {
        Self { since: None, is_quiet: false, is_new: true, pressed: None }
    }
}

impl<T> KeyGuard<T> {
    /// Returns whether keys have not counted yet, so that they still belong to the previous screen.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns whether keys count.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Returns the time at which [`Self::tick`] has something to do.
    pub(super) fn deadline(&self) -> Option<Duration> {
        match (&self.pressed, self.since) {
            (Some((_, at)), _) => Some(*at + BURST),
            (None, Some(since)) if !self.is_quiet => Some(since + QUIET),
            _ => None,
        }
    }

    /// Begins the wait for quiet when the question is drawn for the first time.
    pub(super) fn show(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Returns whether a key counts. A key that does not count prolongs the wait for quiet.
    pub(super) fn counts(&mut self, now: Duration) -> bool {
        if !self.is_quiet {
            self.since = Some(now);
        }
        self.is_quiet
    }

    /// Takes an answer, which replaces the one before.
    pub(super) fn press(&mut self, answer: T, now: Duration) {
        self.pressed = Some((answer, now));
    }

    /// Returns the time of the answer that does not count yet.
    pub(super) fn pressed_at(&self) -> Option<Duration> {
        self.pressed.as_ref().map(|(_, at)| *at)
    }

    /// Drops the answer that does not count yet; returns whether there was one.
    pub(super) fn release(&mut self) -> bool {
        self.pressed.take().is_some()
    }

    /// Drops the answer because of keys that arrived at once, and waits for quiet again.
    pub(super) fn burst(&mut self, now: Duration) {
        (self.pressed, self.is_quiet, self.since) = (None, false, Some(now));
    }

    /// Ends the wait for quiet if it is over. Returns the answer after no other key has followed it.
    pub(super) fn tick(&mut self, now: Duration) -> Option<T> {
        if !self.is_quiet && self.since.is_some_and(|since| now >= since + QUIET) {
            (self.is_quiet, self.is_new) = (true, false);
        }
        self.pressed.take_if(|(_, at)| now >= *at + BURST).map(|(answer, _)| answer)
    }
}
