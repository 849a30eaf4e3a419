use super::*;
use proptest::prelude::*;

fn schema_of(schema: Value) -> Value {
    fitted(&schema).schema
}

#[test]
fn usual_schema_stays_as_it_is() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "The file.", "minLength": 1 },
            "mode": { "enum": ["a", "b"], "default": "a" },
            "lines": { "type": "array", "items": { "type": "integer", "minimum": 1 }, "maxItems": 2 },
            "more": { "oneOf": [{ "type": "null" }, { "$ref": "#/$defs/more" }] },
        },
        "required": ["path"],
        "additionalProperties": false,
        "$defs": { "more": { "type": "object", "properties": { "x": { "not": { "type": "null" } } } } },
    });
    let fitted = fitted(&schema);
    assert_eq!((&fitted.schema, &fitted.note, fitted.renamed.len()), (&schema, &None, 0));
}

#[test]
fn parts_of_the_root_become_its_properties() {
    let schema = json!({
        "type": "object",
        "properties": { "all": { "type": "string" } },
        "additionalProperties": false,
        "oneOf": [
            { "properties": { "kind": { "const": "a" }, "x": {} }, "required": ["kind", "x"] },
            { "$ref": "#/$defs/b" },
        ],
        "$defs": { "b": { "properties": { "kind": { "const": "b" } }, "required": ["kind"] } },
    });
    let Fitted { schema, note, .. } = fitted(&schema);
    assert_eq!(schema["properties"]["kind"], json!({ "anyOf": [{ "const": "a" }, { "const": "b" }] }));
    assert!(schema.get("oneOf").is_none() && schema.get("additionalProperties").is_none());
    assert_eq!(note.as_deref(), Some("Arguments: exactly one of: kind + x, or kind."));
    let all = json!({ "allOf": [{ "properties": { "a": {} }, "required": ["a"] }], "required": ["b"] });
    assert_eq!(schema_of(all)["required"], json!(["b", "a"]));
}

#[test]
fn root_that_refers_to_a_definition_becomes_it() {
    let schema = schema_of(json!({
        "$ref": "#/definitions/Input",
        "definitions": { "Input": { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] } },
    }));
    assert_eq!((&schema["properties"]["a"]["type"], &schema["required"]), (&json!("string"), &json!(["a"])));
    assert!(schema.get("$ref").is_none());
}

#[test]
fn weakened_rules_admit_more_and_never_less() {
    let pattern = "a".repeat(1_000);
    let schema = schema_of(json!({
        "properties": {
            "not": { "not": { "pattern": pattern } },
            "one": { "oneOf": [{ "pattern": pattern }, { "type": "string" }] },
            "by_reference": { "oneOf": [{ "$ref": "#/$defs/a" }, { "type": "string" }] },
            "if": { "if": { "pattern": pattern }, "then": false, "else": false },
        },
        "$defs": { "a": { "pattern": pattern } },
    }));
    let properties = &schema["properties"];
    assert_eq!(properties["not"], json!({}));
    assert_eq!(properties["one"], json!({ "anyOf": [{}, { "type": "string" }] }));
    assert_eq!(properties["by_reference"]["anyOf"][0], json!({ "$ref": "#/$defs/a" }));
    assert_eq!(properties["if"], json!({}));
}

#[test]
fn only_patterns_that_every_server_compiles_are_kept() {
    let text = |pattern: &str| json!({ "type": "string", "description": "A name.", "pattern": pattern });
    let fitted = fitted(&json!({ "properties": {
        "kept": text("^[a-z]+$"),
        "rewritten": text("^\\d{2,}$"),
        "ahead": text("^(?=x).*$"),
        "open": text("^https?://"),
        "broken": text("^[a-"),
        "bare": { "type": "string", "pattern": "^[\\w-.]+$" },
    } }));
    let properties = &fitted.schema["properties"];
    assert_eq!(properties["kept"], text("^[a-z]+$"));
    assert_eq!(properties["rewritten"], text("^[0-9]{2,}$"));
    let named = |pattern: &str| {
        let description = format!("A name. (must match the regular expression {pattern})");
        json!({ "type": "string", "description": description })
    };
    for (name, pattern) in [("ahead", "^(?=x).*$"), ("open", "^https?://"), ("broken", "^[a-")] {
        assert_eq!(properties[name], named(pattern));
    }
    assert_eq!(properties["bare"]["description"], "must match the regular expression ^[\\w-.]+$");
    assert_eq!(fitted.note.as_deref(), Some("Arguments: the server checks further rules."));
}

#[test]
fn patterns_of_names_apply_to_no_more_names() {
    let schema = schema_of(json!({ "properties": { "o": {
        "type": "object",
        "patternProperties": { "^\\d$": { "type": "string" }, "^\\S$": { "type": "null" }, "x": { "type": "null" } },
        "additionalProperties": false,
    } } }));
    assert_eq!(schema["properties"]["o"], json!({ "type": "object" }));
    let exact = json!({ "type": "object", "patternProperties": { "^[0-9]$": {} }, "additionalProperties": false });
    assert_eq!(schema_of(json!({ "properties": { "o": exact } }))["properties"]["o"], exact);
}

