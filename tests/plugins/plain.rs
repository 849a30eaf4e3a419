//! Components without the SDK and without a manifest, whose functions become tools.

use super::authors::{root, run};
use pinion_agent::Authority;
use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::{FileAccess, PartialLimits};
use pinion_tests::{Pinion, Sandbox, SandboxBuilder};
use serde_json::{Value, json};
use std::fs;

async fn sandbox() -> Sandbox {
    let sandbox = SandboxBuilder::default().guest("plain").build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    sandbox
}

#[tokio::test]
async fn each_function_of_plain_types_is_a_tool() {
    let sandbox = sandbox().await;
    let plugin = &sandbox.runtime.plugins()[0];
    assert_eq!((&*plugin.name, &*plugin.version), ("plain", "1.2.0"));
    let tools: Vec<&str> = plugin.tools.iter().map(|name| name.strip_prefix("plain_").unwrap()).collect();
    for expected in ["greet", "describe", "move-by", "divide", "neighbour", "shapes_same", "hostile_same"] {
        assert!(tools.contains(&expected), "{expected} in {tools:?}");
    }
    let tool = sandbox.tool("plain_move-by");
    assert_eq!(tool.input_schema["required"], json!(["points", "by"]));
    let point = &tool.input_schema["properties"]["points"]["items"];
    assert_eq!(point["required"], json!(["x", "y"]));
    assert_eq!(point["properties"]["label"]["anyOf"][1], json!({ "type": "null" }));
    assert!(tool.description.contains("move-by(points: list<{ x: s32, y: s32, label: option<string> }>"), "{tool:?}");
    assert_eq!(tool.authority, Authority::default(), "nothing is granted");
}

#[tokio::test]
async fn arguments_and_results_of_all_types_are_json() {
    let sandbox = sandbox().await;
    assert_eq!(sandbox.text("plain_greet", json!({ "name": "Ada" })).await, "Hello, Ada!");
    let call = |tool: &'static str, arguments: Value| {
        let sandbox = &sandbox;
        async move { serde_json::from_str::<Value>(&sandbox.text(tool, arguments).await).unwrap() }
    };
    let moved = call("plain_move-by", json!({ "points": [{ "x": 1, "y": 2 }], "by": [10, -10] })).await;
    assert_eq!(moved, json!([{ "x": 11, "y": -8, "label": null }]));
    let described = |shape: Value| json!({ "shape": shape, "colour": "green", "style": ["bold", "dashed"] });
    assert_eq!(
        sandbox.text("plain_describe", described(json!({ "circle": 3 }))).await,
        "Colour::Green Shape::Circle(3) 3"
    );
    assert_eq!(sandbox.text("plain_describe", described(json!("empty"))).await, "Colour::Green Shape::Empty 3");
    let largest = json!({ "number": u64::MAX.to_string() });
    assert_eq!(sandbox.text("plain_shapes_same", largest).await, u64::MAX.to_string());
    assert_eq!(call("plain_shapes_same", json!({ "number": 7 })).await, json!(7));
    assert_eq!(sandbox.text("plain_initial", json!({ "text": "äb" })).await, "ä");
    assert_eq!(call("plain_initial", json!({ "text": "" })).await, json!(null));
    for nested in [json!(null), json!({ "some": null }), json!({ "some": 4 })] {
        assert_eq!(call("plain_nested", json!({ "value": nested })).await, nested);
    }
    assert_eq!(sandbox.text("plain_reversed", json!({ "data": "AQID" })).await, "AwIB");
    let checked = call("plain_checked", json!({ "values": [4, -1.5] })).await;
    assert_eq!(checked, json!([{ "ok": 2.0 }, { "err": "negative" }]));
    assert_eq!(call("plain_nothing", json!({})).await, json!(null));
    assert_eq!(call("plain_divide", json!({ "dividend": 7, "divisor": -2 })).await, json!(-3));
}

#[tokio::test]
async fn error_of_a_result_is_the_error_of_the_tool() {
    let sandbox = sandbox().await;
    let failed = sandbox.call("plain_divide", json!({ "dividend": 7, "divisor": 0 })).await.unwrap_err();
    let ToolError::Failed { message, .. } = failed else { panic!("{failed:?}") };
    assert_eq!(message, "7 cannot be divided by 0");
}

