//! Ports to the host: starting processes, keeping tokens, asking the user.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use pinion_protocol::FormSchema;
use secrecy::SecretString;
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use crate::config::ServerConfig;
use crate::http::HttpSettings;

/// Everything that [`Servers`](crate::Servers) needs from its host.
#[derive(Clone)]
pub struct Ports {
    /// Starts stdio servers.
    pub launcher: Arc<dyn Launcher>,
    /// Proxy and certificate authorities for servers over HTTP.
    pub http: HttpSettings,
    /// Directory of cached catalogues; created with mode 0700.
    pub cache: PathBuf,
    /// Directory of handles of tasks that have not ended; created with mode 0700.
    pub tasks: PathBuf,
    /// Keeps OAuth tokens.
    pub tokens: Arc<dyn TokenStore>,
    /// Answers servers' questions.
    pub person: Arc<dyn Person>,
    /// Address of a document that describes this client to authorization servers, unless the server's entry names one;
    /// `None` registers at each.
    pub client_metadata: Option<Url>,
    /// Directories for servers that ask for roots.
    pub workspace_roots: Vec<PathBuf>,
}

/// Starts the programs of stdio servers.
pub trait Launcher: Send + Sync {
    /// Starts the program of a server with [`Transport::Stdio`](crate::config::ServerTransport::Stdio).
    ///
    /// # Errors
    /// The program cannot be started.
    fn launch(&self, server: &ServerConfig) -> io::Result<LaunchedServer>;
}

/// A running stdio server.
pub struct LaunchedServer {
    /// Pipe to its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Pipe from its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Pipe from its standard error; the end of its text is kept for messages.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// The process.
    pub process: Box<dyn ServerProcess>,
}

/// The process of a stdio server. Dropping it kills the process with all its descendants.
pub trait ServerProcess: Send {
    /// Waits for the process to end and returns how, such as `exit status 1`.
    fn wait(&mut self) -> BoxFuture<'_, String>;
}

/// Value under a key of a [`TokenStore`].
#[derive(Clone, Debug)]
pub enum StoredToken {
    /// Nothing was saved.
    None,
    /// The value.
    Value(SecretString),
    /// There is a value that cannot be had now, for this reason, as in a locked keyring. Another one can be saved.
    Withheld(String),
}

/// Keeps OAuth credentials, which are opaque JSON. Every method takes a few seconds at most.
pub trait TokenStore: Send + Sync {
    /// Returns the value that was saved under a key. Called before each request to a server with a login.
    ///
    /// # Errors
    /// The store cannot be read.
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, io::Result<StoredToken>>;
    /// Saves under a key, replacing an earlier value.
    ///
    /// # Errors
    /// The store cannot be written.
    fn save<'a>(&'a self, key: &'a str, value: &'a SecretString) -> BoxFuture<'a, io::Result<()>>;
    /// Removes the value of a key. Returns whether it had one.
    ///
    /// # Errors
    /// The store cannot be written.
    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, io::Result<bool>>;
    /// Locks a key against all other processes until the result is dropped. Returns `None` while another one holds the
    /// lock. [`TokenStore::save`] works while the key is locked.
    ///
    /// # Errors
    /// The lock cannot be made.
    fn try_lock(&self, key: &str) -> io::Result<Option<Box<dyn Send>>>;
}

