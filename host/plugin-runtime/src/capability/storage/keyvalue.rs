//! The import `wasi:keyvalue`: values of `storage`, under the same grant and quota.
//!
//! The packages are drafts, whose versions are compared exactly, so each version in use is linked by name: `draft` of
//! wasmCloud and `draft2` of Spin. The bucket `default` has the plugin's values, and `workspace` and `session` have the values
//! of these scopes. A denied operation returns `access-denied`; the reason, which that error cannot carry, is in the log.

use crate::bindings::pinion::plugin::log::{Host as _, Level};
use crate::bindings::pinion::plugin::storage::{Host as _, Scope, StorageError};
use crate::calls::state::State;
use pinion_plugin_journal::linker::{Linker, LinkerInstance};
use pinion_plugin_journal::value::EncodeValue;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lower, Resource, ResourceType};

/// The linked interfaces.
pub(crate) const INTERFACES: [&str; 6] = [
    "wasi:keyvalue/store@0.2.0-draft",
    "wasi:keyvalue/batch@0.2.0-draft",
    "wasi:keyvalue/atomics@0.2.0-draft",
    "wasi:keyvalue/store@0.2.0-draft2",
    "wasi:keyvalue/batch@0.2.0-draft2",
    "wasi:keyvalue/atomics@0.2.0-draft2",
];
/// Keys of one page.
const PAGE: u32 = 1_000;
/// Bytes of the values that are read together.
const MAX_TOGETHER: usize = 64 << 20;
/// Attempts to increment a value that other calls change.
const MAX_ATTEMPTS: usize = 64;

/// An open bucket.
struct OpenBucket {
    scope: Scope,
}

/// The error of the interface.
#[derive(ComponentType, Lower)]
#[component(variant)]
enum BucketError {
    #[component(name = "no-such-store")]
    NoSuchStore,
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "other")]
    Other(String),
}

impl EncodeValue for BucketError {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::NoSuchStore => out.push(0),
            Self::AccessDenied => out.push(1),
            Self::Other(text) => {
                out.push(2);
                text.encode(out);
            }
        }
    }
}

/// A page of keys, whose cursor is a number in `draft` and a text in `draft2`.
#[derive(ComponentType, Lower)]
#[component(record)]
struct KeyPage<C> {
    keys: Vec<String>,
    cursor: Option<C>,
}

impl<C: EncodeValue> EncodeValue for KeyPage<C> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.keys.encode(out);
        self.cursor.encode(out);
    }
}

type BucketAnswer<T> = Result<T, BucketError>;
type KeyAndValue = (String, Vec<u8>);
type CallStore<'a> = StoreContextMut<'a, State>;

/// Links `store`, `batch` and `increment` of both versions. Without `swap`, whose types differ between copies of `draft2`.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let [store, batch, atomics, store2, batch2, atomics2] = INTERFACES;
    for (store, batch) in [(store, batch), (store2, batch2)] {
        link_bucket(&mut linker.instance(store)?)?;
        link_changes(&mut linker.instance(batch)?)?;
    }
    link_numbered_pages(&mut linker.instance(store)?)?;
    link_named_pages(&mut linker.instance(store2)?)?;
    link_pairs(&mut linker.instance(batch)?)?;
    link_keyed_values(&mut linker.instance(batch2)?)?;
    link_unsigned_increment(&mut linker.instance(atomics)?)?;
    link_signed_increment(&mut linker.instance(atomics2)?)
}

fn link_bucket(store: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    store.resource("bucket", ResourceType::host::<OpenBucket>(), |mut store: CallStore<'_>, rep| {
        store.data_mut().table.delete(Resource::<OpenBucket>::new_own(rep))?;
        Ok(())
    })?;
    store.func_wrap("open", |mut store: CallStore<'_>, (name,): (String,)| Ok((open(store.data_mut(), &name)?,)))?;
    store.func_wrap_async(
        "[method]bucket.get",
        |mut store: CallStore<'_>, (bucket, key): (Resource<OpenBucket>, String)| {
            Box::new(async move { Ok((get(store.data_mut(), &bucket, key).await?,)) })
        },
    )?;
    store.func_wrap_async(
        "[method]bucket.exists",
        |mut store: CallStore<'_>, (bucket, key): (Resource<OpenBucket>, String)| {
            Box::new(async move {
                let found = get(store.data_mut(), &bucket, key).await?;
                Ok((found.map(|found| found.is_some()),))
            })
        },
    )?;
    store.func_wrap_async(
        "[method]bucket.set",
        |mut store: CallStore<'_>, (bucket, key, value): (Resource<OpenBucket>, String, Vec<u8>)| {
            Box::new(async move { Ok((set(store.data_mut(), &bucket, key, value).await?,)) })
        },
    )?;
    store.func_wrap_async(
        "[method]bucket.delete",
        |mut store: CallStore<'_>, (bucket, key): (Resource<OpenBucket>, String)| {
            Box::new(async move { Ok((delete(store.data_mut(), &bucket, key).await?,)) })
        },
    )
}

