//! The size of what every request contains besides the history.

use crate::config::LoopConfig;
use crate::context::Context;
use pinion_protocol::json::json_bytes;

/// Estimates the tokens that every request contains: the system prompt and the tools.
pub(crate) fn fixed_tokens(context: &Context, config: &LoopConfig) -> u64 {
    let tools = config.ports.tools.definitions();
    let texts = tools.iter().flat_map(|tool| {
        let guidelines = tool.guidelines.iter().map(String::as_str);
        [&*tool.name, &*tool.description].into_iter().chain(guidelines)
    });
    let texts: u64 = texts.map(|text| config.ports.counter.count(text)).sum();
    // The rule of thumb for text is good enough for schemas.
    let schemas: u64 = tools.iter().map(|tool| json_bytes(&tool.input_schema) / 4).sum();
    config.ports.counter.count(&context.system_prompt) + texts + schemas
}
