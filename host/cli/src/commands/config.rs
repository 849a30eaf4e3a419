//! `pinion config`: the config in effect, changes of it, and the paths of its files.

use clap::{Args, Subcommand};
use pinion_app::config::{Config, edit};
use pinion_app::failure::{Failure, Result};
use pinion_app::files::paths::Paths;
use pinion_app::files::private::create_directory;
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, print, text};
use pinion_conversation::editor_command;

/// The arguments of `pinion config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the config in effect
    Show,
    /// Set a key of the user's config, such as `tui.theme` or `limits.max-turns`
    Set {
        /// The key, with dots between the names of tables
        #[arg(value_name = "KEY")]
        key: String,
        /// The value in TOML, or a string without quotation marks
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a key from the user's config, so that its default applies
    Unset {
        /// The key, with dots between the names of tables
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Open the user's config in `$VISUAL` or `$EDITOR`, and check it afterwards
    Edit,
    /// Print the paths of the config, the data, the cache and the user's plugins
    Path,
}

impl ConfigArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        // `edit` fixes a config that is invalid, so it is not loaded before.
        let paths_of = Paths::from_environment;
        match self.command {
            ConfigCommand::Show => print(&Text::complete(&invocation.base()?.config.merged.to_string())),
            ConfigCommand::Set { key, value } => {
                edit::change(&paths_of()?, &key, Some(&value))?;
                print(&text!("set `{}` in `{}`\n", key, paths_of()?.config_file()))
            }
            ConfigCommand::Unset { key } => {
                edit::change(&paths_of()?, &key, None)?;
                print(&text!("removed `{}` from `{}`\n", key, paths_of()?.config_file()))
            }
            ConfigCommand::Edit => in_editor(invocation, paths_of()?).await,
            ConfigCommand::Path => print(&paths(&invocation.base()?)),
        }
    }
}

/// Opens the config in the user's editor, and checks the result.
async fn in_editor(invocation: &Invocation, paths: Paths) -> Result<()> {
    let file = paths.config_file();
    let failed = |problem: String| Failure::failed(problem).hint("`VISUAL` or `EDITOR` names your editor");
    create_directory(&paths.config).map_err(|error| failed(format!("could not create its directory: {error}")))?;
    let ended = editor_command(&file).status().await;
    let ended = ended.map_err(|error| failed(format!("could not run the editor: {error}")))?;
    if !ended.success() {
        return Err(failed(format!("the editor failed: {ended}")));
    }
    let checked = Config::load(&paths, &invocation.workspace()?, &invocation.run.options());
    checked.map(drop).map_err(|failure| failure.or_hint("run `pinion config edit` again"))
}

fn paths(base: &Base) -> Text {
    let Paths { data, cache, .. } = &base.paths;
    let (config, plugins) = (base.paths.config_file(), base.paths.plugins());
    text!("config  {}\ndata    {}\ncache   {}\nplugins {}\n", config, data, cache, plugins)
}
