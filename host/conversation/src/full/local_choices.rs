//! The models on this machine, as choices: models of local servers, and models that run in this process.

use pinion_app::model::FoundModel;
use pinion_app::model::in_process::{IN_PROCESS_PROVIDER, InstalledModel};
use pinion_app::workspace_base::Base;
use pinion_console::output::{bytes, tokens};
use pinion_tui::PickChoice;

/// Lists the models in this process, then the models of servers on this machine.
pub(super) async fn local_choices(base: &Base) -> Vec<PickChoice> {
    let installed: Vec<PickChoice> = base.installed_models().iter().map(installed_choice).collect();
    let found = base.local_models().await;
    installed.into_iter().chain(found.iter().map(choice)).collect()
}

fn choice(found: &FoundModel) -> PickChoice {
    let FoundModel { provider, model } = found;
    let name = format!("{}/{}", provider.name, model.id);
    let state = if model.is_loaded { "on this machine, loaded" } else { "on this machine" };
    PickChoice { value: name.clone(), label: name, detail: format!("{state}{}", context(model.context_window)) }
}

fn installed_choice(model: &InstalledModel) -> PickChoice {
    let name = format!("{IN_PROCESS_PROVIDER}/{}", model.name);
    let detail = format!("runs in Pinion, {}{}", bytes(model.bytes), context(model.context_window));
    PickChoice { value: name.clone(), label: name, detail }
}

fn context(window: Option<u64>) -> String {
    window.map(|window| format!(" · {} context", tokens(window))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_model_is_offered_with_size_and_context() {
        let model = InstalledModel { name: "qwen3-0.6b".into(), bytes: 639_446_688, context_window: Some(40_960) };
        let PickChoice { value, detail, .. } = installed_choice(&model);
        assert_eq!(value, "local/qwen3-0.6b");
        assert!(detail.starts_with("runs in Pinion, ") && detail.ends_with(" context"), "{detail}");
        assert!(!installed_choice(&InstalledModel { context_window: None, ..model }).detail.contains('·'));
    }
}
