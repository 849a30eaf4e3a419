//! Downloads from a server on this machine: complete, resumed, and failed in each way.

use crate::file_server::{FileServer, response};
use pinion_local_models::{ModelStore, StoreError};
use pinion_model_downloads::{DownloadError, DownloadProgress, DownloadSource, download};
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;

/// Bytes of the file that the first of two attempts receives.
const HALF: usize = 150_000;

/// A header with an architecture, and bytes that no tensor uses.
fn model() -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let counts = [0_u64.to_le_bytes(), 1_u64.to_le_bytes()].concat();
    let value = [text("general.architecture"), 8_u32.to_le_bytes().to_vec(), text("llama")].concat();
    let mut bytes = [b"GGUF", &3_u32.to_le_bytes()[..], &counts, &value].concat();
    bytes.extend((0..300_000_u32).map(|number| (number % 251) as u8));
    bytes
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn length(bytes: u64) -> String {
    format!("content-length: {bytes}")
}

/// Returns a response that announces the whole model and sends its first half.
fn half() -> Vec<u8> {
    let model = model();
    response("200 OK", &[length(model.len() as u64)], &model[..HALF])
}

fn whole() -> Vec<u8> {
    let model = model();
    response("200 OK", &[length(model.len() as u64)], &model)
}

/// Returns the rest of the model from a byte on, which the response says to be `named`.
fn rest(start: usize, named: usize) -> Vec<u8> {
    let model = model();
    let total = model.len();
    let range = format!("content-range: bytes {named}-{}/{total}", total - 1);
    response("206 Partial Content", &[length((total - start) as u64), range], &model[start..])
}

/// A store in a temporary directory, and a server.
struct DownloadCase {
    directory: tempfile::TempDir,
    server: FileServer,
    bytes: Option<u64>,
    steps: Vec<DownloadProgress>,
}

impl DownloadCase {
    async fn new(responses: Vec<Vec<u8>>) -> Self {
        let server = FileServer::answering(responses).await;
        Self { directory: tempfile::tempdir().unwrap(), server, bytes: None, steps: Vec::new() }
    }

    fn store(&self) -> ModelStore {
        ModelStore::new(self.directory.path().join("models"))
    }

    async fn attempt(&mut self) -> Result<PathBuf, DownloadError> {
        let (store, url, sha256) = (self.store(), self.server.url.clone(), digest(&model()));
        let source = DownloadSource { url: &url, sha256: &sha256, bytes: self.bytes };
        let steps = &mut self.steps;
        download(&store, "tiny", &source, &mut |step| steps.push(step)).await
    }

    /// Returns the names and sizes of the files in the store.
    fn files(&self) -> Vec<(String, u64)> {
        let entries = std::fs::read_dir(self.directory.path().join("models")).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())).collect()
    }
}

#[tokio::test]
async fn model_is_downloaded_under_its_name() {
    let mut case = DownloadCase::new(vec![whole()]).await;
    let total = model().len() as u64;
    case.bytes = Some(total);
    let path = case.attempt().await.unwrap();
    assert_eq!((std::fs::read(&path).unwrap(), case.store().find("tiny").unwrap()), (model(), path));
    let last = DownloadProgress::Received { bytes: total, total: Some(total) };
    assert_eq!((case.steps.last(), case.server.ranges()), (Some(&last), vec![None]));
    assert_eq!(case.store().list().unwrap()[0].content.as_ref().unwrap().architecture, "llama");
}

#[tokio::test]
async fn interrupted_download_resumes_at_the_first_missing_byte() {
    let mut case = DownloadCase::new(vec![half(), rest(HALF, HALF)]).await;
    let error = case.attempt().await.unwrap_err();
    assert!(matches!(error, DownloadError::Interrupted { received, .. } if received == HALF as u64), "{error}");
    assert!(matches!(case.store().find("tiny"), Err(StoreError::Unknown(_))));
    assert_eq!(case.files(), [("tiny.gguf.part".to_owned(), HALF as u64)]);
    case.steps.clear();
    let path = case.attempt().await.unwrap();
    assert_eq!(std::fs::read(path).unwrap(), model());
    assert_eq!(case.server.ranges(), [None, Some(format!("bytes={HALF}-"))]);
    assert_eq!(case.steps[0], DownloadProgress::Resumed(HALF as u64));
    assert_eq!(case.files(), [("tiny.gguf".to_owned(), model().len() as u64)]);
}

