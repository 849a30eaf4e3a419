//! Variables in files of servers: `${NAME}` and `${NAME:-default}`.
//!
//! Nothing else expands: no `$NAME`, no command, and no variable in the value of another one. `${env:NAME}`, the form of
//! editors, is the same as `${NAME}`, and `${workspaceFolder}` is the workspace.

/// The result of looking up a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// Its value.
    Value(String),
    /// The environment has no such variable.
    NotSet,
    /// The user has not named it for files of projects.
    NotNamed,
}

/// Looks up a variable of the environment by its name.
pub type Variables<'a> = &'a dyn Fn(&str) -> Lookup;

/// The reason why a text cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unexpanded {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// Expands the variables in a text.
pub(super) fn expand(text: &str, variables: Variables<'_>) -> Result<String, Unexpanded> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inside, behind)) = after.split_once('}') else {
            return Err(plain(format!("`${{{after}` has no closing brace")));
        };
        expanded.push_str(&value(inside, variables)?);
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn value(inside: &str, variables: Variables<'_>) -> Result<String, Unexpanded> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    if !is_name(name) {
        return Err(plain(format!("`${{{inside}}}` is not the name of an environment variable")));
    }
    match (variables(name), default) {
        // As in shells, the default also stands for an empty value.
        (Lookup::Value(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Lookup::Value(value), _) => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (Lookup::NotSet, None) => Err(Unexpanded {
            message: format!("the environment variable `{name}` is not set"),
            hint: Some(format!("set it, or write a default: `${{{name}:-…}}`")),
        }),
        (Lookup::NotNamed, None) => Err(Unexpanded {
            message: format!("a project may not read the environment variable `{name}`"),
            hint: Some(format!("to allow it, add \"{name}\" to `environment` of `[mcp]` in your config.toml")),
        }),
    }
}

fn plain(message: String) -> Unexpanded {
    Unexpanded { message, hint: None }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.len() <= 256
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(name: &str) -> Lookup {
        match name {
            "A" => Lookup::Value("one".to_owned()),
            "NESTED" => Lookup::Value("${A}".to_owned()),
            "EMPTY" => Lookup::Value(String::new()),
            "SECRET" => Lookup::NotNamed,
            _ => Lookup::NotSet,
        }
    }

    #[test]
    fn only_named_variables_expand_and_values_do_not_expand_again() {
        for (text, expected) in [
            ("x", "x"),
            ("${A}/${env:A}$A", "one/one$A"),
            ("${NESTED}", "${A}"),
            ("${MISSING:-a:-b}", "a:-b"),
            ("${EMPTY:-d}${EMPTY}", "d"),
            ("${SECRET:-none}", "none"),
            ("$(id) `id` $$ %A%", "$(id) `id` $$ %A%"),
        ] {
            assert_eq!(expand(text, &look).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unknown_variables_are_errors_with_a_remedy() {
        assert!(expand("${MISSING}", &look).unwrap_err().hint.unwrap().contains("${MISSING:-…}"));
        assert!(expand("${SECRET}", &look).unwrap_err().hint.unwrap().contains("[mcp]"));
        for text in ["${", "${}", "${A B}", "${input:token}", "${A${A}}"] {
            assert_eq!(expand(text, &look).unwrap_err().hint, None, "{text}");
        }
    }
}
