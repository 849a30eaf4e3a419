//! Values under random keys that are dropped when they were not used for a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// The values. Cheap to clone.
pub(super) struct Expiring<T> {
    entries: Arc<Mutex<ExpiringEntries<T>>>,
    most: usize,
    time: Duration,
}

type ExpiringEntries<T> = HashMap<String, ExpiringEntry<T>>;

struct ExpiringEntry<T> {
    value: T,
    used: Instant,
    /// Removes the entry once it has expired.
    _expiry: AbortOnDropHandle<()>,
}

impl<T: Send + 'static> Expiring<T> {
    /// Creates a place for so many values; each expires if it is not used for this time.
    pub(super) fn new(most: usize, time: Duration) -> Self {
        Self { entries: Arc::default(), most, time }
    }

    fn entries(&self) -> MutexGuard<'_, ExpiringEntries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a value and returns its key. Where there is no room, the oldest value that may go makes some. Gives the
    /// value back if no value may go, or if the system has no random numbers.
    pub(super) fn insert(&self, value: T, may_go: impl Fn(&T) -> bool) -> Result<String, T> {
        let Some(key) = random_key() else { return Err(value) };
        // Dropped after the lock: a value may do much when it ends.
        let mut removed = None;
        let mut entries = self.entries();
        if entries.len() >= self.most {
            let expendable = entries.iter().filter(|(_, entry)| may_go(&entry.value));
            let oldest = expendable.min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return Err(value) };
            removed = entries.remove(&oldest);
        }
        let expiry = tokio::spawn(expire(Arc::downgrade(&self.entries), key.clone(), self.time));
        let entry = ExpiringEntry { value, used: Instant::now(), _expiry: AbortOnDropHandle::new(expiry) };
        entries.insert(key.clone(), entry);
        drop(entries);
        drop(removed);
        Ok(key)
    }

    /// Returns whether another value would find room.
    pub(super) fn have_room(&self, may_go: impl Fn(&T) -> bool) -> bool {
        let entries = self.entries();
        entries.len() < self.most || entries.values().any(|entry| may_go(&entry.value))
    }

    /// Removes and returns a value if it matches the predicate; any other one stays.
    pub(super) fn take_value(&self, key: &str, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut entries = self.entries();
        entries.get(key).filter(|entry| is_wanted(&entry.value))?;
        entries.remove(key).map(|entry| entry.value)
    }

    /// Uses a value, and passes the minimum time that it is kept from then on.
    pub(super) fn with<R>(&self, key: &str, using: impl FnOnce(&mut T, Duration) -> R) -> Option<R> {
        let mut entries = self.entries();
        let entry = entries.get_mut(key)?;
        entry.used = Instant::now();
        Some(using(&mut entry.value, self.time))
    }
}

/// Removes an entry when it has expired.
async fn expire<T>(entries: Weak<Mutex<ExpiringEntries<T>>>, key: String, time: Duration) {
    let mut until = Instant::now() + time;
    loop {
        tokio::time::sleep_until(until).await;
        let Some(entries) = entries.upgrade() else { return };
        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.get(&key).map(|entry| entry.used + time) {
            Some(later) if later > Instant::now() => until = later,
            Some(_) | None => {
                let expired = entries.remove(&key);
                drop(entries);
                drop(expired);
                return;
            }
        }
    }
}

/// Returns 256 random bits in hexadecimal.
fn random_key() -> Option<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(blake3::Hash::from_bytes(bytes).to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_util::sync::{CancellationToken, DropGuard};

    const TIME: Duration = Duration::from_secs(600);

    fn guarded() -> (CancellationToken, DropGuard) {
        let token = CancellationToken::new();
        (token.clone(), token.drop_guard())
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_value_is_dropped_although_no_other_comes() {
        let values = Expiring::new(2, TIME);
        let (dropped, guard) = guarded();
        let key = values.insert(guard, |_| true).unwrap();
        tokio::time::sleep(TIME - Duration::from_secs(1)).await;
        assert!(values.with(&key, |_, _| ()).is_some() && !dropped.is_cancelled());
        tokio::time::sleep(TIME - Duration::from_secs(1)).await;
        assert!(!dropped.is_cancelled(), "it was used");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(dropped.is_cancelled() && values.with(&key, |_, _| ()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn value_that_is_not_wanted_stays() {
        let values = Expiring::new(2, TIME);
        let key = values.insert(1, |_| true).unwrap();
        assert_eq!(values.take_value(&key, |value| *value == 2), None);
        assert_eq!(values.take_value("other", |_| true), None);
        assert_eq!(values.take_value(&key, |value| *value == 1), Some(1));
        assert_eq!(values.take_value(&key, |_| true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_value_that_may_go_makes_room() {
        let values = Expiring::new(2, TIME);
        let first = values.insert(1, |_| true).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = values.insert(2, |_| true).unwrap();
        assert_eq!(values.insert(3, |_| false), Err(3));
        let third = values.insert(3, |value| *value == 2).unwrap();
        assert_eq!([first, second, third].map(|key| values.take_value(&key, |_| true)), [Some(1), None, Some(3)]);
    }
}
