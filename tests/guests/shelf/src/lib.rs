//! Resources that change: a book with another text, pages that are added, and a counter that writes a file.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::{Resource, offers_host};
use std::sync::Mutex;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Default)]
struct Shelf {
    book: Vec<String>,
    pages: Vec<String>,
}

static SHELF: Mutex<Shelf> = Mutex::new(Shelf { book: Vec::new(), pages: Vec::new() });

struct Bookshelf;

impl Plugin for Bookshelf {
    fn tools() -> Vec<Tool> {
        let shelf = SHELF.lock().unwrap();
        let book = shelf.book.last().cloned().unwrap_or_default();
        let version = Resource::new("shelf://book").version(format!("{} texts", shelf.book.len())).only();
        let mut tools = vec![
            Tool::new("shelve", "Puts another text into the book.", |Text { text }: Text, _| {
                SHELF.lock().unwrap().book.push(text);
                offers_host::changed();
                Ok("shelved")
            }),
            Tool::new("add_page", "Adds a page.", |Text { text }: Text, _| {
                SHELF.lock().unwrap().pages.push(text);
                offers_host::changed();
                Ok("added")
            }),
            Tool::new("book", "The book.", move |_: Nothing, _| Ok(book.clone())).resource(version),
            Tool::new("visits", "Counts the visits.", visits).writes().resource(Resource::new("shelf://visits").only()),
        ];
        tools.extend(shelf.pages.iter().cloned().map(|page| {
            let resource = Resource::new(format!("shelf://{page}")).only();
            Tool::new(format!("page_{page}"), "A page.", move |_: Nothing, _| Ok(page.clone())).resource(resource)
        }));
        tools
    }
}

fn visits(_: Nothing, call: &Call) -> Result<String> {
    let path = call.path("visits")?;
    let visits = std::fs::read_to_string(&path).map_or(0, |visits| visits.len()) + 1;
    std::fs::write(path, "x".repeat(visits))?;
    Ok(format!("{visits} visits"))
}

export!(Bookshelf, exports = [tools, offers], asks = { "files": "write" }, lifetime = "session");
