//! Here-documents and here-strings: the input of a command may be a script.

use crate::shell::script::{Redirect, Simple, Unreadable};
use crate::shell::unwrap::{self, Standing};
use crate::shell::walk::{ShellState, Walker};
use tree_sitter::Node;

impl Walker<'_> {
    /// Returns the place of a lone `-` between commands and their redirections, with the blanks around it. The grammar
    /// loses it in front of a here-document, as in `python3 - <<EOF`.
    pub(super) fn lone_dash(&self, node: Node<'_>) -> Option<(usize, usize)> {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        children.windows(2).find_map(|pair| {
            let gap = (pair[0].end_byte(), pair[1].start_byte());
            let is_beside =
                matches!(pair[0].kind(), "command" | "list" | "pipeline") && pair[1].kind().ends_with("_redirect");
            let text = self.text.get(gap.0..gap.1)?;
            (is_beside && text.starts_with([' ', '\t']) && text.trim_matches([' ', '\t']) == "-").then_some(gap)
        })
    }

    /// Reads the content of a here-document as a script of the shells since `before`, if the shell does not change it.
    pub(super) fn here_content(&mut self, content: &str, before: usize) -> Result<(), Unreadable> {
        let added = self.script.commands.get_mut(before..).unwrap_or_default();
        added.iter_mut().for_each(|command| command.here = Some(content.to_owned()));
        let shells: Vec<Simple> = added.iter().filter(|command| unwrap::reads_script(command)).cloned().collect();
        shells.iter().try_for_each(|shell| unwrap::script(self, content, shell, Standing::Own))
    }

    /// Notes whether a command since `before` is a shell that runs data, such as another command's output.
    pub(super) fn reads_data(&mut self, before: usize) {
        let added = self.script.commands.get(before..).unwrap_or_default();
        self.script.runs_data |= added.iter().any(|command| command.here.is_none() && unwrap::reads_script(command));
    }

    /// Walks a here-string.
    pub(super) fn here_string(&mut self, node: Node<'_>, place: &ShellState) -> Result<(), Unreadable> {
        if self.source(node).contains(['$', '`']) {
            self.changed("the shell computes a here-string");
        }
        self.substitutions(node, place)
    }

    /// Walks a here-document. Returns its content if the shell does not change it.
    pub(super) fn here(
        &mut self,
        node: Node<'_>,
        place: &ShellState,
        redirects: &mut Vec<Redirect>,
    ) -> Result<Option<String>, Unreadable> {
        let (mut is_quoted, mut content) = (false, None);
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "heredoc_start" => is_quoted = self.source(child).contains(['\'', '"', '\\']),
                "heredoc_body" => content = Some(self.source(child)),
                "heredoc_end" | "file_descriptor" => {}
                "file_redirect" => redirects.extend(self.redirect(child, place)?),
                "pipeline" | "command" | "redirected_statement" | "list" => {
                    let before = self.script.commands.len();
                    self.statement(child, &mut ShellState { reads_pipe: true, ..place.clone() })?;
                    self.reads_data(before);
                }
                _ if !child.is_named() => {}
                other => return Err(Unreadable::new(format!("a here-document has a part that is not known: {other}"))),
            }
        }
        match content {
            Some(content) if is_quoted => Ok(Some(content.to_owned())),
            Some(content) if content.contains('`') || content.contains("$(") => {
                Err(Unreadable::new("a here-document contains commands"))
            }
            Some(content) if !content.contains(['$', '\\']) => Ok(Some(content.to_owned())),
            Some(_) => {
                self.changed("the shell computes a here-document");
                Ok(None)
            }
            None => Ok(None),
        }
    }
}

/// Moves `2>&1` in front of the here-document that it follows, because the grammar cannot read it behind one whose line
/// goes on, as in `make <<'EOF' 2>&1 | tail`. Their order means nothing. `None` without such a `2>&1`, or with more
/// than one here-document: then the text might be in the content of another.
pub(super) fn reordered(text: &str) -> Option<String> {
    const BEHIND: &str = "2>&1";
    let at = text.find("<<")?;
    let rest = &text[at + 2..];
    if rest.contains("<<") || !text[..at].ends_with([' ', '\t']) {
        return None;
    }
    let word = rest.trim_start_matches('-').trim_start_matches([' ', '\t']);
    let length = match word.chars().next()? {
        quote @ ('\'' | '"') => word[1..].find(quote)? + 2,
        _ => word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?,
    };
    let end = text.len() - word.len() + length;
    let is_name = word[..length].trim_matches(['\'', '"']).chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let behind = text[end..].trim_start_matches([' ', '\t']);
    let more = behind.strip_prefix(BEHIND).filter(|more| more.starts_with([' ', '\t', '\n', '|', '&', ';', ')']))?;
    let is_apart = behind.len() < text.len() - end;
    (is_name && length > 0 && is_apart).then(|| format!("{}{BEHIND} {}{more}", &text[..at], &text[at..end]))
}
