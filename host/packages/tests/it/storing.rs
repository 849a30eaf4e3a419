//! The store: activation, versions, edits by others, kills, full disks and concurrent installations.

use crate::support::{PlainReader, TestStore, package, paths, request, single};
use pinion_packages::{PackageStore, StoreError};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn package_is_installed_updated_switched_and_removed() {
    let test = TestStore::new();
    let (one, two, three) = (single("greet 1.0.0"), single("greet 2.0.0 files=read"), single("greet 3.0.0"));
    test.install(&one).unwrap();
    assert_eq!(test.active("greet").as_deref(), Some("greet 1.0.0"));
    test.install(&two).unwrap();
    assert_eq!(test.active("greet").as_deref(), Some("greet 2.0.0 files=read"));
    assert_eq!(test.store.switch("greet", None, &BTreeMap::new()).unwrap(), "1.0.0");
    assert_eq!(test.active("greet").as_deref(), Some("greet 1.0.0"));
    assert_eq!(test.store.switch("greet", Some("2.0.0"), &BTreeMap::new()).unwrap(), "2.0.0");
    assert!(matches!(test.store.switch("greet", Some("9.0.0"), &BTreeMap::new()), Err(StoreError::NoVersion { .. })));
    test.install(&three).unwrap();
    let lock = test.store.read().unwrap();
    let versions: Vec<&str> = lock.packages[0].releases.iter().map(|release| release.version.as_str()).collect();
    assert_eq!((versions, names(&test.path("store")).len()), (vec!["3.0.0", "2.0.0"], 2));
    assert!(lock.agreed("greet", &three.components[0].digest).is_some());
    assert!(lock.agreed("greet", &one.components[0].digest).is_none());
    assert!(test.store.verify().unwrap().is_empty());
    test.store.remove("greet").unwrap();
    assert_eq!((test.active("greet"), names(&test.path("store"))), (None, Vec::new()));
    assert!(matches!(test.store.remove("greet"), Err(StoreError::Unknown(_))));
}

#[test]
fn revoked_grants_stay_revoked_in_kept_versions() {
    let test = TestStore::new();
    let (one, two) = (single("greet 1.0.0 files=read process"), single("greet 2.0.0 files=read process"));
    test.install(&one).unwrap();
    let current = BTreeMap::from([("greet".to_owned(), vec!["files=read".to_owned()])]);
    let mut update = request(&two, Some(one.digest.clone()));
    update.current = current.clone();
    update.granted = current;
    test.store.install(&update, &PlainReader).unwrap();
    let lock = test.store.read().unwrap();
    for package in [&one, &two] {
        assert_eq!(lock.agreed("greet", &package.components[0].digest).unwrap().granted, ["files=read"]);
    }
    let none = BTreeMap::from([("greet".to_owned(), Vec::new())]);
    test.store.switch("greet", None, &none).unwrap();
    let lock = test.store.read().unwrap();
    assert!(lock.agreed("greet", &two.components[0].digest).unwrap().granted.is_empty());
}