fn link_numbered_pages(store: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    store.func_wrap_async(
        "[method]bucket.list-keys",
        |mut store: CallStore<'_>, (bucket, cursor): (Resource<OpenBucket>, Option<u64>)| {
            Box::new(async move {
                let (state, wanted) = (store.data_mut(), cursor.unwrap_or(0));
                // The cursor counts pages, each of which begins after the last key of the one before.
                let mut after = None;
                for page in 0..=wanted {
                    let keys = match keys(state, &bucket, after).await? {
                        Ok(keys) => keys,
                        Err(error) => return Ok((Err(error),)),
                    };
                    let is_full = keys.len() == PAGE as usize;
                    if page == wanted {
                        return Ok((Ok(KeyPage { keys, cursor: is_full.then_some(page + 1) }),));
                    }
                    if !is_full {
                        break;
                    }
                    after = keys.last().cloned();
                }
                Ok((BucketAnswer::Ok(KeyPage { keys: Vec::new(), cursor: None }),))
            })
        },
    )
}

fn link_named_pages(store: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    store.func_wrap_async(
        "[method]bucket.list-keys",
        |mut store: CallStore<'_>, (bucket, cursor): (Resource<OpenBucket>, Option<String>)| {
            Box::new(async move {
                let page = keys(store.data_mut(), &bucket, cursor).await?;
                let cursor = |keys: &[String]| keys.last().filter(|_| keys.len() == PAGE as usize).cloned();
                Ok((page.map(|keys| KeyPage { cursor: cursor(&keys), keys }),))
            })
        },
    )
}

/// Links the functions of `batch` that both versions share.
fn link_changes(batch: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    batch.func_wrap_async(
        "set-many",
        |mut store: CallStore<'_>, (bucket, pairs): (Resource<OpenBucket>, Vec<KeyAndValue>)| {
            Box::new(async move {
                for (key, value) in pairs {
                    if let Err(error) = set(store.data_mut(), &bucket, key, value).await? {
                        return Ok((Err(error),));
                    }
                }
                Ok((BucketAnswer::Ok(()),))
            })
        },
    )?;
    batch.func_wrap_async(
        "delete-many",
        |mut store: CallStore<'_>, (bucket, keys): (Resource<OpenBucket>, Vec<String>)| {
            Box::new(async move {
                for key in keys {
                    if let Err(error) = delete(store.data_mut(), &bucket, key).await? {
                        return Ok((Err(error),));
                    }
                }
                Ok((BucketAnswer::Ok(()),))
            })
        },
    )
}

fn link_pairs(batch: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    batch.func_wrap_async(
        "get-many",
        |mut store: CallStore<'_>, (bucket, keys): (Resource<OpenBucket>, Vec<String>)| {
            Box::new(async move {
                let found = get_many(store.data_mut(), &bucket, keys).await?;
                let pair = |(key, value): (String, Option<Vec<u8>>)| Some((key, value?));
                Ok((found.map(|found| found.into_iter().map(pair).collect::<Vec<Option<KeyAndValue>>>()),))
            })
        },
    )
}

fn link_keyed_values(batch: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    batch.func_wrap_async(
        "get-many",
        |mut store: CallStore<'_>, (bucket, keys): (Resource<OpenBucket>, Vec<String>)| {
            Box::new(async move { Ok((get_many(store.data_mut(), &bucket, keys).await?,)) })
        },
    )
}

fn link_unsigned_increment(atomics: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    atomics.func_wrap_async(
        "increment",
        |mut store: CallStore<'_>, (bucket, key, delta): (Resource<OpenBucket>, String, u64)| {
            Box::new(async move {
                let sum = increment(store.data_mut(), &bucket, &key, i128::from(delta)).await?;
                Ok((sum.and_then(|sum| u64::try_from(sum).map_err(|_| out_of_range())),))
            })
        },
    )
}

fn link_signed_increment(atomics: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    atomics.func_wrap_async(
        "increment",
        |mut store: CallStore<'_>, (bucket, key, delta): (Resource<OpenBucket>, String, i64)| {
            Box::new(async move { Ok((increment(store.data_mut(), &bucket, &key, i128::from(delta)).await?,)) })
        },
    )
}

fn open(state: &mut State, name: &str) -> wasmtime::Result<BucketAnswer<Resource<OpenBucket>>> {
    let scope = match name {
        "" | "default" => Scope::Plugin,
        "workspace" => Scope::Workspace,
        "session" => Scope::Session,
        _ => return Ok(Err(BucketError::NoSuchStore)),
    };
    let allowed = state.storage(scope).map(drop).map_err(StorageError::from);
    Ok(match answer(state, allowed)? {
        Ok(()) => Ok(state.table.push(OpenBucket { scope })?),
        Err(error) => Err(error),
    })
}

