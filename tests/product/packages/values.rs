//! Stored values of a plugin, exported and imported.

use super::{add, component};
use pinion_tests::{Ended, Pinion};
use serde_json::json;
use std::fs;

fn keep(pinion: &Pinion, plugin: &str, steps: &[[&str; 3]], value: &str) -> Ended {
    let steps: Vec<Vec<&str>> = steps.iter().map(|step| [step.to_vec(), vec![value]].concat()).collect();
    let arguments = json!({ "steps": steps }).to_string();
    pinion.run(["plugin", "call", plugin, "keep", &arguments])
}

fn kept(pinion: &Pinion, plugin: &str) -> String {
    let arguments = json!({ "steps": [["get", "plugin", "a"], ["get", "workspace", "a"]] }).to_string();
    pinion.run(["plugin", "call", plugin, "keep", &arguments]).stdout
}

#[test]
fn exported_values_return_to_their_plugin_and_to_others_on_request_only() {
    let pinion = Pinion::default();
    component(&pinion, "keeper", "keeper.wasm");
    assert_eq!(add(&pinion, "./keeper.wasm").code, Some(0));
    let missing = pinion.run(["plugin", "storage", "export", "keeper", "values.json"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("no values are stored for `keeper`"), "{missing:?}");
    let both = [["set", "plugin", "a"], ["set", "workspace", "a"]];
    keep(&pinion, "keeper", &both, "before");
    let exported = pinion.run(["plugin", "storage", "export", "keeper", "values.json"]);
    assert!(exported.code == Some(0) && exported.stderr.contains("exported 2 values of keeper"), "{exported:?}");
    keep(&pinion, "keeper", &both, "after");
    let imported = pinion.run(["plugin", "storage", "import", "keeper", "values.json"]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let values = kept(&pinion, "keeper");
    assert!(values.matches("before").count() == 2 && !values.contains("after"), "{values}");
    // The same component elsewhere is another plugin.
    component(&pinion, "keeper", "other/keeper.wasm");
    let refused = pinion.run(["plugin", "storage", "import", "./other/keeper.wasm", "values.json"]);
    assert!(refused.code == Some(4) && refused.stderr.contains("--from-other"), "{refused:?}");
    let import = ["plugin", "storage", "import", "./other/keeper.wasm", "values.json", "--from-other"];
    assert_eq!(pinion.run(import).code, Some(0));
    let stored = pinion.run(["plugin", "storage", "./other/keeper.wasm"]);
    assert!(stored.stdout.contains("everywhere") && stored.stdout.contains("other/keeper.wasm"), "{stored:?}");
    let text = fs::read_to_string(pinion.workspace().join("values.json")).unwrap();
    pinion.write("values.json", text.replace("values 1", "values 2"));
    let refused = pinion.run(["plugin", "storage", "import", "keeper", "values.json"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("another version"), "{refused:?}");
}
