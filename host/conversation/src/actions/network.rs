//! `/net`: the network of programs, in a conversation.

use crate::actions::definition::{ActionScene, ConversationAction, choice};
use pinion_app::workspace_base::Base;
use pinion_app::process::network::NetworkReach;
use pinion_egress::HostRule;
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: ChangeNetwork = ChangeNetwork;

/// The action `network`.
pub(super) struct ChangeNetwork;

impl ConversationAction for ChangeNetwork {
    fn name(&self) -> &'static str {
        "network"
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Immediate)
    }

    fn arguments(&self, _base: &Base) -> Option<Vec<PickChoice>> {
        Some(vec![
            choice("on", "programs use the whole network"),
            choice("off", "programs have no network"),
            choice("allow", "programs reach chosen hosts"),
        ])
    }

    fn perform_at_once(&self, scene: &ActionScene<'_>, arguments: &str) -> Option<String> {
        Some(change(arguments, scene.base))
    }
}

/// Shows the network, or changes it for the rest of the session. Returns the Markdown to print.
fn change(arguments: &str, base: &Base) -> String {
    let network = &base.network;
    let (word, host) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    match (word, host.trim()) {
        ("", _) => {}
        ("off", "") => network.set(NetworkReach::Nothing),
        ("on", "") => network.set(NetworkReach::Everything),
        ("allow", "") => network.set(NetworkReach::AllowedHosts),
        ("allow", host) => {
            let allowed = host.parse::<HostRule>().map_err(|error| error.to_string());
            if let Err(error) = allowed.and_then(|rule| network.allow(rule)) {
                return error;
            }
        }
        _ => {
            return "unknown argument\n\nhint: `/net on`, `/net off`, `/net allow` or `/net allow HOST[:PORT]`"
                .to_owned();
        }
    }
    if !arguments.is_empty() {
        base.permissions.audit.changed("the network of programs", arguments);
    }
    state(base)
}

fn state(base: &Base) -> String {
    if base.sandbox().is_none() {
        return "Programs run without a sandbox and use the whole network.".to_owned();
    }
    let (reach, rules) = (base.network.reach(), base.network.rules());
    let rows: String = rules.iter().map(|rule| format!("  {rule}\n")).collect();
    let missing = base.hosts_are_out_of_reach().filter(|_| reach == NetworkReach::AllowedHosts);
    let text = match (reach, rules.is_empty()) {
        (NetworkReach::Everything, _) => "on: programs use the whole network\n".to_owned(),
        (NetworkReach::Nothing, true) => "off: programs have no network\n".to_owned(),
        (NetworkReach::Nothing, false) => format!("off; hosts that `/net allow` allows again:\n{rows}"),
        (NetworkReach::AllowedHosts, true) => "off: no hosts are allowed\n".to_owned(),
        (NetworkReach::AllowedHosts, false) => format!("programs reach these hosts:\n{rows}"),
    };
    let missing = missing.map(|reason| format!("\n{reason}")).unwrap_or_default();
    format!("```\n{text}```{missing}")
}
