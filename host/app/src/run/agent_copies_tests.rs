//! Copies of a workspace: their content, the paths that are closed to them, and their removal.

use super::*;
use crate::config::Config;
use crate::files::output_directories::SpillDirectory;
use crate::files::paths::Paths;
use crate::screen::NoScreen;
use crate::undo::agent_copy::{recorded_changes, remove_left};
use pinion_agent::approval::ApprovalMode;
use pinion_agent::secrets::Secrets;
use pinion_agent::tool::{ToolInvocation, ToolProgress};
use pinion_agent::{Content, Context, Message, Model, SessionStore as _};
use pinion_providers::{Replay, Script};
use pinion_session_store::Session;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A workspace with checkpoints.
struct World {
    directory: TempDir,
    base: Base,
    keeper: Arc<Keeper>,
    changes: Arc<ChangeTools>,
    session: Arc<Session>,
}

struct NoProgress;

impl ToolProgress for NoProgress {
    fn report(&self, _: String) {}
    fn update(&self, _: Vec<Content>) {}
}

impl World {
    fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        let (home, workspace) = (place.join("home"), place.join("work"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(workspace.join(".git")).unwrap();
        fs::write(workspace.join("a"), "1\n").unwrap();
        let paths = Paths { config: home.clone(), data: home.clone(), cache: home.join("cache") };
        fs::write(paths.config_file(), config.replace("{work}", workspace.to_str().unwrap())).unwrap();
        let config = Config::load(&paths, &workspace, &RunOptions::default()).unwrap();
        let output = Arc::new(SpillDirectory::new(paths.output()));
        let base = Base::new(paths, workspace.clone(), config, Secrets::default(), output, Arc::new(NoScreen));
        let provider = Arc::new(Replay::new(Script::new([])));
        let config = LoopConfig::new(provider, Model::default(), Arc::new(pinion_agent::NoTools));
        let agent = Agent::new(config, Context::new("", "s"));
        let changes = base.add_change_tools(&RunOptions::default(), &agent);
        let keeper = Arc::new(Keeper::new(&base, &RunOptions::default(), &agent, None));
        let session = Arc::new(Session::begin(&home.join("s.jsonl"), &workspace));
        session.append(&Arc::new(Message::user("go"))).unwrap();
        keeper.begin(Some(&session));
        changes.use_keeper(&keeper);
        Self { directory, base, keeper, changes, session }
    }

    fn copy(&self) -> AgentCopy {
        AgentCopy::create(&self.base, &self.keeper).unwrap()
    }

    fn work(&self) -> PathBuf {
        self.base.workspace.clone()
    }

    fn copies(&self) -> usize {
        fs::read_dir(self.base.paths.agent_copies()).map_or(0, |entries| entries.count())
    }

    /// Changes files in a copy as the run `r`.
    fn change(&self, work: impl FnOnce(&Path)) -> ImportedChanges {
        let copy = self.copy();
        work(&copy.base.workspace);
        copy.finish("r", &self.keeper).unwrap()
    }

    async fn call(&self, tool: &str, run: &str) -> Result<String, String> {
        let tool = self.changes.definitions().into_iter().find(|definition| definition.name == tool).unwrap();
        let reply = self.changes.call(ToolInvocation::alone(tool, json!({ "run": run })), &NoProgress).await;
        let text = |content: &[Content]| content.iter().filter_map(Content::as_text).collect::<String>();
        reply.result.map(|output| text(&output.content)).map_err(|error| error.to_string())
    }
}

#[test]
fn copy_has_the_covered_files_and_is_removed_at_its_end() {
    let world = World::new("exclude = [\"*.key\"]\n");
    fs::write(world.work().join("x.key"), "1").unwrap();
    fs::write(world.work().join(".gitignore"), "target\n").unwrap();
    fs::create_dir(world.work().join("target")).unwrap();
    let copy = world.copy();
    let mut names: Vec<_> =
        fs::read_dir(&copy.base.workspace).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".gitignore", "a"]);
    assert_eq!(world.copies(), 2);
    drop(copy);
    assert_eq!(world.copies(), 0);
}

#[test]
fn copy_is_closed_to_the_original() {
    let world = World::new("[sandbox]\nwritable = [\"{work}/out\", \"/var/tmp\"]\nreadable = [\"{work}/a\"]\n");
    fs::create_dir(world.work().join("out")).unwrap();
    let copy = world.copy();
    let base = &copy.base;
    assert_eq!(base.host_directories().closed, [world.work()]);
    // A program of the copy cannot name the original's repository as its own.
    fs::write(base.workspace.join(".git"), format!("gitdir: {}/.git\n", world.work().display())).unwrap();
    let policy = base.sandbox().unwrap().policy(base.output.directory()).unwrap().policy;
    assert!(policy.hidden.contains(&world.work()), "{:?}", policy.hidden);
    assert!(policy.writable.contains(&base.workspace), "{:?}", policy.writable);
    let open = policy.writable.iter().chain(&policy.visible);
    assert!(!open.clone().any(|path| path.starts_with(world.work())), "{:?}", open.collect::<Vec<_>>());
}

