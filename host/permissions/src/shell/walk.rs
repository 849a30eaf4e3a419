//! Walks the tree of a line and collects its simple commands.

use crate::command_scene::{Scene, normal};
use crate::shell::computed::{check, is_plain_variable};
use crate::shell::script::{Redirect, Script, Simple, Unreadable};
use crate::shell::unwrap;
use crate::shell::word::{self, Word};
use std::path::PathBuf;
use tree_sitter::{Node, Tree};

/// Most directories where a command may start.
const MAX_DIRECTORIES: usize = 8;

/// Collects the commands of a parsed line.
///
/// # Errors
/// A part of the line is not certain.
pub(super) fn walk(
    text: &str,
    tree: &Tree,
    scene: &Scene<'_>,
    directories: &Option<Vec<PathBuf>>,
    nesting: usize,
) -> Result<Script, Unreadable> {
    let runs_data = check(tree, text)?;
    let root = tree.root_node();
    if root.has_error() {
        return Err(Unreadable::new("it is not valid bash, as far as can be told"));
    }
    let home = scene.home.and_then(|home| home.to_str());
    let place = ShellState { directories: directories.clone(), is_loop: false, reads_pipe: false };
    let mut walker = Walker { text, scene, home, script: Script { runs_data, ..Script::default() }, nesting };
    if runs_data {
        walker.changed("the shell computes with what variables contain");
    }
    walker.statement(root, &mut place.clone())?;
    Ok(walker.script)
}

/// The state of the shell that a command finds.
#[derive(Clone)]
pub(super) struct ShellState {
    pub(super) directories: Option<Vec<PathBuf>>,
    pub(super) is_loop: bool,
    pub(super) reads_pipe: bool,
}

pub(super) struct Walker<'a> {
    pub(super) text: &'a str,
    pub(super) scene: &'a Scene<'a>,
    pub(super) home: Option<&'a str>,
    pub(super) script: Script,
    pub(super) nesting: usize,
}

