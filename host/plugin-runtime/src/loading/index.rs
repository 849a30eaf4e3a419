//! An index of descriptions: one entry of the cache with the descriptions of all plugins.
//!
//! A start with a thousand plugins would otherwise open, read and check a thousand entries. An index is a copy of them,
//! under a separate seal, and [`Described::read`] decides on each as on an entry by itself. A plugin that the index
//! lacks, or whose file is not as the index says, is looked for in its own entry; a description found there is added to
//! the index after the start. So an index that is damaged, evicted, or written by two processes at once costs time and
//! decides nothing.

use crate::loading::description_cache::{ComponentFileState, Described};
use crate::loading::source::{PluginLocation, PluginSource};
use crate::loading::source_metadata::{SourceMetadata, own_file};
use pinion_plugin_engine::{CachedContent, CodeCache};
use pinion_plugin_limits::MAX_PLUGINS;
use pinion_workspace::grants::protected::Protected;
use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Plugins in one place that justify an index.
const FEW: usize = 4;

/// The places of sources that are opened at once.
pub(crate) struct Places<'a> {
    known: HashMap<PluginLocation<'a>, KnownDirectory>,
    /// The file of this program.
    own: Option<Metadata>,
}

/// A place with many plugins.
struct KnownDirectory {
    /// The directory without links.
    directory: Option<PathBuf>,
    index: DescriptionIndex,
    /// Names with descriptions that the index lacks.
    new: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl<'a> Places<'a> {
    /// Reads the indexes of places that have many of these sources. Blocks.
    pub(crate) fn open(cache: &CodeCache, sources: impl Iterator<Item = &'a PluginSource>) -> Self {
        let mut counts: HashMap<PluginLocation<'a>, usize> = HashMap::new();
        for (place, _) in sources.filter_map(PluginLocation::from_source) {
            *counts.entry(place).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= FEW);
        let known = many.map(|(place, _)| {
            let directory = match place {
                PluginLocation::BuiltIn => None,
                PluginLocation::Directory(directory, _) => directory.canonicalize().ok(),
            };
            let index = cache.load_index(&place.cache_name()).map(DescriptionIndex::from_content).unwrap_or_default();
            (place, KnownDirectory { directory, index, new: Mutex::default() })
        });
        Self { known: known.collect(), own: own_file() }
    }

    /// Looks at a source, and protects its file from plugins. The links in the path of a directory are resolved once for all
    /// plugins in it. Blocks.
    pub(crate) fn inspect_source(&self, source: &PluginSource, protected: &Protected) -> SourceMetadata {
        if let PluginSource::BuiltIn { bytes, .. } = source {
            return SourceMetadata::at_built_in(bytes, self.own.as_ref());
        }
        let known = PluginLocation::from_source(source).and_then(|(place, _)| self.known.get(&place));
        match (known.and_then(|known| known.directory.as_ref()), source.path().and_then(Path::file_name)) {
            (Some(directory), Some(name)) => SourceMetadata::at_file(directory.join(name), protected),
            _ => SourceMetadata::at(source, protected),
        }
    }

    /// Reads the description of a source whose file is in this state. Blocks.
    pub(crate) fn described(
        &self,
        cache: &CodeCache,
        engine: &str,
        source: &PluginSource,
        seen: ComponentFileState,
    ) -> Option<Described> {
        let found = PluginLocation::from_source(source).and_then(|(place, name)| Some((self.known.get(&place)?, name)));
        let indexed = found.and_then(|(known, name)| known.index.get(name));
        let indexed = indexed.and_then(|entry| Described::read(entry, engine, seen));
        indexed.or_else(|| self.own_description(cache, engine, source, seen))
    }

    /// Reads the description of a source from its own entry, which is newer than the index. Blocks.
    pub(crate) fn own_description(
        &self,
        cache: &CodeCache,
        engine: &str,
        source: &PluginSource,
        seen: ComponentFileState,
    ) -> Option<Described> {
        let found = PluginLocation::from_source(source).and_then(|(place, name)| Some((self.known.get(&place)?, name)));
        let content = cache.load_description(&source.cache_name())?;
        let described = Described::read(content.bytes(), engine, seen)?;
        if let Some((known, name)) = found {
            let mut new = known.new.lock().unwrap_or_else(PoisonError::into_inner);
            new.push((name.to_owned(), content.bytes().to_owned()));
        }
        Some(described)
    }

    /// Adds the missing descriptions to the indexes. Blocks.
    pub(crate) fn store(self, cache: &CodeCache) {
        for (place, known) in self.known {
            let new = known.new.into_inner().unwrap_or_else(PoisonError::into_inner);
            if !new.is_empty() {
                let there = names_in(known.directory.as_deref());
                let is_there = |name: &[u8]| there.as_ref().is_none_or(|there| there.contains(name));
                cache.store_index(&place.cache_name(), &known.index.with(&new, is_there));
            }
        }
    }
}

/// The names of the files in a directory.
fn names_in(directory: Option<&Path>) -> Option<HashSet<Vec<u8>>> {
    let entries = std::fs::read_dir(directory?).ok()?;
    Some(entries.flatten().map(|entry| entry.file_name().into_encoded_bytes()).collect())
}

/// Descriptions by name: the length of each name, the name, the length of its description, and the description.
#[derive(Default)]
struct DescriptionIndex {
    content: Option<CachedContent>,
    entries: HashMap<Vec<u8>, Range<usize>>,
}

impl DescriptionIndex {
    /// Finds the entries. Content that is not an index has no entries.
    fn from_content(content: CachedContent) -> Self {
        let entries = entries(content.bytes()).unwrap_or_default();
        Self { content: Some(content), entries }
    }

    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.content.as_ref()?.bytes().get(self.entries.get(name)?.clone())
    }

