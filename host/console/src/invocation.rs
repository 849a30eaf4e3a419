//! One invocation of the program: its options, and the parts that a command loads on demand.
//!
//! Some commands need only the options, some the user's paths, and most a [`Base`] with the config of the workspace. Each
//! command asks only for the parts that it needs, so a broken config stops only the commands that read it.

use crate::args::{GlobalArgs, RunArgs};
use crate::output::TerminalScreen;
use pinion_agent::secrets::Secrets;
use pinion_app::config::Config;
use pinion_app::failure::Result;
use pinion_app::files::output_directories::SpillDirectory;
use pinion_app::files::paths::{self, Paths};
use pinion_app::workspace_base::Base;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The options of an invocation, and the secrets that its output must not contain.
pub struct Invocation {
    /// The options of a run, which most commands ignore.
    pub run: RunArgs,
    /// The options that every command has.
    pub global: GlobalArgs,
    secrets: Secrets,
    output: OnceLock<Arc<SpillDirectory>>,
    complete: fn(Base) -> Base,
}

impl Invocation {
    /// Keeps the options of a command line, and the secrets of its environment.
    pub fn new(run: RunArgs, global: GlobalArgs, secrets: Secrets) -> Self {
        Self { run, global, secrets, output: OnceLock::new(), complete: |base| base }
    }

    /// Sets a function that adds parts to each [`Base`], such as providers that only a feature of the command brings.
    pub fn completed_by(self, complete: fn(Base) -> Base) -> Self {
        Self { complete, ..self }
    }

    /// The directory to work in, absolute and without links.
    pub fn workspace(&self) -> Result<PathBuf> {
        paths::workspace(self.global.work_in.as_deref())
    }

    /// Loads the config.
    pub fn config(&self, paths: &Paths, workspace: &Path) -> Result<Config> {
        Config::load(paths, workspace, &self.run.options())
    }

    /// Loads everything that a command in a workspace needs.
    pub fn base(&self) -> Result<Base> {
        let paths = Paths::from_environment()?;
        let workspace = self.workspace()?;
        let config = self.config(&paths, &workspace)?;
        self.base_with(paths, workspace, config)
    }

    /// Completes a config that is loaded already.
    pub fn base_with(&self, paths: Paths, workspace: PathBuf, config: Config) -> Result<Base> {
        let output = self.output.get_or_init(|| Arc::new(SpillDirectory::new(paths.output()))).clone();
        let (options, secrets) = (self.run.options(), self.secrets.clone());
        let base = Base::open(paths, workspace, config, &options, secrets, Some(output), Arc::new(TerminalScreen))?;
        Ok((self.complete)(base))
    }

    /// Removes files that only this command needs, such as temporary files of its programs.
    pub fn close(&self) {
        if let Some(output) = self.output.get() {
            output.close();
        }
    }
}
