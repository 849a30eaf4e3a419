//! Formats the question for a judge and shortens it to the context window.
//!
//! The answers matter most, so there are two stages: the first shortens only the prior conversation, the second also
//! the answers. Each stage tries, until the question fits: the last lines; the first and the last paragraph; a hard
//! limit. The request is never shortened. The messages themselves remain unchanged.

use super::choose::Candidates;
use pinion_agent::tokens::TokenCounter;
use pinion_protocol::content::text_of;
use pinion_protocol::message::Message;
use pinion_protocol::output_bounds::cut_middle;
use std::sync::Arc;

/// Number of lines that the first tier keeps of a long text.
const LAST_LINES: usize = 80;
const LEFT_OUT: &str = "[…]";

/// The question for a judge.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JudgeQuestion {
    /// Transcript of the prior conversation; may be empty.
    prior: String,
    request: String,
    answers: Vec<String>,
}

/// Maximum length of a question.
pub(super) struct QuestionBudget<'a> {
    /// Maximum number of tokens; `None` when the context window is unknown.
    pub(super) tokens: Option<u64>,
    pub(super) counter: &'a dyn TokenCounter,
}

/// A method to shorten a text.
#[derive(Clone, Copy)]
enum Tier {
    LastLines,
    OuterParagraphs,
    /// Cuts the middle, to a number of tokens.
    Limit,
}

const TIERS: [Tier; 3] = [Tier::LastLines, Tier::OuterParagraphs, Tier::Limit];

impl JudgeQuestion {
    pub(super) fn from_candidates(candidates: &Candidates<'_>) -> Self {
        let history = &candidates.context.messages;
        let own = own_prompts(candidates);
        let (prior, request) = match candidates.prompts {
            [] if own.is_empty() => {
                let is_user = |message: &Arc<Message>| matches!(**message, Message::User(_));
                let at = history.iter().rposition(is_user).unwrap_or(history.len());
                (&history[..at], history.get(at).map(|message| message_text(message)).unwrap_or_default())
            }
            prompts => {
                let texts = std::iter::once(texts_of_user(prompts)).chain(own).filter(|text| !text.is_empty());
                (&history[..], texts.collect::<Vec<_>>().join("\n\n"))
            }
        };
        let answers = candidates.candidates.iter().map(|candidate| candidate.outcome.text()).collect();
        Self { prior: transcript(prior), request, answers }
    }

    /// Formats the question within the budget; `None` if it does not fit even when shortened.
    pub(super) fn fit(&self, budget: &QuestionBudget<'_>) -> Option<String> {
        let complete = Some(self.clone()).into_iter();
        let less_prior = TIERS.iter().map(|tier| self.with_less_prior(*tier, budget));
        let no_prior = std::iter::once_with(|| Self { prior: String::new(), ..self.clone() });
        let less = TIERS.iter().filter_map(|tier| self.with_less(*tier, budget));
        let mut questions = complete.chain(less_prior).chain(no_prior).chain(less).map(|question| question.text());
        questions.find(|text| budget.holds(text))
    }

    fn with_less_prior(&self, tier: Tier, budget: &QuestionBudget<'_>) -> Self {
        let frame = Self { prior: LEFT_OUT.to_owned(), ..self.clone() };
        let prior = tier.shrink(&self.prior, budget.counter, || budget.left_by(&frame));
        Self { prior, ..self.clone() }
    }

    /// Shortens all texts but the request; `None` if an answer would become empty.
    fn with_less(&self, tier: Tier, budget: &QuestionBudget<'_>) -> Option<Self> {
        let frame = Self {
            prior: if self.prior.is_empty() { String::new() } else { LEFT_OUT.to_owned() },
            answers: vec![String::new(); self.answers.len()],
            ..self.clone()
        };
        let parts = self.answers.len() as u64 + u64::from(!self.prior.is_empty());
        let share = || budget.left_by(&frame) / parts.max(1);
        let shrink = |text: &String| tier.shrink(text, budget.counter, share);
        let answers: Vec<String> = self.answers.iter().map(shrink).collect();
        let is_lost = self.answers.iter().zip(&answers).any(|(full, less)| less.is_empty() && !full.is_empty());
        (!is_lost).then(|| Self { prior: shrink(&self.prior), request: self.request.clone(), answers })
    }

    fn text(&self) -> String {
        let mut text = "Several agents worked on the same request independently.\n\n".to_owned();
        if !self.prior.is_empty() {
            section(&mut text, "conversation", "conversation", &self.prior);
        }
        section(&mut text, "request", "request", &self.request);
        for (answer, number) in self.answers.iter().zip(1..) {
            let answer = if answer.is_empty() { "(empty)" } else { answer };
            section(&mut text, &format!("answer number=\"{number}\""), "answer", answer);
        }
        let count = self.answers.len();
        text + &format!("Which answer is the best? Reply with only its number, from 1 to {count}.")
    }
}

