//! Documents in Markdown: the pages of the book, their headings and links, and the commands in them.

use std::fs;
use std::path::{Path, PathBuf};

/// A document of the repository.
pub struct Document {
    /// The path from the root of the repository.
    pub path: String,
    /// The content.
    pub text: String,
}

/// Returns the root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().canonicalize().unwrap()
}

/// Reads the document at a path from the root of the repository.
pub fn document(path: &str) -> Document {
    let text = fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("`{path}`: {error}"));
    Document { path: path.to_owned(), text }
}

/// Returns the pages of the book below a directory of `docs`, in the order of its summary.
pub fn pages(directory: &str) -> Vec<Document> {
    let summary = document("docs/SUMMARY.md").text;
    let paths = links(&summary).into_iter().filter(|path| path.starts_with(directory));
    paths.map(|path| document(&format!("docs/{path}"))).collect()
}

/// Returns the guide for authors of plugins: the text of its pages, one after another.
pub fn guide() -> String {
    pages("plugins/").into_iter().map(|page| page.text).collect::<Vec<_>>().join("\n")
}

/// Returns the lines of a document outside of its code blocks.
pub fn prose(markdown: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    markdown.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of the links in a document, outside of its code.
pub fn links(markdown: &str) -> Vec<String> {
    let text = prose(markdown).collect::<Vec<_>>().join("\n");
    // Every second part between backticks is code. A link may have code as its text.
    let rest = text.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "code" });
    let rest = rest.collect::<String>();
    let targets = rest.split("](").skip(1).filter_map(|after| after.split(')').next());
    targets.map(str::to_owned).collect()
}

/// Returns the anchors of the headings of a document, as GitHub and mdBook name them.
pub fn anchors(markdown: &str) -> Vec<String> {
    let headings = prose(markdown).filter_map(|line| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len()).then(|| text.strip_prefix(' ')).flatten()
    });
    let (mut plain, mut anchors) = (Vec::new(), Vec::new());
    for heading in headings {
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        anchors.push(match plain.iter().filter(|other| **other == anchor).count() {
            0 => anchor.clone(),
            count => format!("{anchor}-{count}"),
        });
        plain.push(anchor);
    }
    anchors
}

/// Returns the code blocks of a document in a language.
pub fn blocks(markdown: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    markdown.split(&start).skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// Returns the command lines of each shell block, without comments. Of a block that shows a session, those after `$ `.
pub fn shell_blocks(markdown: &str) -> Vec<Vec<String>> {
    let mut blocks: Vec<Vec<String>> = Vec::new();
    let mut lines = markdown.lines();
    while let Some(opening) = lines.next() {
        let Some(language) = opening.trim_start().strip_prefix("```") else { continue };
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        let commands: Vec<String> = match language.trim() {
            "sh" | "bash" | "shell" => block.map(|line| line.trim().to_owned()).collect(),
            _ => block.filter_map(|line| Some(line.trim_start().strip_prefix("$ ")?.to_owned())).collect(),
        };
        let is_command = |line: &String| !line.is_empty() && !line.starts_with('#');
        let commands: Vec<String> = commands.into_iter().filter(is_command).collect();
        if !commands.is_empty() {
            blocks.push(commands);
        }
    }
    blocks
}

/// Returns the code in the text of a document, outside of its blocks, with single spaces.
pub fn code_spans(markdown: &str) -> Vec<String> {
    let text: Vec<&str> = markdown.split("```").step_by(2).collect();
    let spans = text.iter().flat_map(|text| text.split('`').skip(1).step_by(2));
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