#[tokio::test]
async fn wrong_argument_is_named_by_its_path() {
    let sandbox = sandbox().await;
    let point = json!({ "x": 1, "y": 2 });
    for (tool, arguments, expected) in [
        ("plain_greet", json!({}), "`name` is missing"),
        ("plain_greet", json!({ "name": "a", "names": 1 }), "`names` is not known"),
        (
            "plain_move-by",
            json!({ "points": [point, { "x": 1, "y": 3_000_000_000_u64 }], "by": [0, 0] }),
            "`points[1].y`",
        ),
        ("plain_move-by", json!({ "points": [], "by": [1] }), "`by`: expected an array of 2 items"),
        (
            "plain_describe",
            json!({ "shape": { "square": 1 }, "colour": "red", "style": [] }),
            "`shape`: expected one of",
        ),
        (
            "plain_describe",
            json!({ "shape": { "polygon": [{ "x": 1 }] }, "colour": "red", "style": [] }),
            "`shape.polygon[0].y` is missing",
        ),
        (
            "plain_describe",
            json!({ "shape": "empty", "colour": "blue", "style": [] }),
            "`colour`: expected one of red, green",
        ),
        ("plain_describe", json!({ "shape": "empty", "colour": "red", "style": ["thin"] }), "`style`"),
        ("plain_reversed", json!({ "data": "?" }), "`data`: expected bytes in base64"),
        (
            "plain_shapes_same",
            json!({ "number": "-1" }),
            "`number`: expected an integer from 0 to 18446744073709551615",
        ),
        ("plain_nested", json!({ "value": 4 }), "`value`: expected null or an object"),
    ] {
        let error = sandbox.error(tool, arguments).await;
        assert!(error.contains(expected), "{tool}: {error}");
    }
}

#[tokio::test]
async fn function_that_cannot_be_a_tool_is_named_and_its_neighbours_stay() {
    let sandbox = sandbox().await;
    let skipped = sandbox.runtime.plugins()[0].skipped.join("\n");
    for expected in [
        "`demo:plain/counters@1.2.0#open` has a resource in its types",
        "`demo:plain/counters@1.2.0#[method]counter.next` belongs to a resource",
        "`demo:plain/hostile@1.2.0#wide` has more than 1000 types",
        "`demo:plain/hostile@1.2.0#deep` has types of more than 12 levels",
    ] {
        assert!(skipped.contains(expected), "{expected} in {skipped}");
    }
    assert_eq!(sandbox.text("plain_neighbour", json!({})).await, "7");
}

#[tokio::test]
async fn limits_hold_for_plain_functions() {
    let limits = PartialLimits { fuel: Some(20_000_000), ..PartialLimits::default() };
    let sandbox = SandboxBuilder::default().guest("plain").limits("plain", limits).build().await;
    for (tool, arguments) in [
        ("plain_spin", json!({})),
        ("plain_crash", json!({})),
        ("plain_flood", json!({ "count": 2_000_000 })),
        ("plain_flood", json!({ "count": 500_000_000 })),
    ] {
        let failed = sandbox.call(tool, arguments).await.unwrap_err();
        assert!(matches!(failed, ToolError::Fault { .. }), "{tool}: {failed:?}");
        assert_eq!(sandbox.text("plain_greet", json!({ "name": "Ada" })).await, "Hello, Ada!");
    }
}

#[tokio::test]
async fn imported_functions_decide_what_a_plain_component_asks_for() {
    let sandbox = sandbox().await;
    sandbox.write("a.txt", "hello");
    let plugin = &sandbox.runtime.plugins()[0];
    assert!(plugin.offered.asks.spell_asks().iter().any(|word| word.starts_with("files=")), "{plugin:?}");
    let path = json!({ "path": sandbox.workspace().join("a.txt") });
    assert!(!sandbox.error("plain_read-text", path.clone()).await.is_empty());
    let granted = SandboxBuilder::default().guest("plain").files("plain", ".", FileAccess::Read).build().await;
    granted.write("a.txt", "hello");
    let path = json!({ "path": granted.workspace().join("a.txt") });
    assert_eq!(granted.text("plain_read-text", path).await, "hello");
}

/// Released components must load under each later version of the contract, and components of later hosts here.
#[test]
fn component_of_a_later_patch_version_loads_if_it_links() {
    let released = fs::read(root().join("tests/fixtures/contract-0.1.0/repeated-lines.wasm")).unwrap();
    let pinion = Pinion::default();
    pinion.write("a.txt", "one line\n");
    let renamed = |names: &[&str], to: &str| {
        let mut bytes = released.clone();
        for name in names {
            let places: Vec<usize> =
                (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name.as_bytes())).collect();
            assert!(!places.is_empty(), "{name}");
            let end = name.len() - to.len();
            places.iter().for_each(|at| bytes[at + end..at + name.len()].copy_from_slice(to.as_bytes()));
        }
        bytes
    };
    let check = |name: &str, bytes: Vec<u8>| {
        pinion.write(name, bytes);
        run(&pinion, ["plugin", "check", name])
    };
    let exports = ["pinion:plugin/tools@0.1.0", "pinion:plugin/commands@0.1.0"];
    let later = check("later.wasm", renamed(&exports, "0.1.7"));
    assert_eq!(later.code, Some(0), "{later:?}");
    let called = run(
        &pinion,
        ["plugin", "call", "later.wasm", "repeated_lines", r#"{"path":"a.txt"}"#, "--grant", "files=read"],
    );
    assert!(called.code == Some(0) && called.stdout.starts_with("none"), "{called:?}");
    let named = check("named.wasm", renamed(&[r#""api":"0.1.0"#], "0.2.0"));
    assert!(named.code == Some(0) && named.stdout.contains("made for version 0.2.0"), "{named:?}");
    let other = check("other.wasm", renamed(&exports, "0.2.0"));
    assert!(other.code == Some(1) && other.stderr.contains("exports version `0.2.0`"), "{other:?}");
}
