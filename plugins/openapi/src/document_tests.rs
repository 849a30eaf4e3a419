use super::*;
use proptest::prelude::*;

pub(crate) fn api() -> Api {
    Api {
        spec: String::new(),
        base_url: None,
        credential: None,
        operations: None,
        tags: None,
        path_prefix: None,
        headers: Default::default(),
        max_response_bytes: 1_000,
    }
}

const YAML: &str = "
openapi: 3.0.3
servers: [{url: 'https://pets.example/v1/'}]
paths:
  /pets/{id}:
    parameters:
      - {$ref: '#/components/parameters/id'}
    get:
      operationId: getPet
      summary: Returns a pet.
      tags: [read]
      parameters:
        - {name: verbose, in: query, schema: {type: boolean}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: Authorization, in: header, schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
    put:
      operationId: putPet
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Pet'}
    delete: {summary: has no name}
components:
  parameters:
    id: {name: id, in: path, required: true, description: The pet., schema: {type: string}}
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: {type: string, nullable: true}
        parent: {$ref: '#/components/schemas/Pet'}
        elsewhere: {$ref: 'https://evil.example/schema.json'}
";

fn document(api: &Api) -> Document {
    Document::read(YAML, api).unwrap()
}

fn ids(api: &Api) -> Vec<String> {
    document(api).operations.into_iter().map(|operation| operation.id).collect()
}

#[test]
fn yaml_and_json_give_the_same_operations() {
    let yaml = document(&api());
    let json = yaml::parse(YAML).unwrap().to_string();
    let json = Document::read(&format!("\n {json}"), &api()).unwrap();
    assert_eq!(format!("{yaml:?}"), format!("{json:?}"));
    assert_eq!((yaml.base.as_str(), yaml.nameless, yaml.operations.len()), ("https://pets.example/v1", 1, 2));
}

#[test]
fn parameters_are_classified_and_references_followed() {
    let document = document(&api());
    let [get, put] = document.operations.as_slice() else { panic!() };
    let place = |name: &str, place| (name.to_owned(), place);
    assert_eq!(
        get.arguments,
        [place("verbose", Place::Query), place("X-Trace", Place::Header), place("id", Place::Path)]
    );
    assert_eq!((get.method.as_str(), get.path.as_str()), ("GET", "/pets/{id}"));
    assert_eq!(get.description, "GET /pets/{id}: Returns a pet.");
    assert_eq!(get.input.schema["properties"]["id"], json!({ "type": "string", "description": "The pet." }));
    assert_eq!(get.input.schema["required"], json!(["id"]));
    assert_eq!(put.arguments, [place("id", Place::Path), place("body", Place::Body)]);
    let pet = &put.input.schema["properties"]["body"];
    assert_eq!(pet["properties"], json!({ "name": { "type": ["string", "null"] }, "parent": {}, "elsewhere": {} }));
    assert_eq!(put.input.schema["required"], json!(["id", "body"]));
}

#[test]
fn filters_select_operations() {
    assert_eq!(ids(&api()), ["getPet", "putPet"]);
    assert_eq!(ids(&Api { operations: Some(vec!["putPet".into()]), ..api() }), ["putPet"]);
    assert_eq!(ids(&Api { tags: Some(vec!["read".into()]), ..api() }), ["getPet"]);
    assert_eq!(ids(&Api { path_prefix: Some("/pets".into()), ..api() }).len(), 2);
    assert!(ids(&Api { path_prefix: Some("/x".into()), ..api() }).is_empty());
}

#[test]
fn body_gives_way_to_a_parameter_of_its_name() {
    let text = json!({ "openapi": "3.1.0", "paths": { "/x": { "post": { "operationId": "x",
        "parameters": [{ "name": "body", "in": "query", "schema": {} }],
        "requestBody": { "content": { "application/json; charset=utf-8": {}, "text/plain": {} } } } } } });
    let api = Api { base_url: Some("https://a.example".into()), ..api() };
    let document = Document::read(&text.to_string(), &api).unwrap();
    let places: Vec<_> = document.operations[0].arguments.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(places, ["body", "_request_body"]);
}

#[test]
fn documents_that_are_none_are_refused_with_the_reason() {
    for (text, reason) in [
        ("{", "not JSON"),
        ("a: [", "not YAML"),
        ("swagger: '2.0'", "openapi: 3."),
        ("openapi: 3.1.0", "base-url"),
        ("openapi: 3.1.0\nservers: [{url: /v1}]", "base-url"),
        ("openapi: 3.1.0\nservers: [{url: 'https://{host}/'}]", "base-url"),
    ] {
        let error = Document::read(text, &api()).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
    assert!(Document::read(&"x".repeat(MAX_BYTES + 1), &api()).unwrap_err().contains("larger"));
}

#[test]
fn hostile_schemas_stay_within_bounds() {
    // Each schema contains the next one ten times.
    let mut schemas = Map::new();
    for level in 0..20 {
        let next = json!({ "$ref": format!("#/components/schemas/S{}", level + 1) });
        let properties: Map<String, Value> = (0..10).map(|at| (format!("p{at}"), next.clone())).collect();
        schemas.insert(format!("S{level}"), json!({ "type": "object", "properties": properties }));
    }
    let text = json!({ "openapi": "3.1.0", "servers": [{ "url": "https://a.example" }],
        "components": { "schemas": schemas, "parameters": { "loop": { "$ref": "#/components/parameters/loop" } } },
        "paths": { "/x": { "post": { "operationId": "x\u{1b}[2J", "summary": "a\u{202e}b",
            "parameters": [{ "$ref": "#/components/parameters/loop" }],
            "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/S0" } } } } } } } });
    let document = Document::read(&text.to_string(), &api()).unwrap();
    let operation = &document.operations[0];
    assert!(operation.input.schema.to_string().len() <= 24 * 1024);
    assert_eq!(operation.description.lines().next(), Some("POST /x: a\u{fffd}b"));
}

proptest! {
    #[test]
    fn any_document_is_read_or_refused(text in "(openapi: 3.1.0\n|paths:\n|  /a:\n|    get:\n|      operationId: x\n|\\PC{0,8}\n){0,12}") {
        let _ = Document::read(&text, &api());
    }
}