/// The user, whom servers ask for input. All texts come from the server and are not cleaned.
pub trait Person: Send + Sync {
    /// Returns whether questions reach a user. Otherwise, servers learn that no user can be asked.
    fn can_answer(&self) -> bool {
        true
    }
    /// Returns whether [`Person::sample`] works, for servers that want to use the model.
    fn can_sample(&self) -> bool {
        false
    }
    /// Asks for the values of a form.
    fn elicit_form<'a>(&'a self, server: &'a str, message: &'a str, form: &'a FormSchema) -> BoxFuture<'a, Elicited>;
    /// Asks to visit an address, such as one to pay at, and opens it if possible. The address may be hostile.
    fn elicit_url<'a>(&'a self, server: &'a str, message: &'a str, url: &'a Url) -> BoxFuture<'a, Elicited>;
    /// Asks whether the user has finished on a page that the request needs.
    fn is_done<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, bool>;
    /// Asks whether a server may send a request to the model.
    fn consent_to_sampling<'a>(&'a self, server: &'a str, summary: &'a str) -> BoxFuture<'a, bool>;
    /// Sends a `sampling/createMessage` request (its parameters as JSON) to the model and returns the result as JSON.
    fn sample<'a>(&'a self, server: &'a str, request: String) -> BoxFuture<'a, Result<String, String>>;
    /// Shows the address of a login page and opens it if possible. Returns the address that the login page redirected
    /// to, if the user enters it because the browser is on another machine, and `None` otherwise.
    fn open_login<'a>(&'a self, server: &'a str, page: &'a LoginPage) -> BoxFuture<'a, Option<String>>;
    /// Shows a code to enter on a page, which any device may open. Returns once it is shown.
    fn show_code<'a>(&'a self, server: &'a str, code: &'a LoginCode) -> BoxFuture<'a, ()>;
}

/// A page to log in on, which redirects to this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginPage {
    /// Address of the page, of the web; may be hostile otherwise.
    pub url: Url,
    /// The authorization server also supports [`LoginMethod::Device`].
    pub has_device_flow: bool,
}

/// A code that the user enters on a page, on any device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginCode {
    /// Address of the page, of the web; may be hostile otherwise.
    pub url: Url,
    /// Code to enter, as one line.
    pub code: String,
    /// Address that contains the code, if the authorization server has one.
    pub complete: Option<Url>,
    /// Time until the code is void.
    pub lifetime: Duration,
}

/// Ways for a user to log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoginMethod {
    /// A page that redirects to this machine.
    #[default]
    Browser,
    /// A code for a page on any device (RFC 8628).
    Device,
}

/// Answer of a user to a server's question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elicited {
    /// The user agreed; for a form, with its values as a JSON object.
    Accept(Option<String>),
    /// The user refused.
    Decline,
    /// The user closed the question.
    Cancel,
}

/// No user: declines everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPerson;

impl Person for NoPerson {
    fn can_answer(&self) -> bool {
        false
    }

    fn elicit_form<'a>(&'a self, _: &'a str, _: &'a str, _: &'a FormSchema) -> BoxFuture<'a, Elicited> {
        async { Elicited::Decline }.boxed()
    }

    fn elicit_url<'a>(&'a self, _: &'a str, _: &'a str, _: &'a Url) -> BoxFuture<'a, Elicited> {
        async { Elicited::Decline }.boxed()
    }

    fn is_done<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        async { false }.boxed()
    }

    fn consent_to_sampling<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        async { false }.boxed()
    }

    fn sample<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<String, String>> {
        async { Err("no user can consent".to_owned()) }.boxed()
    }

    fn open_login<'a>(&'a self, _: &'a str, _: &'a LoginPage) -> BoxFuture<'a, Option<String>> {
        async { None }.boxed()
    }

    fn show_code<'a>(&'a self, _: &'a str, _: &'a LoginCode) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }
}

/// Keeps tokens in memory, for tests and single commands.
#[derive(Debug, Default)]
pub struct MemoryTokens(std::sync::Mutex<std::collections::HashMap<String, SecretString>>);

impl MemoryTokens {
    fn lock(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<String, SecretString>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl TokenStore for MemoryTokens {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, io::Result<StoredToken>> {
        async { Ok(self.lock().get(key).cloned().map_or(StoredToken::None, StoredToken::Value)) }.boxed()
    }

    fn save<'a>(&'a self, key: &'a str, value: &'a SecretString) -> BoxFuture<'a, io::Result<()>> {
        async {
            self.lock().insert(key.to_owned(), value.clone());
            Ok(())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        async { Ok(self.lock().remove(key).is_some()) }.boxed()
    }

    /// Only this process knows these tokens.
    fn try_lock(&self, _: &str) -> io::Result<Option<Box<dyn Send>>> {
        Ok(Some(Box::new(())))
    }
}
