use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

struct Tree {
    directory: TempDir,
    finder: Arc<Finder>,
}

impl Tree {
    fn new(files: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let patterns = Pattern::built_in().collect();
        let finder = Finder::new(Exclusions::new(&root.join("w"), [patterns]).unwrap());
        let tree = Self { directory, finder };
        fs::create_dir(tree.at("w")).unwrap();
        files.iter().for_each(|file| tree.write(file));
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), "x").unwrap();
    }

    fn found(&self) -> Vec<String> {
        let root = self.at("");
        let text = |place: &ExcludedPlace| place.path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        self.finder.find_excluded().unwrap().places.iter().map(text).collect()
    }

    fn is_excluded(&self, path: &str) -> bool {
        self.finder.of_file(&FileId::from_metadata(&fs::metadata(self.at(path)).unwrap()).unwrap()).is_some()
    }
}

#[test]
fn matches_are_found_at_any_depth() {
    let tree = Tree::new(&["w/.env", "w/a/b/id_rsa", "w/a/b/c.rs", "w/.env.example", "outside/.env"]);
    assert_eq!(tree.found(), ["w/.env", "w/a/b/id_rsa"]);
}

#[test]
fn changes_since_the_last_look_are_seen() {
    let tree = Tree::new(&["w/a/b/c.rs"]);
    assert!(tree.found().is_empty());
    tree.write("w/a/b/.env");
    assert_eq!(tree.found(), ["w/a/b/.env"]);
    fs::rename(tree.at("w/a"), tree.at("w/other")).unwrap();
    assert_eq!(tree.found(), ["w/other/b/.env"]);
    fs::remove_file(tree.at("w/other/b/.env")).unwrap();
    assert!(tree.found().is_empty());
}

#[test]
fn hard_links_are_excluded_under_each_name() {
    let tree = Tree::new(&["w/a/.env", "w/b/plain"]);
    assert!(!tree.is_excluded("w/b/plain") && tree.is_excluded("w/a/.env"));
    fs::hard_link(tree.at("w/a/.env"), tree.at("w/b/note.txt")).unwrap();
    fs::hard_link(tree.at("w/a/.env"), tree.at("elsewhere")).unwrap();
    assert!(tree.is_excluded("w/b/note.txt") && tree.is_excluded("elsewhere"));
    assert_eq!(tree.found(), ["w/a/.env", "w/b/note.txt"]);
    fs::rename(tree.at("w/b/note.txt"), tree.at("w/b/again.txt")).unwrap();
    assert_eq!(tree.found(), ["w/a/.env", "w/b/again.txt"]);
}

#[test]
fn targets_of_excluded_links_are_excluded_but_not_programs_or_directories() {
    let tree = Tree::new(&["w/config/real", "vault/real", "w/src/a.rs"]);
    symlink("config/real", tree.at("w/.env")).unwrap();
    symlink(tree.at("vault/real"), tree.at("w/.envrc")).unwrap();
    symlink("src", tree.at("w/id_rsa")).unwrap();
    symlink("/etc/passwd", tree.at("w/x.key")).unwrap();
    symlink("nowhere", tree.at("w/y.key")).unwrap();
    assert_eq!(tree.found(), ["vault/real", "w/config/real"]);
    assert!(tree.is_excluded("w/config/real"));
    fs::remove_file(tree.at("w/.env")).unwrap();
    assert_eq!(tree.found(), ["vault/real", "w/config/real"]);
    tree.write("w/config/new");
    fs::rename(tree.at("w/config/new"), tree.at("w/config/real")).unwrap();
    assert_eq!(tree.found(), ["vault/real"]);
}

#[test]
fn workspace_that_is_missing_contains_nothing() {
    let tree = Tree::new(&[]);
    fs::remove_dir(tree.at("w")).unwrap();
    assert!(tree.found().is_empty());
}

#[test]
fn threads_find_what_lies_in_many_directories_and_what_appears_later() {
    let files: Vec<String> = (0..400).map(|number| format!("w/d{}/e{number}/.env", number % 7)).collect();
    let tree = Tree::new(&files.iter().map(String::as_str).collect::<Vec<_>>());
    let mut expected = files.clone();
    expected.sort();
    assert_eq!(tree.found(), expected);
    tree.write("w/d3/e3/more/deep/.env");
    expected.push("w/d3/e3/more/deep/.env".to_owned());
    expected.sort();
    assert_eq!(tree.found(), expected);
}

