//! Compiling a component in a child process, within bounds of time and memory.
//!
//! Compiling is superlinear: a function of 5 MB of straight code took 40 s and 3.2 GB, and one of 20 KB with nested
//! loops 1.8 GB. So a component that did not come with this program is compiled in a child process, which limits its
//! own memory and processor time, and which is killed when it takes much longer than that, or when the caller stops
//! waiting for the result.
//!
//! The child is a command that the embedder names in its config; the component chooses no part of it. The child reads a
//! header, the component and functions that were compiled before from stdin, and writes compiled code and functions to
//! stdout; the end of stdin means that the caller stopped waiting.

use crate::engine::compile_alone;
use crate::functions::{Functions, MAX_BYTES as MAX_FUNCTIONS};
use pinion_plugin_limits::{EngineLimits, format_bytes};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// Seconds that may pass for each second of processor time that a compile may take: machines have other work, too.
const PATIENCE: u64 = 5;
/// Bytes of stderr that are read from a child.
const MAX_ERROR_BYTES: u64 = 4096;

/// The command that compiles components. Its program must call [`compile_for_parent`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// The result of a compile. Only a [`Compiler`] makes one, because its code is run without a check.
pub struct CompiledCode {
    code: Vec<u8>,
    /// The functions to keep for the next one; empty if there is nothing new.
    functions: Vec<u8>,
}

impl CompiledCode {
    /// The code of the component.
    pub(crate) fn code(&self) -> &[u8] {
        &self.code
    }

    /// The functions to keep for the next compile; empty if it added no functions.
    pub(crate) fn functions(&self) -> &[u8] {
        &self.functions
    }
}

/// A component was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The process could not be run.
    #[error("{message}")]
    Process {
        /// The step that failed.
        message: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// It takes more than a limit of the engine.
    #[error("{message}")]
    Limit {
        /// The limit.
        message: String,
        /// Its key in `[engine.limits]`.
        key: &'static str,
    },
    /// The compiler refused it, with this text.
    #[error("{0}")]
    Invalid(String),
}

impl Compiler {
    /// Compiles a component in a child process. Dropping the future kills it. `functions` come from earlier compiles;
    /// `None` for a component that shares no functions.
    ///
    /// # Errors
    /// It does not compile within the limits, or the process does not run.
    pub async fn compile(
        &self,
        bytes: &[u8],
        functions: Option<&[u8]>,
        limits: &EngineLimits,
    ) -> Result<CompiledCode, CompileError> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| CompileError::Process { message: "could not run the compiler", source: error })?;
        let deadline = Duration::from_secs(limits.compile_seconds.saturating_mul(PATIENCE));
        match tokio::time::timeout(deadline, exchange(&mut child, bytes, functions, limits)).await {
            Ok(code) => code,
            Err(_) => {
                let message = format!("compiling it takes more than {} s on this machine", deadline.as_secs());
                Err(CompileError::Limit { message, key: "compile-seconds" })
            }
        }
    }
}

/// Sends the component, and reads the code or the child's error.
async fn exchange(
    child: &mut Child,
    bytes: &[u8],
    functions: Option<&[u8]>,
    limits: &EngineLimits,
) -> Result<CompiledCode, CompileError> {
    let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let sending = async {
        let Some(stdin) = &mut stdin else { return };
        // A child that stops reading reports the reason on stderr.
        let _ = stdin.write_all(&CompilerHeader::new(bytes, functions, limits).to_bytes()).await;
        let _ = stdin.write_all(bytes).await;
        let _ = stdin.write_all(functions.unwrap_or_default()).await;
        let _ = stdin.flush().await;
    };
    let most = max_code_bytes(bytes.len()).saturating_add((CompilerHeader::FIELD + MAX_FUNCTIONS) as u64);
    let ((), output, error) = tokio::join!(sending, read(stdout, most), read(stderr, MAX_ERROR_BYTES));
    drop(stdin);
    let status = child
        .wait()
        .await
        .map_err(|error| CompileError::Process { message: "could not wait for the compiler", source: error })?;
    if status.success()
        && let Some(compiled) = split(output)
    {
        return Ok(compiled);
    }
    let error = String::from_utf8_lossy(&error);
    match ended_by(status) {
        Some(CPU_TIME) => {
            let message = format!("compiling it takes more than {} s of processor time", limits.compile_seconds);
            Err(CompileError::Limit { message, key: "compile-seconds" })
        }
        Some(_) => {
            let message =
                format!("compiling it takes more than {} of memory", format_bytes(limits.compile_memory_bytes));
            Err(CompileError::Limit { message, key: "compile-memory-bytes" })
        }
        None => Err(CompileError::Invalid(error.trim().to_owned())),
    }
}

