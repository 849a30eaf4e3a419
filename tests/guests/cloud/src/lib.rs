//! Functions over the interfaces that components of Spin and wasmCloud import.

use wasi::config::store as config;
use wasi::keyvalue0_2_0_draft as first;
use wasi::keyvalue0_2_0_draft2 as second;
use wasi::logging::logging::{Level, log};

wit_bindgen::generate!({ world: "cloud", path: "wit", generate_all });

struct Cloud;

macro_rules! words {
    ($error:ident) => {
        |error: $error::store::Error| match error {
            $error::store::Error::NoSuchStore => "no such store".to_owned(),
            $error::store::Error::AccessDenied => "access denied".to_owned(),
            $error::store::Error::Other(text) => text,
        }
    };
}

fn keep(key: &str, value: &str) -> Result<Vec<String>, first::store::Error> {
    let bucket = first::store::open("default")?;
    bucket.set(key, value.as_bytes())?;
    assert!(bucket.exists(key)? && bucket.get(key)? == Some(value.as_bytes().to_vec()));
    first::batch::set_many(&bucket, &[("x".to_owned(), vec![1]), ("y".to_owned(), vec![2])])?;
    let many = first::batch::get_many(&bucket, &["x".to_owned(), "missing".to_owned()])?;
    assert!(many == [Some(("x".to_owned(), vec![1])), None]);
    first::batch::delete_many(&bucket, &["x".to_owned()])?;
    bucket.delete("y")?;
    let page = bucket.list_keys(None)?;
    assert!(page.cursor.is_none() && bucket.list_keys(Some(3))?.keys.is_empty());
    Ok(page.keys)
}

fn keep_in_spin(key: &str, value: &str, delta: i64) -> Result<Vec<String>, second::store::Error> {
    let bucket = second::store::open("")?;
    bucket.set(key, value.as_bytes())?;
    let many = second::batch::get_many(&bucket, &[key.to_owned(), "missing".to_owned()])?;
    assert!(many == [(key.to_owned(), Some(value.as_bytes().to_vec())), ("missing".to_owned(), None)]);
    second::atomics::increment(&bucket, "sum", delta)?;
    let page = bucket.list_keys(None)?;
    assert!(page.cursor.is_none() && bucket.list_keys(page.keys.last().map(String::as_str))?.keys.is_empty());
    Ok(page.keys)
}

impl Guest for Cloud {
    fn setting(name: String) -> Option<String> {
        log(Level::Info, "cloud", &format!("looks up {name}\u{1b}[2J"));
        config::get(&name).ok().flatten()
    }

    fn settings() -> Vec<String> {
        config::get_all().unwrap_or_default().into_iter().map(|(name, _)| name).collect()
    }

    fn count(bucket: String, key: String) -> Result<u64, String> {
        let bucket = first::store::open(&bucket).map_err(words!(first))?;
        first::atomics::increment(&bucket, &key, 1).map_err(words!(first))
    }

    fn keep(key: String, value: String) -> Result<Vec<String>, String> {
        keep(&key, &value).map_err(words!(first))
    }

    fn keep_in_spin(key: String, value: String, delta: i64) -> Result<Vec<String>, String> {
        keep_in_spin(&key, &value, delta).map_err(words!(second))
    }

    fn read_many(key: String, times: u32) -> Result<u32, String> {
        let bucket = second::store::open("default").map_err(words!(second))?;
        let keys = vec![key; times as usize];
        let found = second::batch::get_many(&bucket, &keys).map_err(words!(second))?;
        Ok(u32::try_from(found.len()).unwrap())
    }
}

export!(Cloud);
