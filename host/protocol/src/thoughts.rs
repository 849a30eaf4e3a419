//! Thinking that a model wrote into its text and ended with a tag, mostly without an opening tag.
//!
//! The templates of some models write the opening tag into the prompt. A server without a parser for their thinking then
//! passes on `…</think>` and the answer as one text. Providers of Chat Completions recognize a complete block while they
//! decode it; this one can be recognized only once its end was received.

use crate::content::{Content, Thinking};

/// The tags that may lack their beginning.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// Moves the beginning of a complete reply's first text, up to a closing tag, into thinking. The opening tag is missing or
/// the first word. A tag in code is part of the answer, and so is any in a reply that has thinking already.
pub fn without_thoughts(mut parts: Vec<Content>) -> Vec<Content> {
    let is_blank = |part: &Content| part.as_text().is_some_and(|text| text.trim().is_empty());
    let Some(at) = parts.iter().position(|part| !is_blank(part)) else { return parts };
    let Some((thought, answer)) = parts[at].as_text().and_then(split) else { return parts };
    let (thought, answer) = (thought.trim().to_owned(), answer.trim_start().to_owned());
    let thinking = Content::Thinking(Thinking { text: thought, ..Thinking::default() });
    let both = [thinking, Content::Text { text: answer }].into_iter().filter(|part| match part {
        Content::Thinking(thinking) => !thinking.text.is_empty(),
        part => !is_blank(part),
    });
    parts.splice(at..=at, both);
    parts
}

/// Splits a text at the first closing tag, unless it is in code or its opening tag is in the middle of the text.
fn split(text: &str) -> Option<(&str, &str)> {
    let (at, (open, close)) = TAGS.iter().filter_map(|tags| Some((text.find(tags.1)?, *tags))).min()?;
    let (before, answer) = (&text[..at], &text[at + close.len()..]);
    if let Some(thought) = before.trim_start().strip_prefix(open) {
        return Some((thought, answer));
    }
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let is_in_block = before.lines().filter(is_fence).count() % 2 == 1;
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_in_span = line.matches('`').count() % 2 == 1;
    let is_answer = before.contains(open) || is_in_block || is_in_span;
    (!is_answer).then_some((before, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinking(text: &str) -> Content {
        Content::Thinking(Thinking { text: text.to_owned(), ..Thinking::default() })
    }

    #[test]
    fn text_before_an_unopened_closing_tag_is_thinking() {
        let of = |text: &str| without_thoughts(vec![Content::text(text)]);
        assert_eq!(of("a\nb\n</think>\n\nc"), [thinking("a\nb"), Content::text("c")]);
        assert_eq!(of("a</thinking>c"), [thinking("a"), Content::text("c")]);
        assert_eq!(of("\n</think>\nc"), [Content::text("c")]);
        assert_eq!(of("a</think>"), [thinking("a")]);
        assert_eq!(of("\n<think>a `b\n</think>\nc"), [thinking("a `b"), Content::text("c")]);
        let later = vec![Content::text("\n"), Content::text("a</think>b")];
        assert_eq!(without_thoughts(later), [Content::text("\n"), thinking("a"), Content::text("b")]);
    }

    #[test]
    fn tags_in_an_answer_stay() {
        for text in [
            "plain",
            "`</think>` ends a block",
            "```\n</think>\n```",
            "write <think>, then </think>",
            "```html\na\n</think> x",
            "</reasoning>",
        ] {
            let parts = vec![Content::text(text)];
            assert_eq!(without_thoughts(parts.clone()), parts);
        }
        let known = vec![thinking("a"), Content::text("b</think>c")];
        assert_eq!(without_thoughts(known.clone()), known);
    }
}
