//! Plan files: their location, their list, and how they are read and written.
//!
//! A file is replaced in one step, so that no one reads half of it, and an existing one only if the user has named it.
//! A file in the repository is untrusted input: for reading and for writing, it is reached beneath the root and through
//! no link that leads out.

use pinion_agent::step::StepStatus;
use pinion_app::failure::{Failure, Result, with_causes};
use pinion_app::files::paths::home;
use pinion_app::files::repository::{Links, Located, Make, Refusal, Repository};
use pinion_console::output::age;
use pinion_orchestration::Plan;
use pinion_tui::PickChoice;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum number of plans with the same title, which a number distinguishes.
const SAME_TITLE: u32 = 1000;
/// Maximum characters of a title in a file name.
const NAME_CHARACTERS: usize = 60;

/// Directory of new plans.
pub(crate) const DIRECTORY: &str = ".pinion/plans";

/// Location of a plan.
#[derive(Debug)]
pub(crate) struct PlanFile {
    workspace: PathBuf,
    /// Absolute path.
    pub(crate) path: PathBuf,
    /// Path for people, relative to the workspace if the file is in it.
    pub(crate) shown: String,
}

impl PlanFile {
    pub(crate) fn new(workspace: &Path, path: &Path) -> Self {
        let path = workspace.join(path);
        let shown = path.strip_prefix(workspace).unwrap_or(&path).display().to_string();
        Self { workspace: workspace.to_owned(), path, shown }
    }

    /// Writes a new plan to the plan directory of a workspace, under an unused name.
    pub(crate) fn create(workspace: &Path, title: &str, text: &str) -> Result<Self> {
        let name = slug(title);
        let names = (1..=SAME_TITLE).map(|number| match number {
            1 => format!("{name}.md"),
            number => format!("{name}-{number}.md"),
        });
        let created = Repository::at(workspace)
            .map_err(Refusal::Io)
            .and_then(|project| project.create(Path::new(DIRECTORY), names, text.as_bytes()));
        let failed = |problem: String| Failure::failed(problem).hint("choose another file with --plan-file");
        match created {
            Ok(Some(name)) => Ok(Self::new(workspace, &Path::new(DIRECTORY).join(name))),
            Ok(None) => Err(failed(format!("{SAME_TITLE} plans named `{name}` already exist"))),
            Err(refusal) => Err(failed(format!("could not create a plan in `{DIRECTORY}`: {refusal}"))),
        }
    }

    /// Replaces the content of the file, which need not exist yet.
    pub(crate) fn replace(&self, text: &str) -> Result<()> {
        let replaced =
            self.located(Make::Directories).and_then(|file| file.repository.replace(&file.path, text.as_bytes()));
        replaced.map_err(|error| Failure::failed(format!("could not write `{}`", self.shown)).because(error))
    }

    /// Checks that the file can hold a plan, before a model is asked for one.
    pub(crate) fn check(&self) -> Result<()> {
        let found = self.located(Make::Nothing).and_then(|file| file.repository.open(&file.path, Links::Inside));
        match found {
            Err(refusal) if !matches!(&refusal, Refusal::Io(error) if error.kind() == io::ErrorKind::NotFound) => {
                Err(Failure::usage(format!("cannot use `{}` for the plan: {refusal}", self.shown)))
            }
            _ => Ok(()),
        }
    }

    fn located(&self, make: Make) -> Result<Located, Refusal> {
        Located::find(&self.workspace, home().as_deref(), &self.path, make).map_err(Refusal::Io)
    }

    /// Reads the current plan, and returns it with its text.
    pub(crate) fn read(&self) -> Result<(String, Plan)> {
        let text = self.source()?;
        let plan = Plan::parse(&text)
            .map_err(|error| Failure::usage(format!("invalid plan `{}`: {}", self.shown, with_causes(&error))))?;
        Ok((text, plan))
    }

    /// Reads the text, which need not be a valid plan.
    pub(crate) fn source(&self) -> Result<String> {
        self.text().map_err(|error| {
            Failure::usage(format!("could not read the plan `{}`", self.shown))
                .because(error)
                .hint("create one with `pinion --plan \"TASK\"`")
        })
    }

    fn text(&self) -> Result<String, Refusal> {
        let file = self.located(Make::Nothing)?;
        let bytes = file.repository.read(&file.path, Links::Inside, Plan::MAX_BYTES as u64)?;
        let bytes = bytes.ok_or_else(|| Refusal::Io(io::Error::new(io::ErrorKind::NotFound, "no such file")))?;
        String::from_utf8(bytes).map_err(|_| Refusal::Io(io::Error::other("not UTF-8 text")))
    }

    /// Marks a step as running, in the text that was just read.
    pub(crate) fn begin(&self, text: &str, index: usize) -> Result<()> {
        self.mark(text, index, StepStatus::Running)
    }

