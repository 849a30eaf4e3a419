//! Rules about changes that the host makes for an agent.

use crate::approve::permissions::CallPermissions;
use pinion_permissions::Verdict;
use std::path::Path;

impl CallPermissions {
    /// Returns why a path of the workspace must not be changed for an agent: a rule denies it or asks about it, or the path
    /// decides what runs outside of the sandbox. Such a file is changed by a call that names it, so that the user sees it.
    pub(crate) fn refuses_change(&self, path: &Path) -> Option<String> {
        let name = path.display();
        let rules = match self.rules() {
            Ok(rules) => rules,
            Err(error) => return Some(format!("`{}` cannot be read: {error}", self.stored().path().display())),
        };
        let rule = rules.about_file(true, path, self.workspace());
        if let Some(rule) = rule.filter(|rule| rule.verdict != Verdict::Allow) {
            return Some(format!("the rule `{}` ({}) is about `{name}`", rule.rule.text(), rule.source));
        }
        let Some(path) = path.to_str() else { return Some(format!("the name of `{name}` is not text")) };
        let protected = self.protected(path)?;
        Some(format!("`{}` decides what runs outside of the sandbox", protected.display()))
    }
}