fn section(text: &mut String, opening: &str, closing: &str, content: &str) {
    text.push_str(&format!("<{opening}>\n{content}\n</{closing}>\n\n"));
}

impl QuestionBudget<'_> {
    fn holds(&self, text: &str) -> bool {
        self.tokens.is_none_or(|max| self.counter.count(text) <= max)
    }

    /// Returns the tokens that remain after `question`.
    fn left_by(&self, question: &JudgeQuestion) -> u64 {
        self.tokens.unwrap_or(u64::MAX).saturating_sub(self.counter.count(&question.text()))
    }
}

impl Tier {
    fn shrink(self, text: &str, counter: &dyn TokenCounter, limit: impl Fn() -> u64) -> String {
        match self {
            Self::LastLines => last_lines(text),
            Self::OuterParagraphs => outer_paragraphs(text),
            Self::Limit => limited(text, limit(), counter),
        }
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(LAST_LINES) {
        None | Some(0) => text.to_owned(),
        Some(left_out) => format!("{LEFT_OUT}\n{}", lines[left_out..].join("\n")),
    }
}

fn outer_paragraphs(text: &str) -> String {
    let paragraphs: Vec<&str> = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()).collect();
    match paragraphs[..] {
        [first, _, .., last] => format!("{first}\n\n{LEFT_OUT}\n\n{last}"),
        _ => text.to_owned(),
    }
}

/// Shortens a text to its start and end within a number of tokens; empty if not even the note about the omission fits.
fn limited(text: &str, tokens: u64, counter: &dyn TokenCounter) -> String {
    if counter.count(text) <= tokens {
        return text.to_owned();
    }
    let (mut fits, mut low, mut high) = (String::new(), 1, text.len());
    while low < high {
        let bytes = low + (high - low) / 2;
        let shorter = cut_middle(text.to_owned(), bytes);
        if counter.count(&shorter) <= tokens {
            (fits, low) = (shorter, bytes + 1);
        } else {
            high = bytes;
        }
    }
    fits
}

/// Returns the texts of a conversation, without tool calls and results.
fn transcript(messages: &[Arc<Message>]) -> String {
    let lines = messages.iter().filter_map(|message| {
        let who = match &**message {
            Message::User(_) => "User",
            Message::Assistant(_) => "Assistant",
            Message::ToolResult(_) | Message::Extension(_) => return None,
        };
        let text = message_text(message);
        (!text.trim().is_empty()).then(|| format!("{who}: {text}"))
    });
    lines.collect::<Vec<_>>().join("\n\n")
}

/// Returns the prompts of single branches: once if all have the same, and otherwise with the number of the answer.
fn own_prompts(candidates: &Candidates<'_>) -> Vec<String> {
    let own: Vec<String> = candidates.candidates.iter().map(|candidate| texts_of_user(candidate.prompts)).collect();
    match &own[..] {
        [first, others @ ..] if others.iter().all(|other| other == first) => {
            [first.clone()].into_iter().filter(|text| !text.is_empty()).collect()
        }
        _ => {
            let numbered = own.iter().zip(1..).filter(|(text, _)| !text.is_empty());
            numbered.map(|(text, number)| format!("[For answer {number}:] {text}")).collect()
        }
    }
}

fn texts_of_user(prompts: &[Message]) -> String {
    let texts = prompts.iter().filter(|prompt| matches!(prompt, Message::User(_))).map(message_text);
    texts.collect::<Vec<_>>().join("\n\n")
}