impl<'a> Walker<'a> {
    pub(super) fn source(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    pub(super) fn changed(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        if !self.script.changes.contains(&reason) {
            self.script.changes.push(reason);
        }
    }

    /// Walks a statement, or a token between statements.
    pub(super) fn statement(&mut self, node: Node<'_>, place: &mut ShellState) -> Result<(), Unreadable> {
        match node.kind() {
            "command" => self.command(node, place),
            "redirected_statement" => self.redirected(node, place),
            "pipeline" => {
                let mut reads_pipe = place.reads_pipe;
                for child in self.children(node, true)? {
                    let before = self.script.commands.len();
                    let mut own = ShellState { reads_pipe, ..place.clone() };
                    self.statement(child, &mut own)?;
                    if reads_pipe {
                        self.reads_data(before);
                    }
                    reads_pipe |= matches!(child.kind(), "|" | "|&");
                }
                Ok(())
            }
            "subshell" => {
                let mut own = place.clone();
                self.all(node, &mut own)
            }
            "while_statement" | "for_statement" | "c_style_for_statement" => {
                if let Some(name) = node.child_by_field_name("variable").map(|name| self.source(name))
                    && !is_plain_variable(name)
                {
                    self.changed(format!("it sets the variable `{name}`"));
                }
                let is_loop = std::mem::replace(&mut place.is_loop, true);
                let (before, directories) = (self.script.commands.len(), place.directories.clone());
                self.all(node, place)?;
                place.is_loop = is_loop;
                if place.directories != directories {
                    // The next round begins where this one ends.
                    self.script.commands[before..].iter_mut().for_each(|command| command.directories = None);
                }
                Ok(())
            }
            "function_definition" => {
                let name = node.child_by_field_name("name").map(|name| self.source(name)).unwrap_or_default();
                self.changed(format!("it defines the function `{}`", Word::from_text(name).shown()));
                let before = self.script.commands.len();
                self.all(node, &mut ShellState { directories: None, ..place.clone() })?;
                let starts_itself = |command: &&Simple| command.words.first().and_then(Word::literal) == Some(name);
                let times = self.script.commands[before..].iter().filter(starts_itself).count();
                self.script.is_fork_bomb |= times > 1;
                Ok(())
            }
            "variable_assignment" | "variable_assignments" => {
                self.changed("it sets variables");
                self.substitutions(node, place)
            }
            "declaration_command" | "unset_command" => {
                self.children(node, false)?;
                let word = self.source(node).split_whitespace().next().unwrap_or_default();
                self.changed(format!("`{word}` changes variables"));
                self.substitutions(node, place)
            }
            "test_command" => {
                let condition = self.source(node);
                if is_pattern(condition) {
                    return Err(Unreadable::new("the name of a program is a pattern"));
                }
                if !condition.starts_with("[[") {
                    self.arguments(node)?;
                }
                // An index is computed, and may contain commands even if it is quoted.
                let condition = condition.trim_matches(['[', ']']);
                if condition.contains(['$', '`', '[']) {
                    self.changed("the shell computes a condition");
                }
                self.substitutions(node, place)
            }
            "program" | "list" | "compound_statement" | "do_group" | "if_statement" | "elif_clause" | "else_clause"
            | "case_statement" | "case_item" | "negated_command" => self.all(node, place),
            "comment" => Ok(()),
            // Words of `for` and `case`, and conditions between double parentheses.
            "word"
            | "string"
            | "raw_string"
            | "concatenation"
            | "number"
            | "brace_expression"
            | "simple_expansion"
            | "expansion"
            | "ansi_c_string"
            | "translated_string"
            | "extglob_pattern"
            | "regex"
            | "variable_name"
            | "command_substitution"
            | "arithmetic_expansion"
            | "process_substitution"
            | "binary_expression"
            | "unary_expression"
            | "postfix_expression"
            | "parenthesized_expression"
            | "ternary_expression"
            | "subscript" => {
                if node.kind() == "subscript" || node.kind().ends_with("_expression") {
                    self.changed("it computes with variables");
                } else if self.source(node).contains('$') && node.kind() != "raw_string" {
                    self.changed("the shell computes a word");
                }
                self.substitutions(node, place)
            }
            _ if !node.is_named() => Ok(()),
            other => Err(Unreadable::new(format!("it has a part that is not known: {other}"))),
        }
    }

    /// Checks that a condition between `[` and `]` is one command. `[` is a program like any other: `[ a || b ]` are two
    /// commands, and `[ a > b ]` writes a file.
    fn arguments(&self, node: Node<'_>) -> Result<(), Unreadable> {
        match node.kind() {
            "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "expansion"
            | "simple_expansion"
            | "string"
            | "raw_string"
            | "ansi_c_string" => Ok(()),
            _ if node.child_count() == 0 => match self.source(node).contains(['|', '&', ';', '<', '>', '(', ')', '\n'])
            {
                true => Err(Unreadable::new("a condition has parts that are not certain")),
                false => Ok(()),
            },
            _ => self.children(node, false)?.into_iter().try_for_each(|child| self.arguments(child)),
        }
    }

    fn all(&mut self, node: Node<'_>, place: &mut ShellState) -> Result<(), Unreadable> {
        let children = self.children(node, true)?;
        for (index, child) in children.iter().enumerate() {
            // A command in the background has a separate shell.
            let is_apart = children.get(index + 1).is_some_and(|next| next.kind() == "&");
            match is_apart {
                true => self.statement(*child, &mut place.clone())?,
                false => self.statement(*child, place)?,
            }
        }
        Ok(())
    }

    /// Returns the children of a node between which only blanks are.
    fn children<'n>(&self, node: Node<'n>, may_have_lines: bool) -> Result<Vec<Node<'n>>, Unreadable> {
        self.children_beside(node, may_have_lines, None)
    }

    /// Returns the children of a node between which only blanks are, and a part that is known.
    fn children_beside<'n>(
        &self,
        node: Node<'n>,
        may_have_lines: bool,
        known: Option<(usize, usize)>,
    ) -> Result<Vec<Node<'n>>, Unreadable> {
        let mut cursor = node.walk();
        let children: Vec<Node<'n>> = node.children(&mut cursor).collect();
        let mut end = node.start_byte();
        let ends = children.iter().map(|child| (child.start_byte(), child.end_byte()));
        for (start, next) in ends.chain([(node.end_byte(), node.end_byte())]) {
            // The content of a here-document is beyond the statement that it belongs to.
            if start > end && known != Some((end, start)) && !self.is_blank(end, start, may_have_lines) {
                return Err(Unreadable::new("it has parts that are not certain"));
            }
            end = end.max(next);
        }
        let comment = |child: &&Node<'_>| child.kind() == "comment";
        for comment in children.iter().filter(comment) {
            let before = self.text[..comment.start_byte()].chars().next_back();
            if before.is_some_and(|c| !" \t\n;&|()".contains(c)) {
                return Err(Unreadable::new("it has a comment in a word"));
            }
        }
        Ok(children)
    }

    /// Returns whether only blanks are between two bytes. A continued line counts as a blank if another blank is next
    /// to it, because the shell joins the parts that it separates.
    fn is_blank(&self, from: usize, to: usize, may_have_lines: bool) -> bool {
        let gap = self.text.get(from..to).unwrap_or("?");
        let joined = gap.replace("\\\n", "");
        if joined.len() < gap.len() && !joined.contains([' ', '\t', '\n']) {
            return false;
        }
        joined.chars().all(|c| matches!(c, ' ' | '\t') || (c == '\n' && may_have_lines))
    }

    /// Collects the commands that run while the shell computes words.
    pub(super) fn substitutions(&mut self, node: Node<'_>, place: &ShellState) -> Result<(), Unreadable> {
        let mut found = Vec::new();
        let mut opaque = Vec::new();
        collect(node, &mut found, &mut opaque);
        self.check_openers(node, &opaque)?;
        for substitution in found {
            let mut own = ShellState { reads_pipe: false, ..place.clone() };
            for child in self.children(substitution, true)? {
                match child.kind() {
                    "file_redirect" => drop(self.redirect(child, place)?),
                    _ => self.statement(child, &mut own)?,
                }
            }
        }
        Ok(())
    }

    /// Checks that the grammar saw every place where a substitution may begin.
    fn check_openers(&self, node: Node<'_>, opaque: &[(usize, usize)]) -> Result<(), Unreadable> {
        let (source, base) = (self.source(node), node.start_byte());
        let places = source.match_indices('`').chain(source.match_indices("$("));
        for (at, _) in places {
            let escapes = source[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
            let at = at + base;
            if escapes % 2 == 0 && !opaque.iter().any(|(start, end)| (*start..*end).contains(&at)) {
                return Err(Unreadable::new("it may have a substitution that is not seen"));
            }
        }
        Ok(())
    }

    /// Walks a simple command.
    fn command(&mut self, node: Node<'_>, place: &mut ShellState) -> Result<(), Unreadable> {
        let mut command = self.empty(place);
        let (mut words, mut has_data) = (Vec::<(usize, usize)>::new(), false);
        for child in self.children(node, false)? {
            match child.kind() {
                "variable_assignment" => {
                    self.substitutions(child, place)?;
                    let name = child.child_by_field_name("name").map(|name| self.source(name).to_owned());
                    let value = child.child_by_field_name("value").map(|value| self.source(value));
                    let value = value.map_or(Ok(Word::from_text("")), |value| word::read(value, self.home))?;
                    command.assignments.push((name.unwrap_or_default(), value));
                }
                "file_redirect" => command.redirects.extend(self.redirect(child, place)?),
                "herestring_redirect" => {
                    has_data = true;
                    self.here_string(child, place)?;
                }
                "comment" => return Err(Unreadable::new("it has a comment in a command")),
                _ => {
                    self.substitutions(child, place)?;
                    // Parts without a blank between them are one word.
                    match words.last_mut().filter(|(_, end)| *end == child.start_byte()) {
                        Some((_, end)) => *end = child.end_byte(),
                        None => words.push((child.start_byte(), child.end_byte())),
                    }
                }
            }
        }
        for (start, end) in words {
            command.words.push(word::read(&self.text[start..end], self.home)?);
        }
        if command.words.is_empty() {
            self.changed("it sets variables");
            return Ok(());
        }
        let before = self.script.commands.len();
        unwrap::add(self, command, place)?;
        if has_data {
            self.reads_data(before);
        }
        Ok(())
    }

    fn empty(&self, place: &ShellState) -> Simple {
        Simple {
            words: Vec::new(),
            assignments: Vec::new(),
            redirects: Vec::new(),
            directories: place.directories.clone(),
            reads_pipe: place.reads_pipe,
            here: None,
            unknown: None,
            is_contained: false,
            is_guess: false,
        }
    }

    /// Walks a statement with redirections, which apply to all commands in it.
    fn redirected(&mut self, node: Node<'_>, place: &mut ShellState) -> Result<(), Unreadable> {
        let (mut redirects, mut bodies, mut here, mut has_data) = (Vec::new(), Vec::new(), None, false);
        let dash = self.lone_dash(node);
        for child in self.children_beside(node, true, dash)? {
            match child.kind() {
                "file_redirect" => redirects.extend(self.redirect(child, place)?),
                "herestring_redirect" => {
                    has_data = true;
                    self.here_string(child, place)?;
                }
                "heredoc_redirect" => here = Some(self.here(child, place, &mut redirects)?),
                _ => bodies.push(child),
            }
        }
        let before = self.script.commands.len();
        let mut own = ShellState { reads_pipe: place.reads_pipe || here.is_some(), ..place.clone() };
        for body in bodies {
            self.statement(body, &mut own)?;
        }
        if let Some(command) = self.script.commands[before..].last_mut().filter(|_| dash.is_some()) {
            command.words.push(Word::from_text("-"));
        }
        if let Some(Some(content)) = &here {
            self.here_content(content, before)?;
        }
        place.directories = own.directories;
        has_data |= redirects.iter().any(unwrap::is_output);
        if has_data || here.is_some_and(|content| content.is_none()) {
            self.reads_data(before);
        }
        if self.script.commands.len() == before && !redirects.is_empty() {
            // A redirection without a command creates or empties its file.
            self.script.commands.push(Simple { words: vec![Word::from_text(":")], ..self.empty(place) });
        }
        for command in &mut self.script.commands[before..] {
            command.redirects.extend(redirects.iter().cloned());
        }
        Ok(())
    }

    /// Reads a redirection; `None` if it names no file.
    pub(super) fn redirect(&mut self, node: Node<'_>, place: &ShellState) -> Result<Option<Redirect>, Unreadable> {
        self.substitutions(node, place)?;
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let operator = children.iter().find(|child| !child.is_named()).map(|child| child.kind()).unwrap_or_default();
        let targets: Vec<_> = node.children_by_field_name("destination", &mut cursor).collect();
        // Parts without a blank between them are one word.
        let is_word = targets.windows(2).all(|parts| parts[0].end_byte() == parts[1].start_byte());
        let (first, last) = match (targets.first(), targets.last()) {
            (Some(first), Some(last)) if is_word => (first.start_byte(), last.end_byte()),
            (None, _) if matches!(operator, "<&-" | ">&-") => return Ok(None),
            _ => return Err(Unreadable::new("a redirection is not certain")),
        };
        let target = word::read(self.text.get(first..last).unwrap_or_default(), self.home)?;
        let is_descriptor =
            target.literal().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'));
        match operator {
            ">&" | "<&" if is_descriptor => Ok(None),
            "<" | "<&" => Ok(Some(Redirect { writes: false, target })),
            _ => Ok(Some(Redirect { writes: true, target })),
        }
    }

    /// Applies a `cd` to the following commands. Whether it succeeds is not known, so that both directories count.
    pub(super) fn change_directory(&mut self, place: &mut ShellState, to: Option<&str>) {
        let Some((to, known)) = to.zip(place.directories.as_mut()) else {
            place.directories = None;
            return;
        };
        let added: Vec<PathBuf> = known.iter().map(|from| normal(&from.join(to))).collect();
        added.into_iter().for_each(|path| {
            if !known.contains(&path) {
                known.push(path);
            }
        });
        if place.is_loop || known.len() > MAX_DIRECTORIES {
            place.directories = None;
        }
    }
}

/// Returns whether the shell reads a condition as a pattern for the name of a program instead, because its brackets
/// have no blanks inside.
fn is_pattern(condition: &str) -> bool {
    let doubled = condition.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]"));
    let inside = doubled.or_else(|| condition.strip_prefix('[')?.strip_suffix(']'));
    let is_blank = |c: char| c.is_ascii_whitespace();
    inside.is_some_and(|inside| !inside.starts_with(is_blank) || !inside.ends_with(is_blank))
}

/// Collects the outermost substitutions of a node, and the ranges where an opener does not start another substitution.
fn collect<'n>(node: Node<'n>, found: &mut Vec<Node<'n>>, opaque: &mut Vec<(usize, usize)>) {
    match node.kind() {
        "command_substitution" | "process_substitution" => {
            found.push(node);
            opaque.push((node.start_byte(), node.end_byte()));
        }
        "raw_string" | "ansi_c_string" => opaque.push((node.start_byte(), node.end_byte())),
        kind => {
            if kind == "arithmetic_expansion" {
                opaque.push((node.start_byte(), node.start_byte() + 1));
            }
            let mut cursor = node.walk();
            node.children(&mut cursor).for_each(|child| collect(child, found, opaque));
        }
    }
}
