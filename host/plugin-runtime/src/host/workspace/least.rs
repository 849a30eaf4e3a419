//! The first of what is found, by path, within limits.
//!
//! Several threads find things in an order of their own. What is kept depends only on what there is: the least by path
//! until a limit is exceeded, and the one that exceeds it, which tells that there is more. What comes after that one
//! need not be looked for.

use super::lock;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Found things of type `T`, under `N` limits.
pub(super) struct Least<T, const N: usize> {
    limits: [u64; N],
    kept: Mutex<Kept<T, N>>,
    is_full: AtomicBool,
}

struct Kept<T, const N: usize> {
    by_path: BTreeMap<OsString, (T, [u64; N])>,
    total: [u64; N],
}

impl<T, const N: usize> Least<T, N> {
    pub(super) fn new(limits: [u64; N]) -> Self {
        let kept = Kept { by_path: BTreeMap::new(), total: [0; N] };
        Self { limits, kept: Mutex::new(kept), is_full: AtomicBool::new(false) }
    }

    /// Keeps this, as long as it is wanted. `cost` is what it takes of each limit.
    pub(super) fn add(&self, path: &OsStr, cost: [u64; N], found: T) {
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

    /// Is something at this path, or after it, not wanted any more?
    pub(super) fn is_beyond(&self, path: &OsStr) -> bool {
        self.is_full.load(Ordering::Acquire)
            && lock(&self.kept).by_path.last_key_value().is_some_and(|(last, _)| last.as_os_str() < path)
    }

    /// What was kept, with its path and in the order of paths, and whether it is more than the limits allow: by the last
    /// one, then.
    pub(super) fn into_sorted(self) -> (Vec<(OsString, T)>, bool) {
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
        let least = Least::new(limits);
        for &i in order {
            let path = OsString::from(format!("{i:02}"));
            if !least.is_beyond(&path) {
                least.add(&path, [1, i as u64], i);
            }
        }
        let (kept, is_over) = least.into_sorted();
        (kept.into_iter().map(|(_, found)| found).collect(), is_over)
    }

    #[test]
    fn what_is_kept_does_not_depend_on_the_order_in_which_it_came() {
        let orders = [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]];
        for order in orders {
            assert_eq!(kept(&order, [9, 99]), (vec![0, 1, 2, 3, 4, 5], false));
            assert_eq!(kept(&order, [2, 99]), (vec![0, 1, 2], true));
            assert_eq!(kept(&order, [9, 5]), (vec![0, 1, 2, 3], true));
        }
    }
}
