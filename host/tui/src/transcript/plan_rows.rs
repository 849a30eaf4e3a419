//! The rows of plans, and of the answers that planners and executors give.

use crate::markdown;
use crate::rows::{Lead, Row, StyledPiece, wrap};
use crate::transcript::items::{CallItem, CallState, PlanPage};
use crate::transcript::render::Look;
use pinion_protocol::text::{count, one_line};
use pinion_protocol::tool::ANSWER_TOOL;
use serde_json::Value;

/// The border of a plan, which tells it from answers also without colours.
const BORDER: &str = "┃ ";
/// Characters of a title.
const MAX_TITLE: usize = 200;

/// Renders a plan: a label with its file, and its text, with a border.
pub(super) fn plan_rows(plan: &PlanPage, look: &Look) -> Vec<Row> {
    let theme = &look.theme;
    let border = StyledPiece::new(BORDER, theme.accent);
    let room = look.columns.saturating_sub(BORDER.chars().count());
    let label = StyledPiece::line(&format!("plan · {}", plan.file), room, theme.accent);
    let mut rows = vec![Row::from_pieces([border.clone(), label])];
    rows.extend(markdown::rows(&plan.text, look.paper(&border)));
    rows
}

/// Renders the answer of a planner or an executor in words; `None` for other calls, and for answers that were refused.
pub(super) fn answer_rows(call: &CallItem, is_unfolded: bool, look: &Look) -> Option<Vec<Row>> {
    if call.tool != ANSWER_TOOL || call.state == CallState::Failed {
        return None;
    }
    let answer = GivenAnswer::from_arguments(&call.arguments)?;
    let theme = &look.theme;
    let lead = Lead::new(
        vec![StyledPiece::new(if call.is_over() { "✓ " } else { "○ " }, theme.good)],
        vec![StyledPiece::new("  ", theme.text)],
    );
    let pieces = [StyledPiece::new(answer.label, theme.strong), StyledPiece::new(&answer.title, theme.text)];
    let mut rows = Vec::new();
    wrap(&pieces, look.columns, &lead, &mut rows);
    if is_unfolded {
        rows.extend(markdown::rows(&answer.text, look.paper(&StyledPiece::new("  │ ", theme.dim))));
    }
    Some(rows)
}

/// An answer in words.
struct GivenAnswer {
    label: &'static str,
    title: String,
    /// Markdown.
    text: String,
}

impl GivenAnswer {
    /// Reads a plan or the report of a step; `None` for answers of other forms.
    fn from_arguments(arguments: &Value) -> Option<Self> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(report) = text(arguments, "report") {
            let title = one_line(report.trim().lines().next().unwrap_or_default(), MAX_TITLE);
            let is_done = arguments.get("done").and_then(Value::as_bool) == Some(true);
            return Some(Self { label: if is_done { "done: " } else { "not done: " }, title, text: report });
        }
        let steps = arguments.get("steps")?.as_array()?;
        let title = one_line(&text(arguments, "title")?, MAX_TITLE);
        let title = format!("{title}, {}", count(steps.len() as u64, "step"));
        let mut markdown = text(arguments, "summary").unwrap_or_default();
        for (at, step) in steps.iter().enumerate() {
            let (title, description) = (text(step, "title").unwrap_or_default(), text(step, "description"));
            markdown.push_str(&format!("\n\n{}. **{}**", at + 1, one_line(&title, MAX_TITLE)));
            description.into_iter().for_each(|text| markdown.push_str(&format!("\n\n{text}")));
        }
        Some(Self { label: "wrote a plan: ", title, text: markdown })
    }
}
