//! Lives as long as the session, and attempts to start a sub-agent that would call it while it waits.

use pinion_plugin_sdk::agents::{self, Assignment};
use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    prompt: String,
}

struct Resident;

impl Plugin for Resident {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("resident", "Starts a sub-agent.", |Arguments { prompt }: Arguments, _: &Call| {
                let assignment = Assignment {
                    prompt,
                    kind: None,
                    tools: None,
                    max_turns: None,
                    timeout_ms: None,
                    attempts: None,
                    extra: None,
                };
                Ok(agents::run(&assignment)?.text)
            })
            .delegates(),
        ]
    }
}

export!(Resident, exports = [tools], asks = { "agents": true }, lifetime = "session");