async fn get(
    state: &mut State,
    bucket: &Resource<OpenBucket>,
    key: String,
) -> wasmtime::Result<BucketAnswer<Option<Vec<u8>>>> {
    let scope = state.table.get(bucket)?.scope;
    let found = state.get(scope, key).await?;
    answer(state, found.map(|found| found.map(|stored| stored.value)))
}

/// Reads values that the guest gets together. Their memory counts as memory of the plugin's calls.
async fn get_many(
    state: &mut State,
    bucket: &Resource<OpenBucket>,
    keys: Vec<String>,
) -> wasmtime::Result<BucketAnswer<Vec<(String, Option<Vec<u8>>)>>> {
    let mut reserved = state.limiter.reserve();
    let (mut found, mut bytes) = (Vec::new(), 0);
    for key in keys {
        let value = match get(state, bucket, key.clone()).await? {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        };
        let length = value.as_ref().map_or(0, Vec::len);
        bytes += length;
        if bytes > MAX_TOGETHER || !reserved.add(length as u64) {
            let text = "the values do not fit into the memory of the plugin's calls, or have more than 64 MiB";
            return Ok(Err(BucketError::Other(text.to_owned())));
        }
        found.push((key, value));
    }
    Ok(Ok(found))
}

async fn set(
    state: &mut State,
    bucket: &Resource<OpenBucket>,
    key: String,
    value: Vec<u8>,
) -> wasmtime::Result<BucketAnswer<()>> {
    let scope = state.table.get(bucket)?.scope;
    let written = state.set(scope, key, value).await?;
    answer(state, written.map(drop))
}

async fn delete(state: &mut State, bucket: &Resource<OpenBucket>, key: String) -> wasmtime::Result<BucketAnswer<()>> {
    let scope = state.table.get(bucket)?.scope;
    let removed = state.remove(scope, key).await?;
    answer(state, removed)
}

async fn keys(
    state: &mut State,
    bucket: &Resource<OpenBucket>,
    after: Option<String>,
) -> wasmtime::Result<BucketAnswer<Vec<String>>> {
    let scope = state.table.get(bucket)?.scope;
    let keys = state.keys(scope, String::new(), after, PAGE).await?;
    answer(state, keys)
}

/// Adds to a number that is stored as its digits. Another call that changes it meanwhile causes another attempt.
async fn increment(
    state: &mut State,
    bucket: &Resource<OpenBucket>,
    key: &str,
    delta: i128,
) -> wasmtime::Result<BucketAnswer<i64>> {
    let scope = state.table.get(bucket)?.scope;
    for _ in 0..MAX_ATTEMPTS {
        let stored = state.get(scope, key.to_owned()).await?;
        let (number, version) = match answer(state, stored)? {
            Ok(None) => (Some(0), None),
            Ok(Some(stored)) => {
                let digits = std::str::from_utf8(&stored.value).ok();
                (digits.and_then(|digits| digits.parse::<i64>().ok()), Some(stored.version))
            }
            Err(error) => return Ok(Err(error)),
        };
        let Some(number) = number else {
            return Ok(Err(BucketError::Other(format!("the value of `{key}` is not a number"))));
        };
        let Ok(sum) = i64::try_from(i128::from(number) + delta) else { return Ok(Err(out_of_range())) };
        match state.replace(scope, key.to_owned(), version, sum.to_string().into_bytes()).await? {
            Ok(_) => return Ok(Ok(sum)),
            Err(StorageError::Changed) => {}
            Err(error) => return answer(state, Err(error)),
        }
    }
    Ok(Err(BucketError::Other(format!("other calls change `{key}` all the time"))))
}

fn out_of_range() -> BucketError {
    BucketError::Other("the number is out of range".to_owned())
}

/// Converts an error. The reason of a denial is logged.
fn answer<T>(state: &mut State, result: Result<T, StorageError>) -> wasmtime::Result<BucketAnswer<T>> {
    Ok(Err(match result {
        Ok(value) => return Ok(Ok(value)),
        Err(StorageError::Denied(text)) => {
            state.log(Level::Warn, text)?;
            BucketError::AccessDenied
        }
        Err(StorageError::Invalid(text) | StorageError::Io(text)) => BucketError::Other(text),
        Err(StorageError::QuotaExceeded(left)) => {
            BucketError::Other(format!("the value does not fit: {left} bytes are left"))
        }
        Err(StorageError::Changed) => BucketError::Other("the value was changed by another call".to_owned()),
    }))
}
