//! Compiled functions that components share.
//!
//! Two plugins in one language contain the same interpreter: 21,000 of 22,300 functions are equal between two in
//! Python. So compiled code is kept function by function, and the next large component takes the shared functions from
//! there. So does the next version of a plugin that is edited while it runs: an edit changes few functions. The
//! compiler names a function by a SHA-256 of everything that its code depends on.
//!
//! The functions are code, and treated as code. The functions of all large components are one entry of the cache, and
//! the functions of a plugin's versions are another one, under its seal, which only the parent reads and writes. The
//! child that compiles gets the entry with the component, and returns the next one with the code. Small components
//! never touch the large components' entry: reading it would cost most of them more than it saves.

use crate::cache::SourceName;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use wasmtime::CacheStore;

/// Minimum bytes of a large component: no component in Rust or C or with QuickJS inside, but all in Go or with CPython
/// or SpiderMonkey inside.
const LARGE: usize = 4 << 20;
/// Bytes of all functions together: two language runtimes.
pub(crate) const MAX_BYTES: usize = 96 << 20;
/// Number of compiles in a row that drop a function by not using it.
const MAX_AGE: u8 = 8;
/// Bytes of a record before its code: name, age and length.
const HEAD: usize = NAME + 1 + 4;
const NAME: usize = 32;

type FunctionName = [u8; NAME];

/// The components that share functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sharing {
    /// All large ones.
    Large,
    /// The versions of the plugin from this source.
    Versions(SourceName),
}

impl Sharing {
    /// Returns the components that one shares functions with, by the number of its generation. The first version of a
    /// small one shares no functions: most plugins are never edited, and keeping their functions would take more room
    /// than their code.
    pub fn from_component(component: &[u8], source: SourceName, generation: u32) -> Option<Self> {
        match component.len() {
            LARGE.. => Some(Self::Large),
            _ => (generation > 1).then_some(Self::Versions(source)),
        }
    }
}

/// The functions of earlier compiles, and those that this one adds.
pub struct Functions {
    content: Vec<u8>,
    known: HashMap<FunctionName, KnownFunction>,
    new: Mutex<HashMap<FunctionName, Vec<u8>>>,
}

/// A function of an earlier compile.
struct KnownFunction {
    code: Range<usize>,
    age: u8,
    is_used: AtomicBool,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Functions({} known)", self.known.len())
    }
}

impl Functions {
    /// Reads records up to the first one that is cut off.
    pub fn read(content: Vec<u8>) -> Self {
        let mut known = HashMap::new();
        let mut at = 0;
        while let Some((name, age, code)) = record(&content, at) {
            at = code.end;
            known.insert(name, KnownFunction { code, age, is_used: AtomicBool::new(false) });
        }
        Self { content, known, new: Mutex::default() }
    }

    /// Writes the functions of this compile, then those that were used most recently, within the available room. `None`
    /// if this compile added no functions.
    pub fn write(&self) -> Option<Vec<u8>> {
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.is_empty() {
            return None;
        }
        let mut old: Vec<(u8, &FunctionName, &[u8])> = Vec::with_capacity(self.known.len());
        for (name, known) in &self.known {
            let age = if known.is_used.load(Ordering::Relaxed) { 0 } else { known.age.saturating_add(1) };
            if age < MAX_AGE {
                old.push((age, name, self.content.get(known.code.clone()).unwrap_or_default()));
            }
        }
        old.sort_unstable_by_key(|(age, name, _)| (*age, **name));
        let new = new.iter().map(|(name, code)| (0, name, code.as_slice()));
        let mut written = Vec::new();
        for (age, name, code) in new.chain(old) {
            let Ok(length) = u32::try_from(code.len()) else { continue };
            if written.len() + HEAD + code.len() <= MAX_BYTES {
                written.extend_from_slice(name);
                written.push(age);
                written.extend_from_slice(&length.to_le_bytes());
                written.extend_from_slice(code);
            }
        }
        Some(written)
    }
}

/// Returns the name and the age of the record at an offset, and the range of its code.
fn record(content: &[u8], at: usize) -> Option<(FunctionName, u8, Range<usize>)> {
    let (name, rest) = content.get(at..)?.split_first_chunk::<NAME>()?;
    let (age, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|length| *length <= rest.len())?;
    let begin = at + HEAD;
    Some((*name, *age, begin..begin + length))
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let name: FunctionName = key.try_into().ok()?;
        if let Some(known) = self.known.get(&name) {
            known.is_used.store(true, Ordering::Relaxed);
            return self.content.get(known.code.clone()).map(Cow::Borrowed);
        }
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.get(&name).map(|code| Cow::Owned(code.clone()))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let Ok(name) = key.try_into() else { return false };
        self.new.lock().unwrap_or_else(PoisonError::into_inner).insert(name, value);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(of: u8) -> FunctionName {
        [of; NAME]
    }

    fn after(functions: &Functions) -> Functions {
        Functions::read(functions.write().unwrap())
    }

    fn has(functions: &Functions, of: u8) -> bool {
        functions.known.contains_key(&name(of))
    }

    #[test]
    fn functions_are_found_by_the_next_compile() {
        let first = Functions::read(Vec::new());
        assert!(first.get(&name(1)).is_none() && first.write().is_none());
        assert!(first.insert(&name(1), b"one".to_vec()) && !first.insert(b"short", Vec::new()));
        assert_eq!(first.get(&name(1)).as_deref(), Some(&b"one"[..]));
        let second = after(&first);
        assert_eq!(second.get(&name(1)).as_deref(), Some(&b"one"[..]));
        assert!(second.write().is_none(), "nothing to write");
    }

    #[test]
    fn unused_functions_go_after_some_compiles_and_used_ones_stay() {
        let mut functions = Functions::read(Vec::new());
        functions.insert(&name(1), b"used".to_vec());
        functions.insert(&name(2), b"unused".to_vec());
        for compile in 0..MAX_AGE {
            functions = after(&functions);
            assert!(has(&functions, 1) && has(&functions, 2), "{compile}");
            functions.get(&name(1)).unwrap();
            functions.insert(&name(10 + compile), b"new".to_vec());
        }
        functions = after(&functions);
        assert!(has(&functions, 1) && !has(&functions, 2));
    }

    #[test]
    fn size_is_bounded_and_new_functions_come_first() {
        let half = MAX_BYTES / 2 - HEAD;
        let mut functions = Functions::read(Vec::new());
        functions.insert(&name(1), vec![0; half]);
        functions = after(&functions);
        functions.insert(&name(2), vec![0; half]);
        functions = after(&functions);
        assert!(has(&functions, 1) && has(&functions, 2));
        functions.insert(&name(3), vec![0; half]);
        functions.get(&name(2)).unwrap();
        functions = after(&functions);
        assert!(!has(&functions, 1) && has(&functions, 2) && has(&functions, 3));
    }

    #[test]
    fn content_that_is_cut_off_or_random_is_read_as_far_as_it_goes() {
        let functions = Functions::read(Vec::new());
        functions.insert(&name(1), b"first".to_vec());
        functions.insert(&name(2), b"other".to_vec());
        let whole = functions.write().unwrap();
        for length in 0..whole.len() {
            let cut = Functions::read(whole[..length].to_vec());
            assert_eq!(cut.known.len(), length / (HEAD + 5));
        }
        assert!(Functions::read(vec![0xff; 1000]).known.is_empty());
    }
}