#[test]
fn large_limits_and_rare_formats_are_left_out() {
    let schema = schema_of(json!({ "properties": {
        "a": { "type": "string", "maxLength": 100_000, "minLength": 1, "format": "password" },
        "b": { "type": "string", "maxLength": 1_000, "format": "date-time" },
    } }));
    assert_eq!(schema["properties"]["a"], json!({ "type": "string", "minLength": 1 }));
    assert_eq!(schema["properties"]["b"], json!({ "type": "string", "maxLength": 1_000, "format": "date-time" }));
}

#[test]
fn strange_names_inside_are_not_forbidden() {
    let inner = json!({ "type": "object", "properties": { "é": {}, "ok": {} }, "additionalProperties": false });
    let schema = schema_of(json!({ "properties": { "inner": inner } }));
    assert_eq!(schema["properties"]["inner"], json!({ "type": "object", "properties": { "ok": {} } }));
}

#[test]
fn names_of_the_root_are_given_back() {
    let input = fitted(&json!({ "properties": { "a b": {}, "a_b": {}, "": {} }, "required": ["a b"] }));
    assert_eq!(input.schema["required"], json!(["a_b_2"]));
    let arguments = Fitted::arguments(&input.renamed, json!({ "a_b": 1, "a_b_2": 2, "_": 3 }));
    assert_eq!(arguments, json!({ "a_b": 1, "a b": 2, "": 3 }));
}

#[test]
fn tuples_of_old_drafts_keep_their_meaning() {
    let schema = schema_of(
        json!({ "properties": { "t": { "type": "array", "items": [{ "type": "string" }], "additionalItems": false } } }),
    );
    assert_eq!(
        schema["properties"]["t"],
        json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": false })
    );
}

#[test]
fn recursion_stays_and_loops_go() {
    let node = json!({ "properties": { "next": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] } } });
    let schema = schema_of(json!({ "properties": { "node": { "$ref": "#/$defs/node" } }, "$defs": { "node": node } }));
    assert_eq!(schema["$defs"]["node"], node);
    let looped = fitted(
        &json!({ "properties": { "a": { "$ref": "#/$defs/a" } }, "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/a" }] } } }),
    );
    assert!(looped.schema.get("$defs").is_none() && looped.note.unwrap().contains("too complex"));
}

/// A schema, or something like one.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        any::<i8>().prop_map(|n| json!(n)),
        "\\PC{0,12}|[\\s\\S]{0,4}".prop_map(|text| json!(text)),
        "\\PC{0,12}".prop_map(|text| json!({ "description": text, "enum": [text], "type": "string" })),
        prop_oneof![Just("#"), Just("#/$defs/a"), Just("#/$defs/b"), Just("http://x/y")]
            .prop_map(|to| json!({ "$ref": to })),
        "\\^[a-z\\[\\]\\\\(){}|?+*^.d-]{0,8}\\$".prop_map(|pattern| json!({ "type": "string", "pattern": pattern })),
        Just(json!({ "type": ["string", "null"], "pattern": "^a", "minimum": 1, "required": ["a", "é"] })),
    ];
    let keyword = prop_oneof![
        Just("properties"),
        Just("items"),
        Just("anyOf"),
        Just("oneOf"),
        Just("allOf"),
        Just("not"),
        Just("if"),
        Just("then"),
        Just("additionalProperties"),
        Just("patternProperties"),
        Just("$defs"),
        Just("prefixItems"),
        Just("contains"),
        Just("dependentSchemas"),
        Just("propertyNames"),
        Just("required"),
        Just("type"),
        Just("default"),
        Just("x-unknown"),
    ];
    let name = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), "\\PC{0,6}|[\\s\\S]{0,3}"];
    leaf.prop_recursive(5, 60, 5, move |inner| {
        let map = prop::collection::btree_map(name.clone(), inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec((keyword.clone(), inner.clone()), 0..5).prop_map(|fields| Value::Object(
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
            (keyword.clone(), map).prop_map(|(key, fields)| json!({ key: fields })),
            (keyword.clone(), prop::collection::vec(inner, 0..4)).prop_map(|(key, items)| json!({ key: items })),
        ]
    })
}

/// Asserts the demands of the host and of all vendors.
fn assert_acceptable(fitted: &Fitted) {
    let root = fitted.schema.as_object().unwrap();
    assert!(root["type"] == "object" && root["properties"].is_object());
    assert!(NOT_AT_ROOT.iter().chain(&["$ref", "$schema", "$id"]).all(|keyword| !root.contains_key(*keyword)));
    assert!(root["properties"].as_object().unwrap().keys().all(|name| is_accepted(name)));
    assert!(fitted.schema.to_string().len() <= MAX_BYTES && is_clean_schema(&fitted.schema), "{}", fitted.schema);
    let mut measure = Measure { root: &fitted.schema, left: MAX_EXPANDED };
    assert!(measure.visit(&fitted.schema, 0, &mut Vec::new(), Place::default()).is_some());
    assert!(fitted.note.as_ref().is_none_or(|note| clean::is_clean_line(note)));
}

fn is_clean_schema(value: &Value) -> bool {
    match value {
        Value::String(text) => clean::text(text, usize::MAX) == *text,
        Value::Array(items) => items.iter().all(is_clean_schema),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| clean::is_clean_line(name) && is_clean_schema(value))
        }
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_value_becomes_an_acceptable_schema(schema in any_schema()) {
        assert_acceptable(&fitted(&schema));
    }
}
