use super::*;

fn form(properties: &str, required: &str) -> Result<FormSchema, String> {
    FormSchema::parse(&format!(r#"{{"type":"object","properties":{{{properties}}},"required":[{required}]}}"#))
}

#[test]
fn answers_match_the_schema() {
    let form = form(
        r#""n":{"type":"integer","minimum":1,"maximum":9},"s":{"type":"string","maxLength":3},"e":{"enum":["x","y"]}"#,
        r#""n""#,
    );
    let fields = form.unwrap().fields;
    let field = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
    let enter = |text: &str| DialogAnswer::Entered(text.to_owned());
    assert_eq!(field("n").value(enter(" 7 ")), Ok(Some(7.into())));
    assert!(field("n").value(enter("10")).unwrap_err().contains("an integer from 1 to 9"));
    assert!(field("n").value(enter("")).is_err() && field("s").value(enter("")) == Ok(None));
    assert!(field("s").value(enter("four")).is_err());
    assert_eq!(field("e").value(DialogAnswer::Selected(1)), Ok(Some("y".into())));
    assert_eq!(field("e").value(DialogAnswer::Selected(2)), Ok(None));
}

#[test]
fn values_of_all_fields_match_the_schema() {
    let form = form(
        r#""n":{"type":"integer","minimum":1,"default":3},"b":{"type":"boolean"},"e":{"enum":["x","y\u0007"],"title":"E\u001b"}"#,
        r#""n""#,
    );
    let form = form.unwrap();
    let values = |answer: Value| form.values(&answer).map(Value::Object);
    assert_eq!(values(json!({ "n": 7, "b": false, "e": "y" })), Ok(json!({ "n": 7, "b": false, "e": "y\u{7}" })));
    assert_eq!(values(json!({ "n": 1, "b": null, "more": 1 })), Ok(json!({ "n": 1 })));
    for (wrong, why) in [
        (json!({ "b": true }), "n: it must be answered"),
        (json!({ "n": 0 }), "n: it must be an integer from 1"),
        (json!({ "n": 1.5 }), "n: it must be an integer from 1"),
        (json!({ "n": 1, "b": "yes" }), "b: it has another type"),
        (json!({ "n": 1, "e": "z" }), "e: it must be one of the options"),
        (json!([1]), "n: it must be answered"),
    ] {
        assert_eq!(values(wrong), Err(why.to_owned()));
    }
    let shown = form.shown.to_string();
    assert!(shown.contains("\"default\":3") && !shown.contains("\\u"), "{shown}");
}

#[test]
fn options_have_titles_and_several_may_be_chosen() {
    let form = form(
        r#""a":{"type":"string","oneOf":[{"const":"v1","title":"One"},{"const":"v2"}]},
           "b":{"type":"string","enum":["o1","o2"],"enumNames":["First","Second"]},
           "c":{"type":"array","items":{"type":"string","enum":["x","y","z"]},"minItems":1,"maxItems":2,"default":["y"]},
           "d":{"type":"array","items":{"anyOf":[{"const":"k1","title":"Key 1"},{"const":"k2","title":"Key 2"}]}}"#,
        r#""a","b","c""#,
    );
    let form = form.unwrap();
    let field = |name: &str| form.fields.iter().find(|field| field.name == name).unwrap();
    let enter = |text: &str| DialogAnswer::Entered(text.to_owned());
    assert_eq!(field("a").kind(), DialogKind::Select(vec!["One".to_owned(), "v2".to_owned()]));
    assert_eq!(field("b").kind(), DialogKind::Select(vec!["First".to_owned(), "Second".to_owned()]));
    assert_eq!(field("b").value(DialogAnswer::Selected(1)), Ok(Some("o2".into())));
    assert_eq!(field("c").kind(), DialogKind::Input("y".to_owned()));
    assert!(
        field("d").question("?", None).ends_with("d, optional\nAny of these, with commas between them: Key 1, Key 2")
    );
    assert_eq!(field("d").value(enter(" Key 2,Key 1 ")), Ok(Some(json!(["k2", "k1"]))));
    assert_eq!(field("d").value(enter("")), Ok(None));
    assert!(field("d").value(enter("k1")).unwrap_err().contains("`k1` is none"));
    assert_eq!(field("c").value(enter("")).unwrap_err(), "it must have 1 to 2 of the options");
    let whole = |c: Value| form.values(&json!({ "a": "v2", "b": "o1", "c": c })).map(Value::Object);
    assert_eq!(whole(json!(["z", "x"])), Ok(json!({ "a": "v2", "b": "o1", "c": ["z", "x"] })));
    for (wrong, why) in [(json!(["x", "x"]), "twice"), (json!([1]), "one of"), (json!("x"), "another type")] {
        assert!(whole(wrong).unwrap_err().contains(why), "{why}");
    }
    assert!(form.values(&json!({ "a": "One", "b": "o1", "c": ["x"] })).is_err());
}

#[test]
fn schemas_that_no_dialog_can_satisfy_are_refused() {
    for property in [
        r#""a":{"type":"array"}"#,
        r#""a":{"type":"array","items":{"type":"string"}}"#,
        r#""a":{"type":"array","items":{"enum":["x"],"pattern":"x"}}"#,
        r#""a":{"type":"array","items":{"enum":["x, y"]}}"#,
        r#""a":{"oneOf":[{"type":"string"}]}"#,
        r#""a":{"enum":["x"],"oneOf":[{"const":"x"}]}"#,
        r#""a":{"enum":["x"],"enumNames":["X","Y"]}"#,
        r#""a":{"type":"string","pattern":"^a"}"#,
        r#""a":{"enum":[1]}"#,
        r#""a":{"enum":[]}"#,
        r#""a":true"#,
    ] {
        assert!(form(property, "").is_err(), "{property}");
    }
    assert!(form(r#""a":{"type":"string"}"#, r#""b""#).unwrap_err().contains("`b`"));
    assert!(FormSchema::parse(r#"{"type":"object","oneOf":[]}"#).unwrap_err().contains("oneOf"));
}

#[test]
fn formats_are_checked_and_unknown_ones_refused() {
    let fits = |format: &str, text: &str| {
        let form = form(&format!(r#""a":{{"type":"string","format":"{format}"}}"#), r#""a""#).unwrap();
        form.values(&json!({ "a": text })).is_ok()
    };
    for (format, good, bad) in [
        ("email", vec!["a@b.example", "x+y@localhost"], vec!["x", "@b", "a@", "a@b..c", "a b@c", "a@b c"]),
        (
            "uri",
            vec!["https://a.example/x?y", "mailto:a@b", "urn:isbn:1"],
            vec!["a.example", "1a:b", "a:", ":b", "a:b c"],
        ),
        ("date", vec!["2024-02-29"], vec!["2023-02-29", "20240229", "2024-2-9", "tomorrow", ""]),
        (
            "date-time",
            vec!["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+01:00"],
            vec!["2026-01-31", "2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "2026-13-31T12:00:00Z"],
        ),
    ] {
        good.iter().for_each(|text| assert!(fits(format, text), "{format}: {text}"));
        bad.iter().for_each(|text| assert!(!fits(format, text), "{format}: {text}"));
    }
    assert!(form(r#""a":{"type":"string","format":"ipv4"}"#, "").unwrap_err().contains("the format \"ipv4\""));
}

#[test]
fn field_is_asked_for_again_until_its_answer_fits() {
    let form = form(r#""n":{"type":"integer","minimum":18},"m":{"type":"string","format":"email"}"#, r#""n""#).unwrap();
    let mut filling = form.fill("Who?");
    let mut asked = Vec::new();
    for text in ["5", "20", "x", ""] {
        asked.push(filling.next_question().unwrap());
        filling.answer(DialogAnswer::Entered(text.to_owned()));
    }
    let questions: Vec<&str> = asked.iter().map(|(question, _)| question.as_str()).collect();
    assert_eq!(
        questions,
        [
            "Who?\nn",
            "Who?\nn\nit must be an integer from 18",
            "Who?\nm, optional",
            "Who?\nm, optional\nit must be an email address"
        ]
    );
    assert_eq!((filling.next_question(), Value::Object(filling.values())), (None, json!({ "n": 20 })));
}

/// JSON objects have no order, and libraries of many languages sort their members.
#[test]
fn fields_are_asked_in_the_order_that_the_schema_names() {
    let asked = |schema: Value| {
        let form = FormSchema::parse(&schema.to_string())?;
        Ok::<_, String>(form.fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>())
    };
    let text = || json!({ "type": "string" });
    let at = |place: i64| json!({ "type": "string", "x-order": place });
    let listed =
        json!({ "type": "object", "properties": { "a": text(), "b": text(), "c": text() }, "x-order": ["c", "a"] });
    assert_eq!(asked(listed), Ok(vec!["c".to_owned(), "a".to_owned(), "b".to_owned()]));
    let numbered = json!({ "type": "object", "properties": { "a": at(2), "b": text(), "c": at(1) } });
    assert_eq!(asked(numbered.clone()), Ok(vec!["c".to_owned(), "a".to_owned(), "b".to_owned()]));
    let shown = FormSchema::parse(&numbered.to_string()).unwrap().shown.to_string();
    assert!(!shown.contains("x-order") && shown.find("\"c\"") < shown.find("\"a\""), "{shown}");
    let wrong = json!({ "type": "object", "properties": { "a": text() }, "x-order": ["a", "x"] });
    assert!(asked(wrong).unwrap_err().contains("`x`, which is not described"));
    let wrong = json!({ "type": "object", "properties": { "a": { "type": "string", "x-order": "1" } } });
    assert_eq!(asked(wrong).unwrap_err(), "property `a`: `x-order` must be an integer");
}