    /// Marks the running step as ended, wherever it is by now.
    pub(crate) fn finish(&self, index: usize, title: &str, status: StepStatus) -> Result<()> {
        let (text, plan) = self.read()?;
        let index = begun(&plan, index, title)
            .ok_or_else(|| Failure::failed(format!("the running step is missing in `{}`", self.shown)))?;
        self.mark(&text, index, status)
    }

    fn mark(&self, text: &str, index: usize, status: StepStatus) -> Result<()> {
        let marked = Plan::set_status(text, index, status);
        self.replace(
            &marked.map_err(|error| {
                Failure::failed(format!("could not mark a step in `{}`", self.shown)).because(error)
            })?,
        )
    }
}

/// Finds the running step, which the user may have moved or renamed.
fn begun(plan: &Plan, index: usize, title: &str) -> Option<usize> {
    let is_running = |at: &usize| plan.steps[*at].status == StepStatus::Running;
    let running: Vec<usize> = (0..plan.steps.len()).filter(is_running).collect();
    let mut named = running.iter().copied().filter(|at| plan.steps[*at].title == title);
    let there = named.clone().find(|at| *at == index).or_else(|| named.next());
    there.or_else(|| running.first().copied().filter(|_| running.len() == 1))
}

/// Turns a title into a file name.
fn slug(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let name = name[..name.len().min(NAME_CHARACTERS)].trim_end_matches('-');
    if name.is_empty() { "plan".to_owned() } else { name.to_owned() }
}

/// Lists the files of plans, the latest first.
pub(crate) fn list_plans(workspace: &Path) -> Vec<PickChoice> {
    let entries = std::fs::read_dir(workspace.join(DIRECTORY)).into_iter().flatten().filter_map(Result::ok);
    let plan = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| name.ends_with(".md"))?;
        Some((entry.metadata().ok()?.modified().ok()?, format!("{DIRECTORY}/{name}")))
    };
    let mut plans: Vec<(SystemTime, String)> = entries.filter_map(plan).collect();
    plans.sort_unstable_by(|a, b| b.cmp(a));
    let seconds = |time: SystemTime| i64::try_from(time.elapsed().unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
    let choice = |(modified, file): (SystemTime, String)| PickChoice {
        label: file.clone(),
        value: file,
        detail: age(seconds(modified)),
    };
    plans.into_iter().map(choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn titles_become_plain_file_names() {
        assert_eq!(slug("Fix `src/Main.rs`: the parser!"), "fix-src-main-rs-the-parser");
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!((slug("日本語"), slug("")), ("plan".to_owned(), "plan".to_owned()));
        assert_eq!(slug(&"long words ".repeat(100)).len(), 59);
    }

    #[test]
    fn new_plan_takes_an_unused_name() {
        let directory = TempDir::new().unwrap();
        let workspace = directory.path().canonicalize().unwrap();
        let names: Vec<String> =
            (0..3).map(|n| PlanFile::create(&workspace, "A", &format!("{n}")).unwrap().shown).collect();
        assert_eq!(names, [".pinion/plans/a.md", ".pinion/plans/a-2.md", ".pinion/plans/a-3.md"]);
        assert_eq!(fs::read_to_string(workspace.join(&names[0])).unwrap(), "0");
        assert_eq!(fs::read_dir(workspace.join(".pinion/plans")).unwrap().count(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn new_plan_cannot_leave_the_workspace_through_a_link() {
        let (directory, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), directory.path().join(".pinion")).unwrap();
        let created = PlanFile::create(&directory.path().canonicalize().unwrap(), "A", "");
        assert!(created.unwrap_err().to_string().contains("could not create a plan in `.pinion/plans`"));
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn replaced_file_keeps_its_mode_and_links() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = TempDir::new().unwrap();
        let workspace = directory.path().canonicalize().unwrap();
        let (file, link) = (workspace.join("a.md"), workspace.join("link.md"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("a.md", &link).unwrap();
        PlanFile::new(&workspace, &link).replace("new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn running_step_is_found_after_the_user_moved_it() {
        let found = |text: &str, index| begun(&Plan::parse(text).unwrap(), index, "b");
        assert_eq!(found("## a\n## b\nStatus: running", 1), Some(1));
        assert_eq!(found("## new\n## a\n## b\nStatus: running", 1), Some(2));
        assert_eq!(found("## renamed\nStatus: running\n## b", 1), Some(0));
        assert_eq!(found("## b\nStatus: running\n## b\nStatus: running", 1), Some(1));
        assert_eq!(found("## x\nStatus: running\n## y\nStatus: running", 1), None);
        assert_eq!(found("## b\nStatus: open", 0), None);
    }
}
