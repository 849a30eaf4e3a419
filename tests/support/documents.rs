//! Commands in Markdown documents.

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
