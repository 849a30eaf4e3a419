//! Whether the threads of a plugin's calls spin instead of sleeping.

use std::sync::atomic::{AtomicU32, Ordering};

/// Calls without spinning after spinning did not help several times in a row.
const MAX_PAUSE: u32 = 64;

/// Whether spinning helps the calls of a plugin. After a call that was not answered in time, the next one does not spin, then
/// two, then four, because calls of this plugin take longer, or because the machine has other work.
#[derive(Debug, Default)]
pub struct Spinning {
    /// Calls left that do not spin.
    pause: AtomicU32,
    last_pause: AtomicU32,
}

impl Spinning {
    /// Begins a call. Returns whether it spins.
    pub fn begin(&self) -> bool {
        self.pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Learns whether the answer to a call that spun came in time.
    pub fn learn(&self, was_in_time: bool) {
        let pause = if was_in_time { 0 } else { (self.last_pause.load(Ordering::Relaxed) * 2).clamp(1, MAX_PAUSE) };
        self.last_pause.store(pause, Ordering::Relaxed);
        self.pause.store(pause, Ordering::Relaxed);
    }

    /// Returns whether the next call spins.
    pub fn is_on(&self) -> bool {
        self.pause.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_pause_from_spinning_longer_each_time_it_does_not_help() {
        let spinning = Spinning::default();
        let calls_without = || std::iter::from_fn(|| (!spinning.begin()).then_some(())).count();
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            spinning.learn(false);
            assert_eq!(calls_without(), expected);
        }
        spinning.learn(true);
        assert_eq!(calls_without(), 0);
        spinning.learn(false);
        assert_eq!(calls_without(), 1, "an answer in time ends what was learnt before");
    }
}