#[test]
fn files_of_excluded_directories_are_excluded_under_other_names() {
    let tree = Tree::new(&["w/.aws/deep/key", "w/.aws/other", "w/b/plain"]);
    fs::hard_link(tree.at("w/.aws/deep/key"), tree.at("w/b/note.txt")).unwrap();
    fs::hard_link(tree.at("w/.aws/deep/key"), tree.at("elsewhere")).unwrap();
    fs::hard_link(tree.at("w/b/plain"), tree.at("w/b/same")).unwrap();
    let excluded = ["w/b/note.txt", "elsewhere", "w/.aws/deep/key"];
    let pattern = Pattern::new("/.aws/", PatternOrigin::BuiltIn);
    let finder = Finder::new(Exclusions::new(&tree.at("w"), [vec![pattern]]).unwrap());
    let tree = Tree { finder, ..tree };
    assert_eq!(tree.found(), ["w/.aws", "w/b/note.txt"]);
    assert!(excluded.iter().all(|path| tree.is_excluded(path)) && !tree.is_excluded("w/b/same"));
}

/// The file with credentials that [`other_names_of_credentials_are_excluded`] creates.
static CREDENTIALS: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();

#[test]
fn other_names_of_credentials_are_excluded() {
    let tree = Tree::new(&["home/.ssh/id_ed25519", "home/.ssh/known_hosts", "w/a/plain", "w/.env"]);
    CREDENTIALS.set(tree.at("home/.ssh")).unwrap();
    let exclusions = Exclusions::new(&tree.at("w"), [Pattern::built_in().collect()]).unwrap();
    let finder = Finder::with_credentials(exclusions, || CREDENTIALS.get().cloned().into_iter().collect());
    let finder = Arc::new(finder);
    let tree = Tree { finder, ..tree };
    assert_eq!(tree.found(), ["w/.env"]);
    fs::hard_link(tree.at("home/.ssh/id_ed25519"), tree.at("w/a/notes")).unwrap();
    assert_eq!(tree.found(), ["w/.env", "w/a/notes"]);
    let file = FileId::from_metadata(&fs::metadata(tree.at("w/a/notes")).unwrap()).unwrap();
    let reason = tree.finder.of_file(&file).unwrap();
    assert!(reason.to_string().contains("another name of a file with credentials"), "{reason}");
    assert!(reason.remedy().contains("a copy"), "{}", reason.remedy());
    assert!(!tree.is_excluded("w/a/plain"));
}

#[test]
fn repositories_are_found_in_every_form_and_at_any_depth() {
    let tree = Tree::new(&[
        "w/.git/HEAD",
        "w/.git/modules/libs/a/config",
        "w/.git/worktrees/b/HEAD",
        "w/.git/objects/evil/HEAD",
        "w/a/b/c/.git",
        "w/store.git/config",
        "w/store.git/hooks/x",
        "w/app/config",
    ]);
    symlink(".git", tree.at("w/app/link")).unwrap();
    let found = |finder: &Finder| -> Vec<String> {
        let found = finder.find_excluded().unwrap();
        found.repositories.iter().map(|path| path.strip_prefix(tree.at("w")).unwrap().display().to_string()).collect()
    };
    let expected =
        ["", ".git/modules/libs/a", ".git/objects/evil", ".git/worktrees/b", "a/b/c", "store.git"].map(str::to_owned);
    let finder = Finder::of_repositories(&tree.at("w"), 1_000);
    assert_eq!(found(&finder), expected);
    fs::remove_file(tree.at("w/a/b/c/.git")).unwrap();
    assert_eq!(found(&finder).len(), expected.len() - 1);
    assert!(finder.find_excluded().unwrap().places.is_empty() && finder.is_empty());
    let error =
        Finder::of_repositories(&tree.at("w"), 5).find_excluded().unwrap().incomplete.clone().unwrap().to_string();
    assert!(error.contains("5 entries"), "{error}");
}

#[test]
fn directories_that_their_modes_close_are_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let tree = Tree::new(&["w/closed/in/.git/HEAD", "w/unsearched/in/.git/HEAD"]);
    let mode = |path: &str, bits: u32| {
        fs::set_permissions(tree.at(path), fs::Permissions::from_mode(bits)).unwrap();
    };
    mode("w/closed", 0);
    mode("w/unsearched", 0o600);
    let is_root = fs::read_dir(tree.at("w/closed")).is_ok();
    let found = Finder::of_repositories(&tree.at("w"), 1_000).find_excluded().unwrap();
    let mut closed = found.closed.clone();
    closed.sort();
    mode("w/closed", 0o755);
    mode("w/unsearched", 0o755);
    match is_root {
        true => assert!(closed.is_empty() && found.repositories.len() == 2),
        false => assert_eq!(closed, [tree.at("w/closed"), tree.at("w/unsearched/in")]),
    }
}
