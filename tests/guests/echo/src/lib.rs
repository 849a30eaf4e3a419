//! Returns its argument; measures the minimum cost of a call.

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    message: String,
}

struct Echo;

impl Plugin for Echo {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("echo", "Repeats a message.", |arguments: Arguments, _call| Ok(arguments.message)).reads(),
            Tool::new("fail", "Fails with a message.", |arguments: Arguments, _call| {
                Err::<String, _>(Error::failed(arguments.message))
            }),
            Tool::new("peek", "Reads a file, which it does not declare.", |arguments: Arguments, call| {
                Ok(std::fs::read_to_string(call.path(&arguments.message)?)?)
            }),
            Tool::new("details", "Gives details that are JSON.", |arguments: Arguments, _call| {
                Ok(Output::text("done").details(json!({ "message": arguments.message })).markdown())
            }),
        ]
    }
}

export!(Echo, exports = [tools], asks = { "files": "read" });
