//! Logging in to a provider with a browser, which gives a key: `pinion login --browser`, and the setup of a first
//! conversation.

use crate::product::command::assert_error;
use crate::product::providers::{Vendor, answer, ended};
use pinion_tests::{Ended, Pinion, Terminal};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

const KEY: &str = "sk-or-v1-Zq7Xw3Vb9Nm2Kp5Ld8Rt";

/// Answers the exchange of a code, and gives the command the address.
fn vendor(pinion: &Pinion, status: &str, body: &str) -> Vendor {
    let vendor = Vendor::answering(vec![answer(status, "application/json", body)]);
    pinion.config(&format!("[providers.openrouter]\nbase-url = '{}/api/v1'\n", vendor.url));
    vendor
}

/// `pinion login openrouter --browser` while it waits for the user.
struct Waiting {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The address that the page redirects to.
    redirect: String,
    page: String,
}

impl Waiting {
    fn begin(pinion: &Pinion) -> Self {
        let mut command = pinion.command(["login", "openrouter", "--browser"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut page = String::new();
        while !page.starts_with("https://") {
            page.clear();
            assert_ne!(stderr.read_line(&mut page).unwrap(), 0, "the login ended");
        }
        Self { child, stderr, redirect: redirect(&page), page: page.trim().to_owned() }
    }

    fn end(mut self) -> Ended {
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).unwrap();
        let output = self.child.wait_with_output().unwrap();
        Ended { code: output.status.code(), stdout: String::from_utf8(output.stdout).unwrap(), stderr }
    }
}

/// Returns the address that a login page redirects to.
fn redirect(page: &str) -> String {
    let page = page.trim().split_once("callback_url=").unwrap().1.split('&').next().unwrap();
    page.replace("%3A", ":").replace("%2F", "/")
}

/// Follows a redirect as a browser does, and returns the status.
fn open(address: &str) -> String {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let port = host.strip_prefix("localhost:").unwrap();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

fn auth_file(pinion: &Pinion) -> PathBuf {
    pinion.home().join("auth.toml")
}

#[test]
fn login_with_a_browser_stores_the_key() {
    let pinion = Pinion::default();
    let vendor = vendor(&pinion, "200 OK", &format!(r#"{{"key":"{KEY}","user_id":"u"}}"#));
    let waiting = Waiting::begin(&pinion);
    assert!(waiting.page.starts_with("https://openrouter.ai/auth?callback_url="), "{}", waiting.page);
    assert!(waiting.page.contains("&code_challenge=") && waiting.page.ends_with("&code_challenge_method=S256"));
    // Pages that do not know the path cannot end the login.
    let guess = waiting.redirect.rsplit_once('/').unwrap().0.to_owned();
    assert_eq!(open(&format!("{guess}?code=forged-code")), "404");
    assert_eq!(open(&format!("{}?code=the-code-1", waiting.redirect)), "200");
    let ended = waiting.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("stored the key of openrouter in `"), "{ended:?}");
    assert!(!ended.stderr.contains("the-code-1") && !format!("{ended:?}").contains(KEY), "{ended:?}");
    assert_eq!(std::fs::read_to_string(auth_file(&pinion)).unwrap(), format!("[openrouter]\nkey = \"{KEY}\"\n"));
    let (asked, bodies) = (vendor.asked.lock().unwrap(), vendor.bodies.lock().unwrap());
    assert!(asked.len() == 1 && asked[0].starts_with("post /api/v1/auth/keys http/1.1\r\n"), "{asked:?}");
    assert!(bodies[0].contains(r#""code":"the-code-1""#) && bodies[0].contains("code_verifier"), "{bodies:?}");
}

#[test]
fn refused_login_says_why_and_stores_nothing() {
    let pinion = Pinion::default();
    let refusal = r#"{"error":{"code":403,"message":"Invalid code the-code-1"}}"#;
    let vendor = vendor(&pinion, "403 Forbidden", refusal);
    let waiting = Waiting::begin(&pinion);
    assert_eq!(open(&format!("{}?code=the-code-1", waiting.redirect)), "200");
    let ended = waiting.end();
    assert_error(&ended, 1, &["openrouter gave no key for the login", "HTTP 403", "Invalid code"]);
    assert!(!ended.stderr.contains("the-code-1"), "{ended:?}");
    let waiting = Waiting::begin(&pinion);
    assert_eq!(open(&format!("{}?error=access_denied&error_description=not+today", waiting.redirect)), "200");
    assert_error(&waiting.end(), 1, &["the login to openrouter was refused: not today"]);
    assert_eq!(vendor.asked.lock().unwrap().len(), 1);
    assert!(!auth_file(&pinion).exists());
    assert_error(&pinion.run(["login", "groq", "--browser"]), 2, &["`groq` has no login", "pinion login groq"]);
}

/// Returns the command of a conversation with a browser that writes down the URLs that it opens.
fn with_browser(pinion: &Pinion) -> (Command, PathBuf) {
    let program = pinion.write("../bin/xdg-open", "#!/bin/sh\necho \"$1\" > \"$0.new\" && mv \"$0.new\" \"$0.page\"\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = pinion.default_command([""; 0]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    // Nothing answers there.
    command.env("DISPLAY", ":0").env_remove("SSH_CONNECTION").env("HTTPS_PROXY", "http://127.0.0.1:1");
    (command, program.with_extension("page"))
}

#[test]
fn setup_opens_the_browser_and_shows_what_failed() {
    let pinion = Pinion::default();
    let (command, page) = with_browser(&pinion);
    let mut terminal = Terminal::start(&command, (400, 24), "");
    terminal.wait_for("No provider has a key yet");
    terminal.keys("openrouter\r");
    terminal.wait_for("log in with your browser");
    terminal.keys("\r");
    terminal.wait_for("waiting for the login");
    // Stopped, and begun again.
    terminal.keys("\x1b");
    terminal.wait_for_nth("log in with your browser", 2);
    pinion_tests::wait_until("the page is opened", || page.exists());
    std::fs::remove_file(&page).unwrap();
    terminal.keys("\r");
    pinion_tests::wait_until("the page is opened again", || page.exists());
    let redirect = redirect(&std::fs::read_to_string(&page).unwrap());
    assert_eq!(open(&format!("{redirect}?code=the-code-1")), "200");
    terminal.wait_for("openrouter gave no key for the login");
    terminal.keys("\x03");
    let (status, seen) = terminal.end();
    assert!(status == Some(2) && !seen.contains("the-code-1"), "{seen}");
    assert!(!auth_file(&pinion).exists());
}

#[test]
fn enter_alone_logs_in_with_the_browser_and_an_address_can_be_pasted() {
    let pinion = Pinion::default();
    let vendor = vendor(&pinion, "200 OK", &format!(r#"{{"key":"{KEY}"}}"#));
    let mut terminal = Terminal::start(&pinion.command(["login", "openrouter"]), (400, 24), "");
    terminal.wait_for("press Enter alone");
    terminal.keys("\n");
    let seen = terminal.wait_for("paste the address");
    let page = seen.lines().find(|line| line.contains("callback_url=")).unwrap();
    terminal.keys(&format!("{}?code=the-code-1\n", redirect(page)));
    let (status, seen) = terminal.end();
    assert!(status == Some(0) && seen.contains("stored the key of openrouter") && !seen.contains(KEY), "{seen}");
    assert_eq!(vendor.asked.lock().unwrap().len(), 1);
    let doctor = ended(pinion.command(["doctor"])).stdout;
    assert!(doctor.lines().any(|line| line.contains("key for openrouter") && line.ends_with("auth.toml")), "{doctor}");
}