#[test]
fn component_that_an_update_drops_is_removed() {
    let test = TestStore::new();
    let manifest = |version: &str| format!(r#"{{"name":"kit","version":"{version}"}}"#);
    test.install(&package(&[
        (".plugin/plugin.json", &manifest("1")),
        ("dev.pinion/a.wasm", "a 1"),
        ("dev.pinion/b.wasm", "b 1"),
    ]))
    .unwrap();
    test.install(&package(&[
        (".plugin/plugin.json", &manifest("2")),
        ("dev.pinion/a.wasm", "a 2"),
        ("dev.pinion/c.wasm", "c 2"),
    ]))
    .unwrap();
    assert_eq!(names(&test.path("plugins")), ["a.wasm", "c.wasm"]);
    test.store.switch("kit", None, &BTreeMap::new()).unwrap();
    assert_eq!(names(&test.path("plugins")), ["a.wasm", "b.wasm"]);
    assert_eq!(test.active("a").as_deref(), Some("a 1"));
}

#[test]
fn edits_of_the_lock_are_noticed() {
    let test = TestStore::new();
    test.install(&single("greet 1.0.0 files=read")).unwrap();
    let text = test.text();
    let edits: &[(&str, &str)] = &[
        ("files=read", "files=write"),
        ("greet", "great"),
        ("version = \"1.0.0\"", "version = \"9.0.0\""),
        ("seal = \"", "seal = \"0"),
        ("version = 1\n", ""),
        ("# Written", "# written"),
        ("\n[[package]]", "\n\n[[package]]"),
    ];
    for (from, to) in edits {
        assert!(text.contains(from), "{from}");
        fs::write(test.path("plugins.lock"), text.replacen(from, to, 1)).unwrap();
        assert!(matches!(test.store.read(), Err(StoreError::Lock { .. })), "{from}");
        assert!(test.install(&single("other 1.0.0")).is_err() && test.store.remove("greet").is_err());
    }
    fs::write(test.path("plugins.lock"), &text[..text.len() - 20]).unwrap();
    assert!(test.store.read().is_err());
    // Sealed with another key.
    fs::write(test.path("plugins.lock"), &text).unwrap();
    assert!(PackageStore::new(paths(test.root.path().to_owned()), [8; 32]).read().is_err());
    assert!(test.store.read().is_ok());
    // Names become names of files.
    fs::write(test.path("plugins.lock"), text.replacen("name = \"greet\"", "name = \"../greet\"", 1)).unwrap();
    assert!(test.store.read_unsealed().is_err());
    // The user looked at the edited file.
    fs::write(test.path("plugins.lock"), text.replacen("files=read", "files=write", 1)).unwrap();
    let seen = test.store.read_unsealed().unwrap();
    test.store.accept(&seen).unwrap();
    assert_eq!(test.store.read().unwrap(), seen);
}

#[cfg(unix)]
#[test]
fn lock_that_others_can_access_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let test = TestStore::new();
    test.install(&single("greet 1.0.0")).unwrap();
    let mode = fs::metadata(test.path("plugins.lock")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    fs::set_permissions(test.path("plugins.lock"), fs::Permissions::from_mode(0o620)).unwrap();
    assert!(test.store.read().is_err());
}

#[test]
fn edits_of_the_store_are_noticed_and_never_activated() {
    let test = TestStore::new();
    let (one, two) = (single("greet 1.0.0"), single("greet 2.0.0"));
    test.install(&one).unwrap();
    test.install(&two).unwrap();
    let old = test.store.directory(&one.digest);
    fs::write(old.join("plugin.wasm"), "\0asmgreet 1.0.0 process").unwrap();
    assert!(matches!(test.store.switch("greet", Some("1.0.0"), &BTreeMap::new()), Err(StoreError::Tampered { .. })));
    assert_eq!(test.active("greet").as_deref(), Some("greet 2.0.0"));
    assert_eq!(test.store.verify().unwrap().len(), 1);
    fs::remove_file(old.join("plugin.wasm")).unwrap();
    assert_eq!(test.store.verify().unwrap().len(), 1);
    fs::write(test.store.directory(&two.digest).join("extra.md"), "x").unwrap();
    assert_eq!(test.store.verify().unwrap().len(), 2);
    fs::write(test.store.plugin_file("greet"), "\0asmgreet 2.0.0 process").unwrap();
    assert_eq!(test.store.verify().unwrap().len(), 3);
}

#[cfg(unix)]
#[test]
fn link_in_the_store_is_not_followed() {
    let test = TestStore::new();
    let one = single("greet 1.0.0");
    test.install(&one).unwrap();
    let file = test.store.directory(&one.digest).join("plugin.wasm");
    let elsewhere = test.path("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    assert_eq!(test.store.verify().unwrap().len(), 1);
}

#[test]
fn names_of_others_are_refused() {
    let test = TestStore::new();
    test.install(&single("greet-all 1.0.0")).unwrap();
    for squatted in ["Greet-All 1", "greet_all 1", "greet-a11 1"] {
        assert!(matches!(test.install(&single(squatted)), Err(StoreError::LooksAlike { .. })), "{squatted}");
    }
    let kit = package(&[(".plugin/plugin.json", r#"{"name":"kit"}"#), ("dev.pinion/a.wasm", "greet-a1l 1")]);
    assert!(matches!(test.install(&kit), Err(StoreError::LooksAlike { .. })));
    fs::write(test.path("plugins/own.wasm"), "the user's").unwrap();
    assert!(matches!(test.install(&single("own 1.0.0")), Err(StoreError::Occupied { .. })));
    assert_eq!(fs::read(test.path("plugins/own.wasm")).unwrap(), b"the user's");
    assert_eq!(names(&test.path("store")).len(), 1);
}

#[test]
fn update_that_the_user_did_not_see_is_refused() {
    let test = TestStore::new();
    let (one, two, three) = (single("greet 1.0.0"), single("greet 2.0.0"), single("greet 3.0.0 process"));
    test.install(&one).unwrap();
    test.install(&two).unwrap();
    for seen in [None, Some(one.digest.clone())] {
        assert!(matches!(test.install_over(&three, seen), Err(StoreError::Changed(_))));
    }
    assert_eq!(test.active("greet").as_deref(), Some("greet 2.0.0"));
}

/// Copies a directory, as it would be after a kill at this moment.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn kill_at_any_step_leaves_the_old_or_the_new_version() {
    let manifest = |version: &str| format!(r#"{{"name":"kit","version":"{version}"}}"#);
    let version = |version: &str| {
        let (a, b) = (format!("a {version}"), format!("b {version}"));
        package(&[(".plugin/plugin.json", &manifest(version)), ("dev.pinion/a.wasm", &a), ("dev.pinion/b.wasm", &b)])
    };
    let (old, new) = (TestStore::new(), TestStore::new());
    old.install(&version("1")).unwrap();
    copy(old.root.path(), new.root.path());
    new.install(&version("2")).unwrap();
    let two = version("2");
    let tree: Vec<String> = two.files.paths().map(|path| format!("store/{}/{path}", two.digest)).collect();
    // The files that an installation writes before the lock file decides; a kill leaves the first of them.
    for done in 0..=tree.len() {
        let state = TestStore::new();
        copy(old.root.path(), state.root.path());
        for file in &tree[..done] {
            let target = state.path(file);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(new.path(file), target).unwrap();
        }
        state.store.recover().unwrap();
        assert_eq!((state.active("a").as_deref(), state.active("b").as_deref()), (Some("a 1"), Some("b 1")), "{done}");
        assert!(state.store.verify().unwrap().is_empty());
        state.install(&two).unwrap();
        assert_eq!((state.active("a").as_deref(), state.active("b").as_deref()), (Some("a 2"), Some("b 2")), "{done}");
    }
}

#[test]
fn work_that_was_cut_off_is_completed() {
    let manifest = r#"{"name":"kit","version":"1"}"#;
    let kit = package(&[(".plugin/plugin.json", manifest), ("dev.pinion/a.wasm", "a 1"), ("dev.pinion/b.wasm", "b 1")]);
    let test = TestStore::new();
    test.install(&kit).unwrap();
    for work in ["activate", "remove"] {
        let state = TestStore::new();
        copy(test.root.path(), state.root.path());
        let edited =
            state.text().replacen("\n[[package.release]]", &format!("pending = \"{work}\"\n\n[[package.release]]"), 1);
        assert!(edited.contains("pending"));
        fs::write(state.path("plugins.lock"), edited).unwrap();
        fs::remove_file(state.store.plugin_file("b")).unwrap();
        // An edit voids the seal, so that others cannot ask for work either.
        assert!(state.store.recover().is_err());
        let seen = state.store.read_unsealed().unwrap();
        state.store.accept(&seen).unwrap();
        state.store.recover().unwrap();
        let expected = if work == "activate" { vec!["a.wasm", "b.wasm"] } else { Vec::new() };
        assert_eq!(names(&state.path("plugins")), expected);
        assert!(!state.text().contains("pending"));
    }
}

#[test]
fn failed_write_leaves_everything_as_it_was() {
    let test = TestStore::new();
    test.install(&single("greet 1.0.0")).unwrap();
    let (before, two) = (test.text(), single("greet 2.0.0"));
    // A file in the place of the directory, as a system without space refuses to create it.
    fs::write(test.store.directory(&two.digest), "in the way").unwrap();
    assert!(matches!(test.install(&two), Err(StoreError::Io { .. })));
    assert_eq!((test.active("greet").as_deref(), test.text()), (Some("greet 1.0.0"), before));
    fs::remove_file(test.store.directory(&two.digest)).unwrap();
    // The last step fails.
    fs::remove_file(test.store.plugin_file("greet")).unwrap();
    fs::create_dir_all(test.store.plugin_file("greet").join("in-the-way")).unwrap();
    assert!(test.install(&two).is_err());
    fs::remove_dir_all(test.store.plugin_file("greet")).unwrap();
    test.store.recover().unwrap();
    assert_eq!(test.active("greet").as_deref(), Some("greet 1.0.0"));
    assert!(test.store.verify().unwrap().is_empty());
}

#[test]
fn concurrent_installations_are_all_or_nothing() {
    let test = TestStore::new();
    let packages: Vec<_> = (0..8).map(|number| single(&format!("plugin-{} {number}", number / 2))).collect();
    std::thread::scope(|scope| {
        for package in &packages {
            scope.spawn(|| {
                let outcome = test.store.install(&request(package, None), &PlainReader);
                assert!(matches!(outcome, Ok(()) | Err(StoreError::Changed(_))), "{outcome:?}");
            });
        }
    });
    let lock = test.store.read().unwrap();
    assert_eq!((lock.packages.len(), names(&test.path("plugins")).len()), (4, 4));
    assert!(test.store.verify().unwrap().is_empty());
    assert_eq!(names(&test.path("store")).len(), 4);
}

#[test]
fn plugin_that_its_author_builds_leaves_its_package() {
    let test = TestStore::new();
    assert!(!test.store.release("greet").unwrap());
    test.install(&single("greet 1.0.0")).unwrap();
    assert!(test.store.release("greet").unwrap());
    assert!(test.active("greet").is_some() && test.store.read().unwrap().packages.is_empty());
}
