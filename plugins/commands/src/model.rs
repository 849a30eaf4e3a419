//! `/model`: switches the model, or lists models.

use crate::arguments::one_word;
use crate::complete::matching;
use pinion_plugin_sdk::catalog::{self, ModelInfo};
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::new("model", "Switch the model, or list models", |typed, _call| {
        Ok(vec![match one_word("model", typed)? {
            Some(name) => Action::SetModel(name),
            None => Action::Print(models(&catalog::models())),
        }])
    })
    .argument("[name]")
    .bare_action("choose-model")
    .complete(|typed| {
        let models = catalog::models();
        matching(models.iter().map(|model| (model.name.as_str(), model.current.then_some("in use"))), typed)
    })
}

/// Lists the known models.
fn models(models: &[ModelInfo]) -> String {
    if models.is_empty() {
        return "No known models. `/model PROVIDER/NAME` accepts any.".to_owned();
    }
    let line = |model: &ModelInfo| format!("- {}{}", model.name, if model.current { " (in use)" } else { "" });
    models.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_in_use_is_marked() {
        let model = |name: &str, current| ModelInfo { name: name.into(), current };
        assert_eq!(models(&[model("a", false), model("b", true)]), "- a\n- b (in use)");
    }
}
