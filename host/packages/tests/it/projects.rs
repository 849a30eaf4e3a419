//! Packages that projects name: the file, and versions that are kept for them.

use crate::support::{PlainReader, TestStore, request, single};
use pinion_packages::{Package, ProjectPackage, ProjectPackages, StoreError};
use std::collections::BTreeMap;
use std::fs;

fn row(name: &str) -> ProjectPackage {
    let (source, version) = ("oci://ghcr.io/acme/greet:1.0.0".to_owned(), "1.0.0".to_owned());
    ProjectPackage { name: name.to_owned(), source, version, digest: "a0".repeat(32) }
}

fn keep(test: &TestStore, package: &Package) -> Result<(), StoreError> {
    test.store.keep(&request(package, None), &PlainReader)
}

fn versions(test: &TestStore, name: &str) -> Vec<String> {
    let lock = test.store.read().unwrap();
    let releases = lock.package(name).map(|package| package.releases.clone()).unwrap_or_default();
    releases.into_iter().map(|release| release.version).collect()
}

#[test]
fn rows_survive_a_round_trip_and_replace_a_row_of_their_name() {
    let mut packages = ProjectPackages::default();
    packages.set(row("greet"));
    packages.set(row("kit"));
    packages.set(ProjectPackage { version: "2.0.0".to_owned(), ..row("greet") });
    let text = packages.to_text().unwrap();
    assert_eq!(ProjectPackages::parse(&text).unwrap(), packages);
    let named: Vec<_> = packages.packages.iter().map(|row| (&*row.name, &*row.version)).collect();
    assert_eq!(named, [("greet", "2.0.0"), ("kit", "1.0.0")]);
    assert_eq!(ProjectPackages::parse("").unwrap(), ProjectPackages::default());
}

#[test]
fn invalid_rows_are_refused_by_their_number() {
    let text = |rows: &[ProjectPackage]| ProjectPackages { packages: rows.to_vec() }.to_text().unwrap();
    let cases = [
        (vec![row("greet"), row("../greet")], "row 2: `../greet` is not the name of a package"),
        (vec![row("greet"), row("greet")], "row 2: it names `greet` twice"),
        (vec![ProjectPackage { digest: "A0".repeat(32), ..row("a") }], "row 1: `digest` of `a` is not 64"),
        (vec![ProjectPackage { digest: "a0".repeat(31), ..row("a") }], "row 1: `digest` of `a` is not 64"),
        (vec![ProjectPackage { source: String::new(), ..row("a") }], "row 1: `source` of `a` is empty"),
        (vec![ProjectPackage { version: "1\u{1b}[2J".to_owned(), ..row("a") }], "row 1: `version` of `a`"),
        (vec![ProjectPackage { source: "x".repeat(2_049), ..row("a") }], "row 1: `source` of `a`"),
    ];
    for (rows, expected) in cases {
        let problem = ProjectPackages::parse(&text(&rows)).unwrap_err();
        assert!(problem.starts_with(expected), "{problem}");
    }
    assert!(ProjectPackages::parse("[[plugin]]\nname = 'a'\nrun = 'x'\n").is_err());
    let many: Vec<_> = (0..257).map(|number| row(&format!("p{number}"))).collect();
    assert!(ProjectPackages { packages: many }.to_text().is_err());
}

#[test]
fn version_for_a_project_is_kept_and_activates_nothing() {
    let test = TestStore::new();
    let one = single("greet 1.0.0 files=read");
    keep(&test, &one).unwrap();
    let lock = test.store.read().unwrap();
    assert!(lock.package("greet").unwrap().active_release().is_none() && test.active("greet").is_none());
    assert_eq!(lock.agreed("greet", &one.components[0].digest).unwrap().granted, ["files=read"]);
    assert!(test.store.directory(&one.digest).join("plugin.wasm").exists() && test.store.verify().unwrap().is_empty());
    // The lock without an active version can be shown and accepted.
    assert_eq!(test.store.read_unsealed().unwrap(), lock);
    test.store.remove("greet").unwrap();
    assert!(!test.store.directory(&one.digest).exists());
}

#[test]
fn two_projects_have_two_versions_beside_the_active_one() {
    let test = TestStore::new();
    let [old, new] = ["greet 0.8.0", "greet 0.9.0"].map(single);
    test.install(&single("greet 1.0.0")).unwrap();
    keep(&test, &new).unwrap();
    keep(&test, &old).unwrap();
    assert_eq!(test.active("greet").as_deref(), Some("greet 1.0.0"));
    // Updates drop earlier versions, except for the projects' ones.
    for version in ["greet 1.1.0", "greet 1.2.0", "greet 1.3.0"] {
        test.install(&single(version)).unwrap();
    }
    assert_eq!(versions(&test, "greet"), ["1.3.0", "1.2.0", "0.9.0", "0.8.0"]);
    assert_eq!(test.store.switch("greet", None, &BTreeMap::new()).unwrap(), "1.2.0");
    assert!(test.store.verify().unwrap().is_empty());
}

#[test]
fn version_of_a_project_can_be_installed_for_everything() {
    let test = TestStore::new();
    let one = single("greet 1.0.0");
    keep(&test, &one).unwrap();
    test.install_over(&one, None).unwrap();
    assert_eq!((test.active("greet").as_deref(), versions(&test, "greet").len()), (Some("greet 1.0.0"), 1));
    for version in ["greet 1.1.0", "greet 1.2.0", "greet 1.3.0"] {
        test.install(&single(version)).unwrap();
    }
    assert_eq!(versions(&test, "greet"), ["1.3.0", "1.2.0", "1.0.0"]);
}

#[test]
fn oldest_versions_of_projects_make_room() {
    let test = TestStore::new();
    for minor in 0..10 {
        keep(&test, &single(&format!("greet 1.{minor}.0"))).unwrap();
    }
    assert_eq!(versions(&test, "greet").len(), 8);
    assert_eq!(versions(&test, "greet")[0], "1.2.0");
    assert_eq!(fs::read_dir(test.path("store")).unwrap().count(), 8);
}

#[test]
fn version_for_a_project_needs_a_free_name() {
    let test = TestStore::new();
    test.install(&single("greet 1.0.0")).unwrap();
    assert!(matches!(keep(&test, &single("Greet 1.0.0")), Err(StoreError::LooksAlike { .. })));
    fs::write(test.path("plugins/mine.wasm"), "mine").unwrap();
    assert!(matches!(keep(&test, &single("mine 1.0.0")), Err(StoreError::Occupied { .. })));
}
