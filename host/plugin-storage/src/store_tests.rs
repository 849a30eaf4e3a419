use super::*;
use crate::contents::PluginStorage;
use crate::place::PluginIdentity;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const QUOTA: u64 = 1024 * 1024;

fn identity(file: &str) -> PluginIdentity {
    PluginIdentity::new("named", Path::new(file), "keeper")
}

fn place(root: &Path) -> StorageLocation {
    StorageLocation::of_plugin(root, &identity("/nowhere/keeper.wasm"))
}

fn root() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let root = directory.path().join("storage");
    (directory, root)
}

async fn set(store: &ValueStore, key: &str, value: &[u8]) -> Result<u32, StoreError> {
    store.write(key, value, ExpectedVersion::Anything, QUOTA).await
}

async fn value(store: &ValueStore, key: &str) -> Option<Vec<u8>> {
    store.get(key).await.unwrap().map(|(value, _)| value)
}

#[tokio::test]
async fn values_survive_and_versions_change_with_each_write() {
    let (_directory, root) = root();
    let store = ValueStore::new(place(&root));
    assert_eq!((value(&store, "a").await, root.exists()), (None, false));
    let first = set(&store, "a", b"one").await.unwrap();
    let second = set(&store, "a", b"one").await.unwrap();
    assert_ne!(first, second);
    set(&store, "b", &[]).await.unwrap();
    assert!(store.remove("b").await.unwrap() && !store.remove("b").await.unwrap());
    let other = ValueStore::new(place(&root));
    assert_eq!(other.get("a").await.unwrap(), Some((b"one".to_vec(), second)));
    assert_eq!(value(&other, "b").await, None);
}

