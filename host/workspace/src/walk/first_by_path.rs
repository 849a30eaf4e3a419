//! The first results by path, within limits.
//!
//! Several threads find results in any order. The selection does not depend on their order: the first by path until a limit
//! is exceeded, and the one that exceeds it, which shows that there are more. Later ones need not be searched for.

use crate::threads::lock;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Results of type `T`, under `N` limits.
pub(crate) struct FirstByPath<T, const N: usize> {
    limits: [u64; N],
    kept: Mutex<Collected<T, N>>,
    is_full: AtomicBool,
}

struct Collected<T, const N: usize> {
    by_path: BTreeMap<OsString, (T, [u64; N])>,
    total: [u64; N],
}

impl<T, const N: usize> FirstByPath<T, N> {
    pub(crate) fn new(limits: [u64; N]) -> Self {
        let kept = Collected { by_path: BTreeMap::new(), total: [0; N] };
        Self { limits, kept: Mutex::new(kept), is_full: AtomicBool::new(false) }
    }

    /// Adds a result, and drops those that the limits exclude. `cost` is the amount that counts towards each limit.
    pub(crate) fn add(&self, path: &OsStr, cost: [u64; N], found: T) {
        let kept = &mut *lock(&self.kept);
        kept.total = sum(kept.total, cost);
        kept.by_path.insert(path.to_owned(), (found, cost));
        while let Some(last) = kept.by_path.last_entry() {
            let without = difference(kept.total, last.get().1);
            if !self.is_exceeded(without) {
                break;
            }
            last.remove();
            kept.total = without;
        }
        self.is_full.store(self.is_exceeded(kept.total), Ordering::Release);
    }

    /// Returns whether results at this path and after it are no longer needed.
    pub(crate) fn is_beyond(&self, path: &OsStr) -> bool {
        self.is_full.load(Ordering::Acquire)
            && lock(&self.kept).by_path.last_key_value().is_some_and(|(last, _)| last.as_os_str() < path)
    }

    /// Returns the results sorted by path, and whether the last one exceeds a limit.
    pub(crate) fn into_sorted(self) -> (Vec<(OsString, T)>, bool) {
        let kept = self.kept.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = kept.by_path.into_iter().map(|(path, (found, _))| (path, found));
        (found.collect(), self.is_full.into_inner())
    }

    fn is_exceeded(&self, total: [u64; N]) -> bool {
        total.iter().zip(&self.limits).any(|(total, limit)| total > limit)
    }
}

fn sum<const N: usize>(a: [u64; N], b: [u64; N]) -> [u64; N] {
    std::array::from_fn(|i| a[i] + b[i])
}

fn difference<const N: usize>(a: [u64; N], b: [u64; N]) -> [u64; N] {
    std::array::from_fn(|i| a[i] - b[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(order: &[usize], limits: [u64; 2]) -> (Vec<usize>, bool) {
        let first_by_path = FirstByPath::new(limits);
        for &i in order {
            let path = OsString::from(format!("{i:02}"));
            if !first_by_path.is_beyond(&path) {
                first_by_path.add(&path, [1, i as u64], i);
            }
        }
        let (kept, is_over) = first_by_path.into_sorted();
        (kept.into_iter().map(|(_, found)| found).collect(), is_over)
    }

    #[test]
    fn results_do_not_depend_on_the_order_of_their_arrival() {
        let orders = [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]];
        for order in orders {
            assert_eq!(kept(&order, [9, 99]), (vec![0, 1, 2, 3, 4, 5], false));
            assert_eq!(kept(&order, [2, 99]), (vec![0, 1, 2], true));
            assert_eq!(kept(&order, [9, 5]), (vec![0, 1, 2, 3], true));
        }
    }
}
