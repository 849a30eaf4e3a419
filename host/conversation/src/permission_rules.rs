//! The rules about calls in lists, as `/permissions` and `pinion permissions` show and remove them.

use pinion_app::approve::permissions::CallPermissions;
use pinion_app::approve::stored::StoredRule;
use pinion_app::failure::{Failure, Result, Status};
use pinion_console::output::line;
use pinion_permissions::{RuleSource, Verdict};

/// The failure of a command that cannot read or change the stored rules.
pub fn unreadable(permissions: &CallPermissions, error: std::io::Error) -> Failure {
    let path = permissions.stored().path().display();
    Failure::failed(format!("could not read the rules in `{path}`")).because(error)
}

/// Returns the stored rules of this project and of all projects, with their places in the file.
///
/// # Errors
/// The file cannot be read.
pub fn stored_here(permissions: &CallPermissions) -> std::io::Result<Vec<StoredRule>> {
    Ok(permissions.stored().read()?.into_iter().filter(|rule| permissions.is_here(rule)).collect())
}

/// Returns the number of a stored rule, counted from 1.
pub fn number(stored: &[StoredRule], rule: &pinion_permissions::Effective) -> Option<usize> {
    let is_it =
        |entry: &StoredRule| entry.rule.trim() == rule.rule.text() && Verdict::from(entry.effect) == rule.verdict;
    let is_stored = matches!(&rule.source, RuleSource::File(path) if path.ends_with("permissions.toml"));
    stored.iter().position(is_it).filter(|_| is_stored).map(|at| at + 1)
}

/// Renders a rule in one line, with its number if it can be removed.
pub fn row(stored: &[StoredRule], rule: &pinion_permissions::Effective) -> String {
    let number = number(stored, rule).map(|number| number.to_string()).unwrap_or_default();
    format!("{number:>3} {:<5} {:<40} {}", rule.verdict.to_string(), rule.rule.text(), rule.source)
}

/// Removes the stored rule with this number, see [`number`], and returns it.
///
/// # Errors
/// No rule has the number, or the rules cannot be changed.
pub fn remove(permissions: &CallPermissions, number: usize) -> Result<StoredRule> {
    let removed = permissions.stored().update(|rules| {
        let mut here = (0..rules.len()).filter(|at| permissions.is_here(&rules[*at]));
        here.nth(number.checked_sub(1)?).map(|at| rules.remove(at))
    });
    let removed = removed.map_err(|error| unreadable(permissions, error))?;
    removed.ok_or_else(|| {
        let failure = Failure::new(Status::Usage, format!("no rule {number}"));
        failure.hint("`pinion permissions list` shows the numbers; edit rules of the config in its file")
    })
}

/// Returns the rules that [`in_conversation`] can remove, with their numbers.
pub(crate) fn removable(permissions: &CallPermissions) -> Vec<(usize, String)> {
    let stored = stored_here(permissions).unwrap_or_default();
    stored.into_iter().enumerate().map(|(at, rule)| (at + 1, line(rule.rule.trim()))).collect()
}

/// Lists the rules, or removes one, for a conversation. Returns Markdown.
pub(crate) fn in_conversation(permissions: &CallPermissions, arguments: &str) -> String {
    if let Some(number) = arguments.strip_prefix("remove").map(str::trim) {
        return match number.parse().map_err(|_| Failure::usage("`/permissions remove` takes a number")) {
            Ok(number) => match remove(permissions, number) {
                Ok(removed) => format!("removed `{}`", line(&removed.rule)),
                Err(failure) => failure.message(),
            },
            Err(failure) => failure.message(),
        };
    }
    let listed = permissions.rules().and_then(|rules| Ok((rules, stored_here(permissions)?)));
    match listed {
        Ok((rules, stored)) => {
            let own = rules.iter().filter(|rule| rule.source != RuleSource::BuiltIn);
            let rows: Vec<String> = own.map(|rule| line(&row(&stored, rule)).replace('`', "'")).collect();
            let none = if rows.is_empty() { "no rules of your own\n" } else { "" };
            format!("```\n{none}{}\n```\n`/permissions remove N` removes a numbered rule.", rows.join("\n"))
        }
        Err(error) => unreadable(permissions, error).message(),
    }
}
