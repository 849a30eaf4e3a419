use super::*;
use document::tests::api;
use pinion_plugin_sdk::http::Response;
use pinion_plugin_sdk::serde_json::Map;
use pinion_plugin_sdk::testing;

fn document() -> Document {
    let text = json!({ "openapi": "3.1.0", "servers": [{ "url": "https://pets.example/v1" }], "paths": { "/pets/{id}/x": {
        "post": { "operationId": "change",
            "parameters": [
                { "name": "id", "in": "path", "schema": { "type": "string" } },
                { "name": "tag", "in": "query", "schema": { "type": "array", "items": { "type": "string" } } },
                { "name": "limit", "in": "query", "schema": { "type": "integer" } },
                { "name": "X-Trace", "in": "header", "schema": { "type": "string" } },
            ],
            "requestBody": { "content": { "application/json": { "schema": { "type": "object" } } } } } } } });
    Document::read(&text.to_string(), &api()).unwrap()
}

fn called(api: &Api, input: Value) -> Result<Output> {
    let document = document();
    let Value::Object(input) = input else { return Err(Error::failed("no object")) };
    let input: Map<String, Value> = input;
    Route::of("pets", &document.base, &document.operations[0]).call(api, input)
}

fn text(output: Output) -> (String, bool) {
    let reply = testing::Reply::from(output);
    (reply.text, reply.is_error)
}

#[test]
fn arguments_take_their_places_in_the_request() {
    testing::respond_with(|request| {
        assert_eq!(request.method, "POST");
        assert_eq!(request.url, "https://pets.example/v1/pets/a%2Fb%3F%20%C3%A9/x?tag=x%26y&tag=z&limit=3");
        let headers: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(headers, [("X-Trace", "t"), ("x-client", "p"), ("content-type", "application/json")]);
        assert_eq!(request.credential.as_deref(), Some("pets"));
        Ok(Response { status: 201, headers: vec![], body: request.body.clone(), url: request.url.clone() })
    });
    let api = Api { credential: Some("pets".into()), headers: [("x-client".into(), "p".into())].into(), ..api() };
    let input = json!({ "id": "a/b? é", "tag": ["x&y", "z"], "limit": 3, "X-Trace": "t", "body": { "a": 1 } });
    let url = "https://pets.example/v1/pets/a%2Fb%3F%20%C3%A9/x?tag=x%26y&tag=z&limit=3";
    assert_eq!(text(called(&api, input).unwrap()), (format!("POST {url} → 201\n\n{{\"a\":1}}"), false));
}

#[test]
fn answers_are_cut_at_a_character_and_failures_are_marked() {
    testing::respond_with(|request| {
        let body = "é".repeat(1_000).into_bytes();
        Ok(Response { status: 500, headers: vec![], body, url: request.url.clone() })
    });
    let api = Api { max_response_bytes: 5, ..api() };
    let (text, is_error) = text(called(&api, json!({ "id": "1" })).unwrap());
    assert!(is_error && text.ends_with("→ 500\n\néé\n[1996 more bytes]"), "{text}");
}

#[test]
fn paths_cannot_be_left() {
    for id in [json!(".."), json!("."), json!(""), json!(null)] {
        let error = called(&api(), json!({ "id": id })).unwrap_err();
        assert!(matches!(error, Error::InvalidInput(_)), "{error:?}");
    }
    let error = called(&api(), json!({ "id": "1", "other": 1 })).unwrap_err();
    assert!(matches!(error, Error::InvalidInput(text) if text.contains("`other`")));
}

/// Writes a document with so many operations, and returns the settings for it.
fn settings(directory: &tempfile::TempDir, count: usize) -> Settings {
    let paths: Map<String, Value> = (0..count)
        .map(|at| (format!("/p{at}"), json!({ "get": { "operationId": format!("op.{at}"), "summary": "Reads." } })))
        .collect();
    let text = json!({ "openapi": "3.0.0", "servers": [{ "url": "https://a.example" }], "paths": paths });
    let path = directory.path().join("spec.json");
    std::fs::write(&path, text.to_string()).unwrap();
    let spec = path.to_str().unwrap().to_owned();
    Settings { apis: [("my api".to_owned(), Api { spec, ..api() })].into(), ..Settings::default() }
}

#[test]
fn few_operations_are_tools_and_many_are_found() {
    let directory = tempfile::TempDir::new().unwrap();
    let few = offer(&settings(&directory, 3));
    assert_eq!(few.tools.len(), 3);
    assert!(few.instructions.unwrap().contains("API__OPERATION"));
    let many = offer(&settings(&directory, 65));
    assert_eq!(many.tools.len(), 2);
    assert!(many.instructions.unwrap().contains("openapi_search"));
    assert!(offer(&Settings::default()).tools.is_empty());
}

#[test]
fn document_of_a_url_is_kept_until_it_is_refreshed() {
    testing::clear_storage();
    let answer = |path: &'static str| {
        testing::respond_with(move |request| {
            let paths = json!({ path: { "get": { "operationId": "x" } } });
            let text = json!({ "openapi": "3.1.0", "servers": [{ "url": "https://a.example" }], "paths": paths,
                "info": { "description": "x".repeat(2_500_000) } });
            Ok(Response { status: 200, headers: vec![], body: text.to_string().into(), url: request.url.clone() })
        });
    };
    let api = Api { spec: "https://a.example/spec".into(), ..api() };
    let path = |age| source::document("a", &api, age).unwrap().operations[0].path.clone();
    answer("/one");
    assert_eq!(path(Age::Any), "/one");
    answer("/two");
    assert_eq!((path(Age::Any), path(Age::New), path(Age::Any)), ("/one".into(), "/two".into(), "/two".into()));
    let other = Api { spec: "https://a.example/other".into(), ..api.clone() };
    assert_eq!(source::document("a", &other, Age::Any).unwrap().operations[0].path, "/two");
}