fn message_text(message: &Message) -> String {
    match message {
        Message::User(message) => text_of(&message.content),
        Message::Assistant(message) => message.text(),
        Message::ToolResult(_) | Message::Extension(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::tokens::ByteCounter;
    use proptest::prelude::*;

    fn question(prior: &str, answers: &[&str]) -> JudgeQuestion {
        let answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
        JudgeQuestion { prior: prior.to_owned(), request: "which?".to_owned(), answers }
    }

    fn fit(question: &JudgeQuestion, tokens: u64) -> Option<String> {
        question.fit(&QuestionBudget { tokens: Some(tokens), counter: &ByteCounter::DEFAULT })
    }

    fn tokens(question: &JudgeQuestion) -> u64 {
        ByteCounter::DEFAULT.count(&question.text())
    }

    #[test]
    fn question_that_fits_or_has_no_limit_is_unchanged() {
        let asked = question("User: hi", &["one", "two"]);
        assert_eq!(fit(&asked, tokens(&asked)), Some(asked.text()));
        let long = question(&"line\n".repeat(10_000), &["one"]);
        assert_eq!(long.fit(&QuestionBudget { tokens: None, counter: &ByteCounter::DEFAULT }), Some(long.text()));
    }

    #[test]
    fn conversation_shrinks_to_last_lines_then_ends_then_limit() {
        let lines: Vec<String> = (0..200).map(|n| format!("line {n}")).collect();
        let asked = question(&lines.join("\n"), &["one", "two"]);
        let text = fit(&asked, tokens(&asked) - 1).unwrap();
        assert!(text.contains("<conversation>\n[…]\nline 120\nline 121\n") && text.contains("\nline 199\n"));

        let paragraphs = format!("begin\n\n{}\n\nend", "x".repeat(1_000));
        let asked = question(&paragraphs, &["one", "two"]);
        let text = fit(&asked, tokens(&asked) - 1).unwrap();
        assert!(text.contains("<conversation>\nbegin\n\n[…]\n\nend\n</conversation>"), "{text}");

        let asked = question(&format!("begin{}end", "ä".repeat(1_000)), &["one", "two"]);
        let text = fit(&asked, tokens(&asked) - 1).unwrap();
        assert!(text.contains("<conversation>\nbegin") && text.contains("were left out") && text.contains("end\n"));
        assert!(text.contains("\none\n") && text.contains("\ntwo\n"));
    }

    #[test]
    fn answers_shrink_when_they_do_not_fit_alone() {
        let long = format!("begin\n\n{}\n\nend", "x".repeat(1_000));
        let asked = question("User: hi", &[&long, "two"]);
        let text = fit(&asked, 150).unwrap();
        assert!(text.contains("<answer number=\"1\">\nbegin\n\n[…]\n\nend\n</answer>"), "{text}");
        assert!(text.contains("\ntwo\n") && text.contains("User: hi"));
    }

    #[test]
    fn question_does_not_fit_if_an_answer_would_vanish() {
        let long = "x".repeat(10_000);
        let asked = question("", &[&long, &long]);
        let frame = tokens(&question("", &["", ""]));
        assert_eq!(fit(&asked, frame + 4), None);
        assert_eq!(fit(&asked, 0), None);
        assert!(fit(&asked, frame + 100).is_some());
    }

    /// Counts units other than bytes, superadditively.
    struct Odd;

    impl TokenCounter for Odd {
        fn count(&self, text: &str) -> u64 {
            let letters = text.chars().count() as u64;
            letters + letters / 7 * (letters / 50)
        }
    }

    fn texts() -> impl Strategy<Value = String> {
        let part = prop_oneof![Just("\n\n".to_owned()), Just("ä€😀\r\n".to_owned()), ".{0,60}", "[a-z ]{0,200}"];
        prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
        #[test]
        fn fitted_question_keeps_answers_while_conversation_can_shrink(
            prior in texts(),
            request in ".{0,80}",
            answers in prop::collection::vec(texts(), 1..6),
            max in 0_u64..3_000,
            is_odd in any::<bool>(),
        ) {
            let counter: &dyn TokenCounter = if is_odd { &Odd } else { &ByteCounter::DEFAULT };
            let budget = QuestionBudget { tokens: Some(max), counter };
            let asked = JudgeQuestion { prior, request, answers };
            let text = asked.fit(&budget);
            if let Some(text) = &text {
                prop_assert!(counter.count(text) <= max);
                prop_assert!(text.contains(&asked.request));
            }
            let alone = JudgeQuestion { prior: String::new(), ..asked.clone() }.text();
            if budget.holds(&alone) {
                let text = text.unwrap();
                prop_assert!(asked.answers.iter().all(|answer| text.contains(answer.as_str())));
            }
            if budget.holds(&asked.text()) {
                prop_assert_eq!(asked.fit(&budget), Some(asked.text()));
            }
        }

        #[test]
        fn every_question_fits_if_the_omission_notes_do(
            prior in texts(),
            answers in prop::collection::vec(texts(), 1..6),
        ) {
            let asked = JudgeQuestion { prior, request: "which?".into(), answers };
            let marks = 20 * (asked.answers.len() as u64 + 1);
            let frame = JudgeQuestion { prior: LEFT_OUT.into(), answers: vec![String::new(); asked.answers.len()], ..asked.clone() };
            prop_assert!(fit(&asked, tokens(&frame) + marks).is_some());
        }
    }
}
