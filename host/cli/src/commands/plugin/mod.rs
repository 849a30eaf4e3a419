//! `pinion plugin`: writing, building, checking and trying plugins.

mod binary;
mod build;
mod call;
mod consent;
mod grant;
mod new;
mod show;

use crate::args::PluginCommand;
use crate::failure::Result;
use crate::run::compose::Base;

pub(crate) async fn run(base: &Base, command: PluginCommand) -> Result<()> {
    match command {
        PluginCommand::New { name } => new::run(base, &name),
        PluginCommand::Build { folder, out, install } => build::run(base, &folder, out, install),
        PluginCommand::Pack { file, name, plugin_version, description, asks, out } => {
            let about =
                binary::About { name, version: plugin_version, description, asks: grant::parse(base, &asks)?.asks() };
            let out = out.map(|out| base.workspace.join(out));
            binary::pack(&base.workspace, &base.workspace.join(file), about, out)
        }
        PluginCommand::Check { file } => show::check(base, &base.workspace.join(file)).await,
        PluginCommand::List => show::list(base).await,
        PluginCommand::Info { plugin } => show::info(base, &plugin).await,
        PluginCommand::Grant { plugin, capabilities } => consent::grant(base, &plugin, &capabilities).await,
        PluginCommand::Revoke { plugin, capabilities } => consent::revoke(base, &plugin, &capabilities).await,
        PluginCommand::Call { plugin, tool, arguments, grants } => {
            call::run(base, &plugin, &tool, &arguments, &grants).await
        }
    }
}