#[tokio::test]
async fn server_that_ends_early_without_a_length_has_interrupted() {
    let mut case = DownloadCase::new(vec![response("200 OK", &[], &model()[..HALF]), rest(HALF, HALF)]).await;
    case.bytes = Some(model().len() as u64);
    let error = case.attempt().await.unwrap_err();
    assert!(matches!(error, DownloadError::Interrupted { source: None, .. }), "{error}");
    assert_eq!(std::fs::read(case.attempt().await.unwrap()).unwrap(), model());
}

#[tokio::test]
async fn server_without_ranges_sends_the_whole_file_again() {
    let mut case = DownloadCase::new(vec![half(), whole()]).await;
    case.attempt().await.unwrap_err();
    assert_eq!(std::fs::read(case.attempt().await.unwrap()).unwrap(), model());
}

#[tokio::test]
async fn part_is_not_continued_with_bytes_of_another_place() {
    let mut case = DownloadCase::new(vec![half(), rest(HALF, HALF - 7), rest(HALF, HALF)]).await;
    case.attempt().await.unwrap_err();
    let error = case.attempt().await.unwrap_err();
    assert!(matches!(error, DownloadError::Range { start, .. } if start == HALF as u64), "{error}");
    case.attempt().await.unwrap();
}

#[tokio::test]
async fn complete_part_needs_no_more_bytes() {
    let refused = response("416 Range Not Satisfiable", &[length(0)], b"");
    let mut case = DownloadCase::new(vec![refused]).await;
    case.store().part("tiny", true).unwrap().write(&model()).unwrap();
    assert_eq!(std::fs::read(case.attempt().await.unwrap()).unwrap(), model());
}

#[tokio::test]
async fn file_with_another_digest_is_removed() {
    let mut other = model();
    *other.last_mut().unwrap() ^= 1;
    let answer = response("200 OK", &[length(other.len() as u64)], &other);
    let mut case = DownloadCase::new(vec![answer]).await;
    let error = case.attempt().await.unwrap_err();
    let DownloadError::Store(StoreError::Digest { found, expected }) = &error else { panic!("{error}") };
    assert_eq!((found, expected), (&digest(&other), &digest(&model())));
    assert_eq!(case.files(), []);
}

#[tokio::test]
async fn file_of_another_size_is_refused() {
    let too_long = response("200 OK", &[], &[model(), b"more".to_vec()].concat());
    for answer in [whole(), too_long] {
        let is_announced = answer.starts_with(&whole()[..60]);
        let mut case = DownloadCase::new(vec![answer]).await;
        case.bytes = Some(model().len() as u64 - u64::from(is_announced));
        let error = case.attempt().await.unwrap_err();
        assert!(matches!(error, DownloadError::Size { .. }), "{error}");
        assert_eq!(case.files(), [("tiny.gguf.part".to_owned(), 0)]);
    }
}

#[tokio::test]
async fn file_that_does_not_fit_on_the_disk_is_not_begun() {
    let mut case = DownloadCase::new(vec![response("200 OK", &[length(1 << 62)], &model())]).await;
    let error = case.attempt().await.unwrap_err();
    assert!(matches!(&error, DownloadError::Store(StoreError::Space(_))), "{error}");
    assert_eq!(case.files(), [("tiny.gguf.part".to_owned(), 0)]);
}

#[tokio::test]
async fn status_of_a_server_without_the_file_is_named() {
    let mut case = DownloadCase::new(vec![response("404 Not Found", &[length(0)], b"")]).await;
    let error = case.attempt().await.unwrap_err();
    assert!(matches!(error, DownloadError::Status { status: 404, .. }), "{error}");
}

#[tokio::test]
async fn server_that_does_not_listen_is_named() {
    let mut case = DownloadCase::new(Vec::new()).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    case.server.url = format!("http://{free}/tiny.gguf");
    let error = case.attempt().await.unwrap_err();
    assert!(matches!(&error, DownloadError::NoAnswer { url, .. } if *url == case.server.url), "{error}");
    case.server.url = "tiny.gguf".to_owned();
    let error = case.attempt().await.unwrap_err();
    assert!(matches!(error, DownloadError::Address { .. }), "{error}");
}
