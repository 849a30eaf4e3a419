//! Pictures that messages of the user name: `@shot.png`, or `@"my shot.png"`.

use pinion_agent::content::Image;
use pinion_agent::{Content, Message};
use pinion_app::files::private::open_file;
use pinion_app::workspace_base::Base;
use pinion_console::output::count;
use pinion_exclusions::FileId;
use pinion_pictures::{FittedImage, MAX_PICTURE_BYTES, fit};
use serde::Deserialize;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Maximum bytes of a picture that is read. Models accept fewer, and get a smaller copy.
const MAX_BYTES: u64 = MAX_PICTURE_BYTES as u64;
/// Maximum number of pictures of a message.
const MAX_IMAGES: usize = 16;

const BLIND: &str = "the model accepts no pictures";

/// Extensions of pictures with their media types.
const TYPES: [(&str, &str); 5] =
    [("png", "image/png"), ("jpg", "image/jpeg"), ("jpeg", "image/jpeg"), ("gif", "image/gif"), ("webp", "image/webp")];

/// A message for the model.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    /// Pictures besides those that the text names.
    #[serde(default)]
    images: Vec<Image>,
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self { text, images: Vec::new() }
    }
}

impl Prompt {
    /// Checks the pictures.
    ///
    /// # Errors
    /// There are too many, or one is of no kind that models take.
    pub(crate) fn checked(self) -> Result<Self, String> {
        if self.images.len() > MAX_IMAGES {
            return Err(format!("{} pictures, of at most {MAX_IMAGES}", self.images.len()));
        }
        self.images.iter().try_for_each(|image| image.check_format().map_err(|problem| problem.to_string()))?;
        Ok(self)
    }
}

/// Returns a message with its pictures and the pictures that its text names, and a notice for each that is missing or
/// scaled down. A model that is known not to accept pictures gets only the text, because the vendor would reject this
/// request and all that follow.
pub(crate) fn with_images(base: &Base, model: &str, prompt: Prompt) -> (Message, Vec<String>) {
    let naming = prompt.text.clone();
    with_images_named_in(base, model, prompt, &naming)
}

/// Like [`with_images`], but `naming` alone names pictures: text on stdin after a prompt may be a stranger's.
pub(crate) fn with_images_named_in(base: &Base, model: &str, prompt: Prompt, naming: &str) -> (Message, Vec<String>) {
    let Prompt { text, images } = prompt;
    let mut problems = Vec::new();
    let is_blind =
        |known: &pinion_providers::ModelSpec| format!("{}/{}", known.provider, known.id) == model && !known.images;
    let is_blind = base.models().is_ok_and(|models| models.iter().any(|known| is_blind(known)));
    if is_blind && !images.is_empty() {
        problems.push(format!("{} not attached: {BLIND}", count(images.len() as u64, "picture")));
    }
    let given = images.into_iter().filter(|_| !is_blind).map(|image| ("a picture".to_owned(), Ok(image)));
    let read = |name| if is_blind { Err(BLIND.to_owned()) } else { read(base, name) };
    let named = names(naming).into_iter().take(MAX_IMAGES).map(|name| (format!("`{name}`"), read(name)));
    let mut fitted = Vec::new();
    for (name, image) in given.chain(named) {
        match image.and_then(|image| fit(image).map_err(|problem| problem.to_string())) {
            Ok(FittedImage { image, scaled }) => {
                problems.extend(scaled.map(|sizes| format!("{name} was scaled down from {sizes}")));
                fitted.push(Content::Image(image));
            }
            Err(problem) => problems.push(format!("{name} is not attached: {problem}")),
        }
    }
    let mut message = Message::user(text);
    if let Message::User(user) = &mut message {
        user.content.extend(fitted);
    }
    (message, problems)
}

/// Returns the pictures that a text names.
fn names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let begins = rest[..at].chars().next_back().is_none_or(char::is_whitespace);
        rest = &rest[at + 1..];
        let name = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').map_or("", |(name, _)| name),
            None => rest.split(char::is_whitespace).next().unwrap_or_default(),
        };
        if begins && media_type(name).is_some() {
            names.push(name);
        }
    }
    names
}

fn media_type(name: &str) -> Option<&'static str> {
    let extension = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    TYPES.iter().find(|(known, _)| *known == extension).map(|(_, media_type)| *media_type)
}

/// Reads a picture that the config does not exclude. The name may come from a text that a person pasted.
fn read(base: &Base, name: &str) -> Result<Image, String> {
    let exclusions = &base.config.exclusions;
    let path = path(&base.workspace, name);
    let file = open_file(&path).map_err(|error| error.to_string())?;
    let by_name =
        exclusions.exclusions().find_pattern(&path.canonicalize().unwrap_or_else(|_| path.clone()), false).cloned();
    let by_name = by_name.or_else(|| exclusions.exclusions().find_pattern(&path, false).cloned());
    let is_same = || FileId::from_metadata(&file.metadata().ok()?).and_then(|id| exclusions.of_file(&id));
    if let Some(pattern) = by_name.or_else(is_same) {
        return Err(format!("{pattern}; {}", pattern.remedy()));
    }
    image(file, name)
}

fn image(file: File, name: &str) -> Result<Image, String> {
    let bytes = file.metadata().map_or(0, |found| found.len());
    if bytes > MAX_BYTES {
        return Err(format!("it has {bytes} bytes, the maximum is {MAX_BYTES}"));
    }
    let mut data = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut data).map_err(|error| error.to_string())?;
    let media_type = media_type(name).unwrap_or_default().to_owned();
    Ok(Image { media_type, data })
}

fn path(workspace: &Path, name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), pinion_app::files::paths::home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => workspace.join(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pictures_are_found() {
        let text = "compare @a.png with @\"my shot.JPG\", not x@b.png, @c.rs or @\"open.png";
        assert_eq!(names(text), ["a.png", "my shot.JPG"]);
        assert_eq!(names("@/tmp/a.webp"), ["/tmp/a.webp"]);
    }

    #[test]
    fn pictures_of_a_command_are_checked() {
        let prompt = |images: &str| serde_json::from_str::<Prompt>(&format!(r#"{{"text":"t","images":{images}}}"#));
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAAD";
        let image = format!(r#"{{"media_type":"image/png","data":"{png}"}}"#);
        assert_eq!(prompt(&format!("[{image}]")).unwrap().checked().unwrap().images.len(), 1);
        let many = vec![image.as_str(); MAX_IMAGES + 1].join(",");
        assert!(prompt(&format!("[{many}]")).unwrap().checked().unwrap_err().contains("17 pictures"));
        let other = r#"[{"media_type":"image/png","data":"AAAA"}]"#;
        assert!(prompt(other).unwrap().checked().is_err() && prompt(r#"[{"data":"AAAA"}]"#).is_err());
    }

    #[test]
    fn only_pictures_are_read() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("secret.png"), "key = 1").unwrap();
        let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 0, 2, 0, 0, 0, 3]].concat();
        std::fs::write(directory.path().join("a.png"), &png).unwrap();
        let read = |name: &str| image(File::open(directory.path().join(name)).unwrap(), name);
        assert!(fit(read("secret.png").unwrap()).unwrap_err().to_string().contains("do not match"));
        assert_eq!(read("a.png").unwrap().data, png);
        let large = File::create(directory.path().join("large.png")).unwrap();
        large.set_len(MAX_BYTES + 1).unwrap();
        assert!(read("large.png").unwrap_err().starts_with("it has 33554433 bytes"));
    }
}
