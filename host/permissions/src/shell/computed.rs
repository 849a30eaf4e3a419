//! Places where the shell computes with the content of variables.
//!
//! Where bash computes numbers, the value of a variable is an expression in its turn, and the index of an array in it may
//! contain `$(…)`: in `x='a[$(rm y)]'; [[ x -eq 1 ]]`, the condition runs `rm`. `${x@P}` and `${!x}` do the same.

use crate::shell::script::Unreadable;
use crate::shell::{MAX_DEPTH, MAX_NODES};
use tree_sitter::{Node, Tree};

/// Operators of `[[` that compute numbers, or the index of an array.
const COMPUTING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

/// Variables whose content the shell runs.
const RUN: &[&str] = &["PS0", "PS1", "PS4", "PROMPT_COMMAND", "BASH_ENV", "ENV"];

/// Checks the size of the tree without recursion. Returns whether a part of it computes with the content of variables.
pub(super) fn check(tree: &Tree, text: &str) -> Result<bool, Unreadable> {
    let (mut cursor, mut nodes, mut depth, mut found) = (tree.walk(), 0_usize, 0_usize, false);
    loop {
        nodes += 1;
        found = found || runs_data(cursor.node(), text);
        if nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err(Unreadable::new("it is nested too deep or has too many parts"));
        }
        if cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Ok(found);
            }
            depth -= 1;
        }
    }
}

/// Returns whether a node computes with the content of variables.
fn runs_data(node: Node<'_>, text: &str) -> bool {
    let source = text.get(node.byte_range()).unwrap_or_default();
    match node.kind() {
        "variable_name" => RUN.contains(&source),
        "expansion" => !is_plain_expansion(source),
        "arithmetic_expansion" => source.strip_prefix('$').is_none_or(has_names),
        "compound_statement" if source.starts_with("((") => has_names(source),
        "c_style_for_statement" => true,
        "subscript" => !source.split_once('[').is_some_and(|(_, index)| is_index(index.trim_end_matches(']'))),
        "test_command" => {
            let is_end = |c: char| c.is_whitespace() || "()!&|".contains(c);
            source.split(is_end).any(|word| COMPUTING.contains(&word))
        }
        "declaration_command" | "unset_command" => {
            let is_typed = |word: &str| word.starts_with(['-', '+']) && word.contains(['i', 'n']);
            source.contains('[') || source.split_whitespace().any(is_typed)
        }
        _ => false,
    }
}

fn has_names(source: &str) -> bool {
    source.contains(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '`'))
}

fn is_index(text: &str) -> bool {
    matches!(text, "@" | "*") || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether `${…}` only inserts a value, or a part of it that is written in numbers.
fn is_plain_expansion(source: &str) -> bool {
    let Some(inner) = source.strip_prefix("${").and_then(|inner| inner.strip_suffix('}')) else { return false };
    let inner = inner.strip_prefix('#').unwrap_or(inner);
    let end = inner.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(inner.len());
    let rest = &inner[end..];
    let rest = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((index, rest)) if is_index(index) => rest,
        _ => rest,
    };
    let is_offset = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b" :-".contains(&byte));
    let is_operator = match rest.strip_prefix(':') {
        Some(after) => after.starts_with(['-', '=', '?', '+']) || is_offset(after),
        None => rest.is_empty() || rest.starts_with(['-', '=', '?', '+', '#', '%', '/', '^', ',']) || rest == "@Q",
    };
    is_operator && !["[", "${", "$((", "@P"].iter().any(|opener| rest.contains(opener))
}

/// Returns whether a loop may set a variable of this name: one that neither the shell nor a program is likely to know.
pub(super) fn is_plain_variable(name: &str) -> bool {
    const KNOWN: &[&str] = &["auto", "histchars"];
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) && !KNOWN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_expansions_have_numbers_as_indexes() {
        for plain in ["${a}", "${a[0]}", "${a[@]}", "${#a[*]}", "${a[1]:-b}", "${a:1:2}"] {
            assert!(is_plain_expansion(plain), "{plain}");
        }
        for computed in ["${a[b]}", "${a[$b]}", "${a[b]:-c}", "${a:b}", "${a@P}", "${!a}", "$a"] {
            assert!(!is_plain_expansion(computed), "{computed}");
        }
    }
}