#[tokio::test]
async fn replace_compares_versions_across_stores() {
    let (_directory, root) = root();
    let (one, two) = (ValueStore::new(place(&root)), ValueStore::new(place(&root)));
    let version = one.write("a", b"1", ExpectedVersion::Version(None), QUOTA).await.unwrap();
    assert!(matches!(two.write("a", b"2", ExpectedVersion::Version(None), QUOTA).await, Err(StoreError::Changed)));
    two.write("a", b"2", ExpectedVersion::Version(Some(version)), QUOTA).await.unwrap();
    assert!(matches!(
        one.write("a", b"3", ExpectedVersion::Version(Some(version)), QUOTA).await,
        Err(StoreError::Changed)
    ));
    // A value that was removed and written again is another one.
    one.remove("a").await.unwrap();
    let again = set(&two, "a", b"1").await.unwrap();
    assert_ne!(again, version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_increments_lose_nothing() {
    let (_directory, root) = root();
    // Two stores with separate indexes, as in two processes.
    let stores = [Arc::new(ValueStore::new(place(&root))), Arc::new(ValueStore::new(place(&root)))];
    let tasks = stores.map(|store| {
        tokio::spawn(async move {
            for _ in 0..200 {
                loop {
                    let found = store.get("n").await.unwrap();
                    let (number, version) = match &found {
                        Some((value, version)) => (String::from_utf8_lossy(value).parse().unwrap(), Some(*version)),
                        None => (0_u32, None),
                    };
                    let next = (number + 1).to_string();
                    match store.write("n", next.as_bytes(), ExpectedVersion::Version(version), QUOTA).await {
                        Ok(_) => break,
                        Err(StoreError::Changed) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(value(&ValueStore::new(place(&root)), "n").await, Some(b"400".to_vec()));
}

#[tokio::test]
async fn kill_at_any_byte_of_a_write_keeps_the_value_before_it() {
    let (_directory, root) = root();
    let (place, store) = (place(&root), ValueStore::new(place(&root)));
    set(&store, "a", b"before").await.unwrap();
    let before = fs::metadata(&place.values).unwrap().len();
    set(&store, "a", b"after it, at greater length").await.unwrap();
    let whole = fs::read(&place.values).unwrap();
    for length in before as usize..whole.len() {
        // The remains after the kill, and after an additional loss of power.
        let zeros = vec![0; whole.len() - length];
        for bytes in [whole[..length].to_vec(), [&whole[..length], &zeros].concat()] {
            if bytes == whole {
                continue;
            }
            fs::write(&place.values, bytes).unwrap();
            let found = ValueStore::new(place.clone()).get("a").await;
            // Zeros in the middle of a record are damage or its absence, and never another value.
            assert!(
                matches!(&found, Ok(Some((value, _))) if value == b"before") || found.is_err(),
                "{length}: {found:?}"
            );
        }
        fs::write(&place.values, &whole[..length]).unwrap();
        let store = ValueStore::new(place.clone());
        set(&store, "b", b"more").await.unwrap();
        assert_eq!(value(&ValueStore::new(place.clone()), "a").await.as_deref(), Some(&b"before"[..]), "{length}");
        assert_eq!(value(&store, "b").await.as_deref(), Some(&b"more"[..]), "{length}");
    }
}

#[tokio::test]
async fn damage_at_any_byte_is_reported_and_never_read_as_a_value() {
    let (_directory, root) = root();
    let (place, store) = (place(&root), ValueStore::new(place(&root)));
    for key in ["a", "b", "c"] {
        set(&store, key, format!("value of {key}").as_bytes()).await.unwrap();
    }
    let whole = fs::read(&place.values).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        fs::write(&place.values, bytes).unwrap();
        let store = ValueStore::new(place.clone());
        let read = store.get("a").await;
        let written = set(&store, "d", b"x").await;
        assert!(read.is_err() && written.is_err(), "{at}: {read:?} {written:?}");
    }
    fs::write(&place.values, []).unwrap();
    let error = store.get("a").await.unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("pinion plugin storage keeper --clear"), "{error}");
    let plugins = PluginStorage::new(&root).plugins().unwrap();
    assert!(plugins[0].scopes[0].is_damaged);
    PluginStorage::new(&root).clear(&plugins[0]).unwrap();
    assert_eq!(value(&store, "a").await, None);
    set(&store, "a", b"again").await.unwrap();
}

#[tokio::test]
async fn quota_counts_keys_values_and_their_overhead() {
    let (_directory, root) = root();
    let store = ValueStore::new(place(&root));
    let write = |key, value| store.write(key, value, ExpectedVersion::Anything, 2 * OVERHEAD + 20);
    write("a", b"123456789").await.unwrap();
    write("b", b"123456789").await.unwrap();
    assert!(matches!(write("c", b"").await, Err(StoreError::Quota(0))));
    assert!(matches!(write("a", b"1234567890").await, Err(StoreError::Quota(10))));
    write("a", b"12345678").await.unwrap();
    store.remove("b").await.unwrap();
    assert!(matches!(write("c", b"12345678901").await, Err(StoreError::Quota(11))));
    write("c", b"1234567890").await.unwrap();
    // A lowered quota forbids growth only.
    assert!(store.write("c", b"123", ExpectedVersion::Anything, 0).await.is_ok());
    assert!(matches!(store.write("c", b"1234", ExpectedVersion::Anything, 0).await, Err(StoreError::Quota(0))));
}

#[tokio::test]
async fn overwritten_values_do_not_fill_the_disk() {
    let (_directory, root) = root();
    let (place, store) = (place(&root), ValueStore::new(place(&root)));
    set(&store, "kept", b"kept").await.unwrap();
    let reader = ValueStore::new(place.clone());
    for round in 0..40_u8 {
        set(&store, "large", &vec![round; 100_000]).await.unwrap();
        assert_eq!(value(&reader, "large").await, Some(vec![round; 100_000]));
    }
    assert_eq!(value(&reader, "kept").await, Some(b"kept".to_vec()));
    assert!(fs::metadata(&place.values).unwrap().len() < 2 * SLACK);
    assert!(!place.new_values().exists());
}

#[tokio::test]
async fn keys_are_listed_in_pages_by_prefix() {
    let (_directory, root) = root();
    let store = ValueStore::new(place(&root));
    for key in ["b/2", "a", "b/1", "b/10", "B", "ü", "b0", "b\0"] {
        set(&store, key, b"x").await.unwrap();
    }
    let all = store.keys("", None, 1000).await.unwrap();
    assert_eq!(all, ["B", "a", "b\0", "b/1", "b/10", "b/2", "b0", "ü"]);
    assert_eq!(store.keys("b/", None, 2).await.unwrap(), ["b/1", "b/10"]);
    assert_eq!(store.keys("b/", Some("b/10"), 2).await.unwrap(), ["b/2"]);
    assert_eq!(store.keys("b/", Some("a"), 1).await.unwrap(), ["b/1"]);
    assert!(store.keys("b/", Some("c"), 1).await.unwrap().is_empty());
    for limit in [0, 1001, u32::MAX] {
        assert!(matches!(store.keys("", None, limit).await, Err(StoreError::Invalid(_))));
    }
}

#[tokio::test]
async fn keys_that_look_alike_are_different() {
    let (_directory, root) = root();
    let store = ValueStore::new(place(&root));
    let long = "x".repeat(MAX_KEY);
    let keys = ["k", "K", "k ", " k", "k\0", "é", "e\u{301}", "../k", "/k", "k/", ".", "..", "CON", "k\n", &long];
    for (number, key) in keys.iter().enumerate() {
        set(&store, key, &[number as u8]).await.unwrap();
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(value(&store, key).await, Some(vec![number as u8]), "{key:?}");
    }
    for key in [String::new(), "x".repeat(MAX_KEY + 1), "é".repeat(129)] {
        assert!(matches!(set(&store, &key, b"").await, Err(StoreError::Invalid(_))), "{key}");
        assert!(matches!(store.get(&key).await, Err(StoreError::Invalid(_))), "{key}");
    }
    assert!(matches!(set(&store, "v", &vec![0; MAX_VALUE + 1]).await, Err(StoreError::Invalid(_))));
    set(&store, "v", &vec![7; MAX_VALUE]).await.unwrap_err();
    store.write("v", &vec![7; MAX_VALUE], ExpectedVersion::Anything, 2 * QUOTA).await.unwrap();
    assert_eq!(value(&store, "v").await, Some(vec![7; MAX_VALUE]));
}

#[cfg(unix)]
#[tokio::test]
async fn links_and_readable_files_are_refused_and_directories_are_private() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let (directory, root) = root();
    let place = place(&root);
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for level in &place.directories {
        symlink(&elsewhere, level).unwrap();
        let store = ValueStore::new(place.clone());
        assert!(matches!(set(&store, "a", b"x").await, Err(StoreError::Io(_))), "{}", level.display());
        assert!(matches!(store.get("a").await, Err(StoreError::Io(_))), "{}", level.display());
        assert!(fs::read_dir(&elsewhere).unwrap().next().is_none());
        fs::remove_file(level).unwrap();
        fs::create_dir(level).unwrap();
    }
    for file in [&place.values, &place.lock(), &place.new_values()] {
        // The attempt before may have left its lock.
        let _ = fs::remove_file(file);
        symlink(elsewhere.join("file"), file).unwrap();
        assert!(set(&ValueStore::new(place.clone()), "a", b"x").await.is_err(), "{}", file.display());
        assert!(!elsewhere.join("file").exists());
        fs::remove_file(file).unwrap();
    }
    let store = ValueStore::new(place.clone());
    set(&store, "a", b"x").await.unwrap();
    for (path, mode) in place.directories.iter().map(|path| (path, 0o700)).chain([(&place.values, 0o600)]) {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
    fs::set_permissions(&place.values, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(store.get("a").await.is_err());
}

#[tokio::test]
async fn session_values_are_copied_and_removed_with_it() {
    let (_directory, root) = root();
    let (storage, keeper, other) = (PluginStorage::new(&root), identity("/a.wasm"), identity("/b.wasm"));
    let at = |identity: &PluginIdentity, session: &str| {
        ValueStore::new(StorageLocation::of_session(&root, identity, session))
    };
    storage.copy_session("none", "copy").unwrap();
    set(&at(&keeper, "one"), "a", b"1").await.unwrap();
    set(&at(&other, "one"), "a", b"other").await.unwrap();
    storage.copy_session("one", "two").unwrap();
    set(&at(&keeper, "two"), "a", b"2").await.unwrap();
    assert_eq!(value(&at(&keeper, "one"), "a").await, Some(b"1".to_vec()));
    assert_eq!(value(&at(&keeper, "two"), "a").await, Some(b"2".to_vec()));
    assert_eq!(value(&at(&other, "two"), "a").await, Some(b"other".to_vec()));
    storage.remove_session("one").unwrap();
    storage.remove_session("one").unwrap();
    assert_eq!(value(&at(&keeper, "one"), "a").await, None);
    let plugins = storage.plugins().unwrap();
    assert_eq!(plugins.len(), 2);
    assert!(plugins.iter().all(|plugin| plugin.name == "keeper" && plugin.scopes[0].name == "session two"));
    storage.clear(plugins.iter().find(|plugin| plugin.source == "/a.wasm").unwrap()).unwrap();
    assert_eq!(value(&at(&keeper, "two"), "a").await, None);
    assert_eq!(value(&at(&other, "two"), "a").await, Some(b"other".to_vec()));
}

#[tokio::test]
async fn versions_do_not_repeat_after_all_values_were_removed() {
    let (_directory, root) = root();
    let store = ValueStore::new(place(&root));
    let old = set(&store, "a", b"1").await.unwrap();
    let storage = PluginStorage::new(&root);
    storage.clear(&storage.plugins().unwrap()[0]).unwrap();
    set(&ValueStore::new(place(&root)), "a", b"2").await.unwrap();
    assert!(matches!(
        store.write("a", b"3", ExpectedVersion::Version(Some(old)), QUOTA).await,
        Err(StoreError::Changed)
    ));
}
