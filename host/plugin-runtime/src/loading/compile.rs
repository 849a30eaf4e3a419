//! The step of loading that turns bytes into machine code, through the cache where it can.
//!
//! A component that is not part of this program is compiled in a child process where the embedder names one, see
//! [`Compiler`]. Without one, only components of moderate [`Weight`] are compiled, on a thread.

use crate::load_error::LoadError;
use crate::loading::source::PluginSource;
use crate::loading::{alone, blocking};
use crate::runtime_shared::Shared;
use pinion_plugin_engine::{Compiler, Sharing};
use pinion_plugin_limits::component_sizes::Weight;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use wasmtime::component::Component;

/// Time before a compile is announced.
const SLOW: Duration = Duration::from_secs(2);

/// Looks up a compiled component in the cache. Blocks.
pub(crate) fn cached(shared: &Shared, digest: &blake3::Hash) -> Option<Component> {
    shared.cache.as_ref().and_then(|cache| cache.load(&shared.engine, digest))
}

/// A component to compile.
pub(crate) struct CompileJob<'a> {
    pub(crate) source: &'a PluginSource,
    pub(crate) bytes: Cow<'static, [u8]>,
    pub(crate) digest: blake3::Hash,
    /// The number of the generation that it is compiled for.
    pub(crate) number: u32,
}

impl CompileJob<'_> {
    fn is_built_in(&self) -> bool {
        matches!(self.source, PluginSource::BuiltIn { .. })
    }
}

/// Compiles a component, and puts the code into the cache. Calls `announce` if that takes long, except for a built-in
/// plugin, which is small. Dropping the future ends the process that compiles.
pub(crate) async fn compiled(
    shared: &Arc<Shared>,
    job: CompileJob<'_>,
    announce: impl FnOnce(),
) -> Result<Component, LoadError> {
    let is_built_in = job.is_built_in();
    let compiling = compile(shared, job);
    tokio::pin!(compiling);
    tokio::select! {
        biased;
        compiled = &mut compiling => return compiled,
        () = sleep(SLOW), if !is_built_in => announce(),
    }
    compiling.await
}

/// Compiles a component. When several processes need it at once, one compiles it.
async fn compile(shared: &Arc<Shared>, job: CompileJob<'_>) -> Result<Component, LoadError> {
    let digest = job.digest;
    let _turn = match &shared.cache {
        Some(cache) => cache.turn_to_compile(&shared.engine, &digest).await,
        None => None,
    };
    let looking = shared.clone();
    if let Some(component) = blocking(move || Ok(cached(&looking, &digest))).await? {
        return Ok(component);
    }
    tracing::debug!(digest = %digest.to_hex(), "compiling a component");
    match &shared.compiler {
        Some(compiler) if !job.is_built_in() => in_child(shared, compiler, &job).await,
        _ => in_process(shared, job).await,
    }
}

async fn in_process(shared: &Arc<Shared>, job: CompileJob<'_>) -> Result<Component, LoadError> {
    let is_built_in = job.is_built_in();
    let CompileJob { bytes, digest, .. } = job;
    let permit = shared.permits.compiling().await;
    let shared = shared.clone();
    alone(move || {
        // The thread holds the permit until it ends, even after its caller stops waiting.
        let _permit = permit;
        if !is_built_in && !Weight::from_component(&bytes).is_moderate() {
            return Err(LoadError::Limit("compiling it in this process would take too long".to_owned()));
        }
        let component = shared.engine.compile(&bytes).map_err(compile_error)?;
        if let Some(cache) = &shared.cache {
            cache.store(&shared.engine, &digest, &component);
        }
        Ok(component)
    })
    .await
}

async fn in_child(shared: &Arc<Shared>, compiler: &Compiler, job: &CompileJob<'_>) -> Result<Component, LoadError> {
    // Counted apart from compiles in this process, so that light components never wait for heavy ones.
    let _permit = shared.permits.compiling_apart().await;
    let sharing = Sharing::from_component(&job.bytes, job.source.cache_name(), job.number);
    let (looking, sharing_now) = (shared.clone(), sharing.clone());
    let known = blocking(move || {
        let cache = looking.cache.as_ref().zip(sharing_now.as_ref());
        Ok(cache.map(|(cache, sharing)| cache.load_functions(&looking.engine, sharing)))
    })
    .await?;
    let compiled = compiler.compile(&job.bytes, known.as_deref(), &shared.limits.engine).await?;
    let (shared, digest) = (shared.clone(), job.digest);
    blocking(move || {
        let component = shared.engine.load_compiled(&compiled).map_err(compile_error)?;
        if let Some(cache) = &shared.cache {
            if let Some(sharing) = sharing {
                cache.store_functions(&shared.engine, &sharing, &compiled);
            }
            cache.store_compiled(&shared.engine, &digest, &compiled);
        }
        Ok(component)
    })
    .await
}

fn compile_error(error: wasmtime::Error) -> LoadError {
    LoadError::link("could not compile the component", error)
}