#[test]
fn patterns_and_rules_of_the_original_exclude_files_in_the_copy() {
    let world = World::new("exclude = [\"*.key\"]\n[permissions]\ndeny = [\"read:{work}/b\", \"write:{work}/c\"]\n");
    let copy = world.copy();
    for name in ["x.key", "b", "c", "d"] {
        fs::write(copy.base.workspace.join(name), "1").unwrap();
    }
    let names = |found: &pinion_exclusions::Finder| {
        let found = found.find_excluded().unwrap();
        let mut names: Vec<_> = found.places.iter().map(|place| place.path.file_name().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&copy.base.config.exclusions), ["b", "x.key"]);
    assert_eq!(names(&copy.base.config.denied.unwritten), ["c"]);
}

#[test]
fn stored_rules_of_the_original_hold_in_the_copy() {
    let world = World::new("");
    let rule = crate::approve::stored::StoredRule {
        project: Some(world.work()),
        effect: crate::approve::stored::Effect::Deny,
        rule: "date".to_owned(),
        definition: None,
    };
    world.base.permissions.stored().add(rule).unwrap();
    let copy = world.copy();
    let judged = copy.base.permissions.judge(ApprovalMode::All, "date", None);
    assert_eq!(judged.verdict, pinion_permissions::Verdict::Deny);
}

#[test]
fn copy_of_a_killed_process_is_removed_and_one_in_use_stays() {
    let world = World::new("");
    let copies = world.base.paths.agent_copies();
    let used = world.copy();
    fs::create_dir_all(copies.join("left/work")).unwrap();
    fs::write(copies.join("left.lock"), "").unwrap();
    remove_left(&copies.canonicalize().unwrap());
    assert!(!copies.join("left").exists() && !copies.join("left.lock").exists());
    assert!(used.base.workspace.join("a").exists());
}

#[test]
fn copy_needs_checkpoints_and_a_directory_outside_the_workspace() {
    let world = World::new("");
    world.keeper.begin(None);
    assert!(AgentCopy::create(&world.base, &world.keeper).err().unwrap().contains("it needs checkpoints"));
    world.keeper.begin(Some(&world.session));
    let base = Base { workspace: world.directory.path().canonicalize().unwrap(), ..world.base.clone() };
    assert!(AgentCopy::create(&base, &world.keeper).err().unwrap().contains("lies in the workspace"));
    assert_eq!(world.copies(), 0);
}

#[tokio::test]
async fn changes_are_shown_and_applied_once_more_than_the_copy_lasts() {
    let world = World::new("");
    let changes = world.change(|copy| {
        fs::write(copy.join("a"), "2\n").unwrap();
        fs::write(copy.join("new"), "3\n").unwrap();
    });
    assert_eq!((changes.changed, world.copies()), (2, 0));
    assert_eq!(fs::read_to_string(world.work().join("a")).unwrap(), "1\n");
    let patch = world.call("agent_changes", "r").await.unwrap();
    assert!(patch.contains("-1\n+2\n") && patch.contains("+++ b/new"), "{patch}");
    assert_eq!(world.call("apply_agent_changes", "r").await.unwrap(), "changed 2 paths");
    assert_eq!(fs::read_to_string(world.work().join("a")).unwrap(), "2\n");
    let again = world.call("apply_agent_changes", "r").await.unwrap();
    assert_eq!(again, "all paths already are as the sub-agent left them");
    assert!(world.call("agent_changes", "other").await.unwrap_err().contains("records no changes of a run `other`"));
}

#[tokio::test]
async fn conflicts_rules_and_protected_paths_change_nothing() {
    let refusals = [
        ("", "a", "changed here since the copy: `a`"),
        ("[permissions]\ndeny = [\"write:{work}/new\"]\n", "b", "the rule `write:"),
        ("[permissions]\nask = [\"write:new\"]\n", "b", "the rule `write:new`"),
        ("", "protected", "decides what runs outside of the sandbox"),
    ];
    for (config, mine, reason) in refusals {
        let world = World::new(config);
        world.change(|copy| {
            fs::write(copy.join("a"), "2\n").unwrap();
            fs::write(copy.join("new"), "3\n").unwrap();
            if mine == "protected" {
                fs::create_dir_all(copy.join("sub/.vscode")).unwrap();
                fs::write(copy.join("sub/.vscode/tasks.json"), "{}\n").unwrap();
            }
        });
        fs::write(world.work().join(mine), "mine\n").unwrap();
        let refused = world.call("apply_agent_changes", "r").await.unwrap_err();
        assert!(refused.contains("nothing was changed") && refused.contains(reason), "{refused}");
        assert!(!world.work().join("new").exists() && !world.work().join("sub").exists());
    }
}

#[test]
fn copy_without_changes_records_nothing() {
    let world = World::new("");
    let changes = world.change(|_| {});
    assert_eq!((changes.changed, recorded_changes(world.session.path(), "r")), (0, None));
    assert_eq!(note("r", &changes), "It worked in a copy of the directory and changed nothing there.");
}
