//! Resources.

use crate::{Nothing, PNG};
use pinion_plugin_sdk::Resource;
use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Id {
    id: String,
}

pub(crate) fn tools() -> Vec<Tool> {
    let text = |_: Nothing, _: &Call| Ok("This is the content of the static text resource.");
    let data = |Id { id }: Id, _: &Call| {
        Ok(json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string())
    };
    let sound = |_: Nothing, _: &Call| {
        let part = json!({ "mimeType": "audio/wav", "blob": crate::WAV });
        Ok(Output::text("A sound.").details(json!({ "mcp": { "contents": [part] } })))
    };
    vec![
        Tool::new("static_text", "A text.", text).resource(Resource::new("test://static-text").only()),
        Tool::new("static_binary", "A picture.", |_: Nothing, _| Ok(Output::image("image/png", PNG.to_vec())))
            .resource(Resource::new("test://static-binary").mime_type("image/png").only()),
        Tool::new("template", "The data of an id.", data)
            .resource(Resource::template("test://template/{id}/data").mime_type("application/json").only()),
        Tool::new("watched_resource", "A resource that may change.", |_: Nothing, _| Ok("Nothing has changed."))
            .resource(Resource::new("test://watched-resource").only()),
        Tool::new("sound", "A sound.", sound).resource(Resource::new("test://sound").mime_type("audio/wav")),
        Tool::new("broken", "A resource that fails.", |_: Nothing, _| Err::<Output, _>(Error::failed("it is broken")))
            .resource(Resource::new("test://broken").only()),
    ]
}
