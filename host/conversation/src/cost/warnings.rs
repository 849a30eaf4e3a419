//! Lines about cost in a conversation: after a turn, and before a request that loses the vendor's cache.

use super::turn_line::TurnMeter;
use crate::chat::Chat;
use crate::conversation_output::Voice;
use pinion_agent::Outcome;
use pinion_app::model::attribution::conversation_id;
use pinion_console::output::{Text, short, text};

/// Tokens whose loss is worth a warning.
const LEAST_TOKENS: u64 = 5_000;

impl Chat<'_> {
    /// Shows the line about a turn that has ended, unless the config turns it off, and a warning if the turn was expensive.
    pub(crate) fn say_turn_cost(&self, meter: TurnMeter, outcome: &Outcome) {
        let (line, warning) = meter.end(outcome);
        if let Some(line) = line.filter(|_| self.base.config.turn_cost) {
            match &self.voice {
                Voice::Lines { style, .. } => self.write_line(&style.dim(text!("  {}", line))),
                Voice::Screen(_) => self.write_line(&text!("{}", line)),
            }
        }
        warning.into_iter().for_each(|warning| self.write_line(&text!("! {}", Text::block(warning))));
    }

    /// Warns that another model has no cache of the conversation. Called before the model is changed.
    pub(crate) fn warn_of_switch(&self) {
        let forecast = self.base.requests.forecast(&conversation_id(&self.ready.agent));
        let Some(forecast) = forecast.filter(|forecast| forecast.cached >= LEAST_TOKENS) else { return };
        let tokens = short(forecast.input);
        self.write_line(&text!(
            "! the new model has no cache of this conversation: the next request pays {} tokens in full",
            tokens
        ));
    }

    /// Warns that tools have changed, so that the next request loses the vendor's cache.
    pub(crate) fn warn_of_changed_tools(&self) {
        let agent = &self.ready.agent;
        let tools = agent.config().ports.tools.definitions();
        let found = self.base.requests.preview_tools(&conversation_id(agent), &tools);
        if let Some(found) = found.filter(|found| found.lost >= LEAST_TOKENS) {
            let tokens = short(found.lost);
            self.write_line(&text!("! {}: this request pays {} tokens again", found.to_string(), tokens));
        }
    }
}