/// Splits the output of a child: the length of the code, the code, and the functions.
fn split(mut output: Vec<u8>) -> Option<CompiledCode> {
    let length = usize::try_from(u64::from_le_bytes(*output.first_chunk()?)).ok()?;
    let end = CompilerHeader::FIELD.checked_add(length).filter(|end| length > 0 && *end <= output.len())?;
    let functions = output.split_off(end);
    output.drain(..CompilerHeader::FIELD);
    Some(CompiledCode { code: output, functions })
}

/// The number of SIGXCPU on every supported system.
const CPU_TIME: i32 = 24;

#[cfg(unix)]
fn ended_by(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn ended_by(_status: std::process::ExitStatus) -> Option<i32> {
    None
}

async fn read(from: Option<impl AsyncRead + Unpin>, at_most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // The status or the code shows when something is missing.
        let _ = from.take(at_most).read_to_end(&mut bytes).await;
    }
    bytes
}

/// The largest code that is accepted. CompiledCode code is usually 3 to 5 times as large as the component.
fn max_code_bytes(component: usize) -> u64 {
    (component as u64).saturating_mul(16).saturating_add(16 * 1024 * 1024)
}

/// The header that precedes a component on a child's stdin.
struct CompilerHeader {
    memory_bytes: u64,
    cpu_seconds: u64,
    component_bytes: u64,
    /// Bytes of functions; [`CompilerHeader::NO_FUNCTIONS`] to keep no functions.
    function_bytes: u64,
}

impl CompilerHeader {
    const FIELD: usize = 8;
    const BYTES: usize = 4 * Self::FIELD;
    const NO_FUNCTIONS: u64 = u64::MAX;

    fn new(component: &[u8], functions: Option<&[u8]>, limits: &EngineLimits) -> Self {
        Self {
            memory_bytes: limits.compile_memory_bytes,
            cpu_seconds: limits.compile_seconds.max(1),
            component_bytes: component.len() as u64,
            function_bytes: functions.map_or(Self::NO_FUNCTIONS, |functions| functions.len() as u64),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let fields = [self.memory_bytes, self.cpu_seconds, self.component_bytes, self.function_bytes];
        fields.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; Self::BYTES];
        from.read_exact(&mut bytes)?;
        let mut fields =
            bytes.chunks_exact(Self::FIELD).map(|field| u64::from_le_bytes(field.try_into().unwrap_or_default()));
        let mut field = || fields.next().unwrap_or_default();
        Ok(Self { memory_bytes: field(), cpu_seconds: field(), component_bytes: field(), function_bytes: field() })
    }
}

/// Performs the work of the child process that a [`Compiler`] names: reads a component from stdin, limits itself, and writes
/// compiled code to stdout. Ends the process when the parent closes its end of stdin.
///
/// # Errors
/// The component does not compile, or the parent is gone.
pub fn compile_for_parent() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut stdin = io::stdin().lock();
    let header = CompilerHeader::read(&mut stdin)?;
    limit_self(&header)?;
    let mut read = |bytes: u64| -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        let mut content = Vec::new();
        (&mut stdin).take(bytes).read_to_end(&mut content)?;
        if content.len() as u64 == bytes { Ok(content) } else { Err("the parent is gone".into()) }
    };
    let component = read(header.component_bytes)?;
    let functions = match header.function_bytes {
        CompilerHeader::NO_FUNCTIONS => None,
        bytes => Some(Arc::new(Functions::read(read(bytes)?))),
    };
    drop(stdin);
    std::thread::Builder::new().name("pinion-parent".to_owned()).spawn(end_with_parent)?;
    let code = compile_alone(&component, functions.clone())?;
    let mut out = io::stdout().lock();
    out.write_all(&(code.len() as u64).to_le_bytes())?;
    out.write_all(&code)?;
    out.write_all(&functions.and_then(|functions| functions.write()).unwrap_or_default())?;
    out.flush()?;
    Ok(())
}

fn end_with_parent() {
    // The parent writes nothing more; its end is closed when it exits or drops the load.
    while matches!(io::stdin().lock().read(&mut [0]), Ok(1..)) {}
    std::process::exit(1);
}

/// Limits memory and processor time of this process, where the system can. macOS does not enforce the limit on data; there
/// the deadline alone bounds a compile.
#[cfg(unix)]
fn limit_self(header: &CompilerHeader) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
    let lower = |resource, at_most: u64| {
        let maximum = getrlimit(resource).maximum.map_or(at_most, |maximum| maximum.min(at_most));
        setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) })
    };
    // Limit data, not address space: the engine reserves much more than it uses.
    lower(Resource::Data, header.memory_bytes)?;
    lower(Resource::Cpu, header.cpu_seconds)?;
    lower(Resource::Core, 0)?;
    // Interactive programs come first.
    let _ = nice(10);
    Ok(())
}

#[cfg(not(unix))]
fn limit_self(_header: &CompilerHeader) -> io::Result<()> {
    Ok(())
}
