//! The models of servers on this machine, as choices.

use pinion_app::model::FoundModel;
use pinion_app::workspace_base::Base;
use pinion_console::output::tokens;
use pinion_tui::PickChoice;

/// Lists the models of servers on this machine.
pub(super) async fn local_choices(base: &Base) -> Vec<PickChoice> {
    base.local_models().await.iter().map(choice).collect()
}

fn choice(found: &FoundModel) -> PickChoice {
    let FoundModel { provider, model } = found;
    let name = format!("{}/{}", provider.name, model.id);
    let state = if model.is_loaded { "on this machine, loaded" } else { "on this machine" };
    let context = model.context_window.map(|window| format!(" · {} context", tokens(window)));
    PickChoice { value: name.clone(), label: name, detail: format!("{state}{}", context.unwrap_or_default()) }
}