    /// Writes an index with new descriptions, and the descriptions of this one whose names are still there.
    fn with(&self, new: &[(Vec<u8>, Vec<u8>)], is_there: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let added: HashSet<&[u8]> = new.iter().map(|(name, _)| &**name).collect();
        let old = self.entries.keys().filter(|name| !added.contains(&***name) && is_there(name));
        let old = old.filter_map(|name| Some((&**name, self.get(name)?)));
        let all = new.iter().map(|(name, entry)| (&**name, &**entry)).chain(old);
        let mut bytes = Vec::new();
        for part in all.take(MAX_PLUGINS as usize).flat_map(|(name, entry)| [name, entry]) {
            bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }
}

fn entries(bytes: &[u8]) -> Option<HashMap<Vec<u8>, Range<usize>>> {
    let (mut entries, mut at) = (HashMap::new(), 0);
    let mut part = || {
        let start = at + size_of::<u32>();
        let length = u32::from_le_bytes(bytes.get(at..start)?.try_into().ok()?);
        at = start.checked_add(length as usize).filter(|end| *end <= bytes.len())?;
        Some(start..at)
    };
    let mut read = 0;
    while read < bytes.len() {
        let (name, entry) = (part()?, part()?);
        read = entry.end;
        entries.insert(bytes[name].to_owned(), entry);
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loading::source::FileOrigin;
    use pinion_plugin_engine::CacheKey;

    fn stored(cache: &CodeCache, bytes: &[u8]) -> DescriptionIndex {
        cache.store_index(&PluginLocation::BuiltIn.cache_name(), bytes);
        DescriptionIndex::from_content(cache.load_index(&PluginLocation::BuiltIn.cache_name()).unwrap())
    }

    fn cache() -> (tempfile::TempDir, CodeCache) {
        let directory = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(&directory.path().join("cache"), &CacheKey::new([1; 32])).unwrap();
        (directory, cache)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        pairs.iter().map(|(name, entry)| (name.as_bytes().to_owned(), entry.as_bytes().to_owned())).collect()
    }

    #[test]
    fn index_keeps_old_entries_that_are_there_and_new_ones_win() {
        let (_directory, cache) = cache();
        let first =
            DescriptionIndex::default().with(&pairs(&[("a", "one"), ("b", "two"), ("gone", "three")]), |_| true);
        let first = stored(&cache, &first);
        assert_eq!((first.get(b"a"), first.get(b"gone")), (Some(&b"one"[..]), Some(&b"three"[..])));
        let second = stored(&cache, &first.with(&pairs(&[("b", "2"), ("c", "")]), |name| name != b"gone"));
        let found = [&b"a"[..], b"b", b"c", b"gone"].map(|name| second.get(name));
        assert_eq!(found, [Some(&b"one"[..]), Some(b"2"), Some(b""), None]);
    }

    #[test]
    fn bytes_that_are_no_index_have_no_entries() {
        let (_directory, cache) = cache();
        let whole = DescriptionIndex::default().with(&pairs(&[("a", "one"), ("b", "two")]), |_| true);
        let end_of_first = 2 * size_of::<u32>() + 4;
        for length in (0..whole.len()).filter(|length| *length != end_of_first) {
            assert!(stored(&cache, &whole[..length]).entries.is_empty(), "{length} bytes");
        }
        assert!(stored(&cache, &[0xff; 64]).entries.is_empty());
    }

    #[test]
    fn index_of_one_place_is_not_that_of_another() {
        let (_directory, cache) = cache();
        let path = Path::new("/plugins");
        cache.store_index(&PluginLocation::Directory(path, FileOrigin::User).cache_name(), b"");
        assert!(cache.load_index(&PluginLocation::Directory(path, FileOrigin::Project).cache_name()).is_none());
        assert!(
            cache.load_index(&PluginLocation::Directory(Path::new("/other"), FileOrigin::User).cache_name()).is_none()
        );
        assert!(cache.load_index(&PluginLocation::BuiltIn.cache_name()).is_none());
        assert!(cache.load_index(&PluginLocation::Directory(path, FileOrigin::User).cache_name()).is_some());
    }
}
