//! Separates the thinking that models write into their text, between tags, from the answer.
//!
//! Servers without a parser for a model's thinking pass it on as text: `<think>…</think>` and the answer. Only a block at the
//! beginning of the text counts; later, the tags may be part of an answer about them, or of code. A block without its
//! opening tag cannot be told from an answer until its end, so its text is streamed as an answer; the loop moves it when the
//! reply is complete (`pinion_protocol::without_thoughts`).

use super::writer::Writing;

/// The names of the tags.
const TAGS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];

/// The limit on the whitespace before a block, in bytes.
const MAX_BLANK: usize = 256;

/// The position in a reply's text.
#[derive(Debug, Default)]
pub(crate) struct Thoughts {
    state: ThoughtState,
    /// Text that may be the beginning of a tag, and whitespace that may be dropped.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum ThoughtState {
    #[default]
    Start,
    /// Inside a block with this tag, before or after its first letter.
    Thinking(&'static str, bool),
    /// After a block, before the first letter of the answer.
    Gap,
    Answer,
}

impl Thoughts {
    /// Takes more text, and passes on the part that is certain.
    pub(crate) fn push<E>(
        &mut self,
        text: &str,
        sink: &mut dyn FnMut(Writing, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.state == ThoughtState::Answer {
            return sink(Writing::Text, text);
        }
        self.held.push_str(text);
        loop {
            let held = std::mem::take(&mut self.held);
            match self.state {
                ThoughtState::Start => match opening(&held) {
                    OpeningTag::Tag(tag, rest) => {
                        self.state = ThoughtState::Thinking(tag, false);
                        rest.clone_into(&mut self.held);
                    }
                    OpeningTag::Unknown => {
                        self.held = held;
                        return Ok(());
                    }
                    OpeningTag::None => {
                        self.state = ThoughtState::Answer;
                        return sink(Writing::Text, &held);
                    }
                },
                ThoughtState::Thinking(tag, has_begun) => {
                    let thought = if has_begun { &held[..] } else { held.trim_start() };
                    let close = format!("</{tag}>");
                    let (certain, rest) = match thought.find(&close) {
                        Some(at) => {
                            self.state = ThoughtState::Gap;
                            (thought[..at].trim_end(), &thought[at + close.len()..])
                        }
                        None => thought.split_at(certain(thought, &close)),
                    };
                    if !certain.is_empty() {
                        sink(Writing::Thinking, certain)?;
                    }
                    rest.clone_into(&mut self.held);
                    if let ThoughtState::Thinking(..) = self.state {
                        self.state = ThoughtState::Thinking(tag, has_begun || !certain.is_empty());
                        return Ok(());
                    }
                }
                ThoughtState::Gap => {
                    let answer = held.trim_start();
                    if answer.is_empty() {
                        return Ok(());
                    }
                    self.state = ThoughtState::Answer;
                    return sink(Writing::Text, answer);
                }
                ThoughtState::Answer => return Ok(()),
            }
        }
    }

    /// Passes on the text that was held back, before something else than text follows.
    pub(crate) fn flush<E>(&mut self, sink: &mut dyn FnMut(Writing, &str) -> Result<(), E>) -> Result<(), E> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            _ if held.is_empty() => Ok(()),
            ThoughtState::Thinking(..) => match held.trim_end() {
                "" => Ok(()),
                held => sink(Writing::Thinking, held),
            },
            ThoughtState::Start => {
                self.state = ThoughtState::Answer;
                sink(Writing::Text, &held)
            }
            ThoughtState::Gap | ThoughtState::Answer => Ok(()),
        }
    }
}

enum OpeningTag<'a> {
    /// The tag, and the text after it.
    Tag(&'static str, &'a str),
    /// The text may go on to be a tag.
    Unknown,
    None,
}

fn opening(text: &str) -> OpeningTag<'_> {
    let rest = text.trim_start();
    let blank = text.len() - rest.len();
    if blank > MAX_BLANK {
        return OpeningTag::None;
    }
    let complete = TAGS.iter().find_map(|tag| {
        let rest = rest.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
        Some(OpeningTag::Tag(tag, rest))
    });
    let is_prefix = |tag: &&str| rest.is_empty() || format!("<{tag}>").starts_with(rest);
    match complete {
        Some(tag) => tag,
        None if TAGS.iter().any(is_prefix) => OpeningTag::Unknown,
        None => OpeningTag::None,
    }
}

/// Returns the length of the beginning that is certainly thinking: without whitespace and the start of the closing tag at
/// the end.
fn certain(text: &str, close: &str) -> usize {
    let start = (1..close.len()).rev().find(|length| text.ends_with(&close[..*length])).unwrap_or_default();
    text[..text.len() - start].trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds pieces, and returns the thinking and the text.
    fn split(pieces: &[&str]) -> (String, String) {
        let (mut thinking, mut text) = (String::new(), String::new());
        let mut sink = |writing, piece: &str| -> Result<(), ()> {
            assert!(!piece.is_empty());
            match writing {
                Writing::Thinking => thinking.push_str(piece),
                Writing::Text => text.push_str(piece),
            }
            Ok(())
        };
        let mut thoughts = Thoughts::default();
        pieces.iter().filter(|piece| !piece.is_empty()).for_each(|piece| thoughts.push(piece, &mut sink).unwrap());
        thoughts.flush(&mut sink).unwrap();
        (thinking, text)
    }

    #[test]
    fn block_at_the_beginning_is_thinking_however_the_text_is_cut() {
        let cases = [
            ("<think>a b</think>c", "a b", "c"),
            ("\n<thinking>\na\n\nb\n</thinking>\n\nc\n", "a\n\nb", "c\n"),
            ("<think>\n\n</think>\n\nc", "", "c"),
            ("<thought>a</b></thought>c", "a</b>", "c"),
            ("<reasoning>ä < 3</reasoning>", "ä < 3", ""),
            ("<think>never closed ", "never closed", ""),
            ("<thin", "", "<thin"),
            ("<thinker>a", "", "<thinker>a"),
            ("  \n", "", "  \n"),
            ("x <think>a</think>", "", "x <think>a</think>"),
            ("`<think>`", "", "`<think>`"),
            ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
        ];
        for (whole, thinking, text) in cases {
            let expected = (thinking.to_owned(), text.to_owned());
            assert_eq!(split(&[whole]), expected, "{whole}");
            for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
                assert_eq!(split(&[&whole[..at], &whole[at..]]), expected, "{whole} cut at {at}");
            }
            let letters: Vec<String> = whole.chars().map(String::from).collect();
            assert_eq!(split(&letters.iter().map(String::as_str).collect::<Vec<_>>()), expected, "{whole}");
        }
    }

    #[test]
    fn endless_whitespace_is_not_held_back() {
        let mut count = 0;
        let mut sink = |_, _: &str| -> Result<(), ()> {
            count += 1;
            Ok(())
        };
        let mut thoughts = Thoughts::default();
        (0..2 * MAX_BLANK).for_each(|_| thoughts.push(" ", &mut sink).unwrap());
        assert!(count > MAX_BLANK / 2);
    }
}
