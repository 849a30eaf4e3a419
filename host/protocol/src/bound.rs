//! How much of a tool's result the model gets.

use crate::content::{Content, Image};

/// Bounds of one tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBounds {
    /// Bytes of text; too much is cut in the middle.
    pub max_text_bytes: usize,
    /// Images; the rest is left out, as is each one that no model would accept ([`Image::check`]).
    pub max_images: usize,
    /// Bytes of all images together; the rest is left out.
    pub max_image_bytes: usize,
    /// Parts; the rest is left out. Empty texts do not count and are dropped.
    pub max_parts: usize,
}

impl Default for OutputBounds {
    /// Twice what the built-in tools give, so that it only meets tools that do not bound themselves.
    fn default() -> Self {
        Self { max_text_bytes: 200 * 1024, max_images: 16, max_image_bytes: 15 * 1024 * 1024, max_parts: 1000 }
    }
}

impl OutputBounds {
    /// Returns whether `content` exceeds a bound.
    pub fn is_exceeded_by(&self, content: &[Content]) -> bool {
        let text: usize = content.iter().filter_map(Content::as_text).map(str::len).sum();
        let images = || {
            content.iter().filter_map(|part| match part {
                Content::Image(image) => Some(image.data.len()),
                _ => None,
            })
        };
        text > self.max_text_bytes
            || images().count() > self.max_images
            || images().sum::<usize>() > self.max_image_bytes
            || content.len() > self.max_parts
    }

    /// Cuts what is too much, and says so in the text.
    pub fn apply(&self, content: Vec<Content>) -> Vec<Content> {
        let is_empty_text = |part: &Content| part.as_text().is_some_and(str::is_empty);
        let had_content = !content.is_empty();
        let mut room = Room { bounds: self, text: self.max_text_bytes, images: 0, image_bytes: 0, left_out: 0 };
        let mut parts = content.into_iter().filter(|part| !is_empty_text(part));
        let mut bounded: Vec<Content> =
            parts.by_ref().take(self.max_parts).filter_map(|part| room.take(part)).collect();
        if room.left_out > 0 {
            bounded.push(Content::text(format!("[{} more images were left out]", room.left_out)));
        }
        let more = parts.count();
        if more > 0 {
            bounded.push(Content::text(format!("[{more} more parts were left out]")));
        }
        if bounded.is_empty() && had_content {
            bounded.push(Content::text(""));
        }
        bounded
    }
}

/// The remainder of the bounds while a result is cut to them.
struct Room<'a> {
    bounds: &'a OutputBounds,
    text: usize,
    images: usize,
    image_bytes: usize,
    /// Images that there was no room for.
    left_out: usize,
}

impl Room<'_> {
    fn take(&mut self, part: Content) -> Option<Content> {
        match part {
            Content::Text { text } => {
                let text = cut_middle(text, self.text);
                self.text = self.text.saturating_sub(text.len());
                Some(Content::Text { text })
            }
            Content::Image(image) => self.image(image),
            // Tools give text and images; what else an executor puts there is not for the model.
            Content::Thinking(_) | Content::ToolCall(_) => None,
        }
    }

    fn image(&mut self, image: Image) -> Option<Content> {
        let bytes = self.image_bytes + image.data.len();
        if self.images == self.bounds.max_images || bytes > self.bounds.max_image_bytes {
            self.left_out += 1;
            return None;
        }
        self.images += 1;
        match image.check() {
            Ok(()) => {
                self.image_bytes = bytes;
                Some(Content::Image(image))
            }
            Err(problem) => Some(Content::text(format!("[an image was left out: {problem}]"))),
        }
    }
}

/// At most about `max` bytes: the start and the end of the text, with a mark between them.
pub fn cut_middle(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - max / 2);
    format!("{}\n[… {} bytes were left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image() -> Content {
        let data = b"GIF89a\x01\0\x01\0\0\0\0".to_vec();
        Content::Image(Image { media_type: "image/gif".into(), data })
    }

    #[test]
    fn all_texts_together_are_bounded() {
        let bounds = OutputBounds { max_text_bytes: 100, max_images: 1, ..OutputBounds::default() };
        let content = vec![Content::text("a".repeat(90)), image(), Content::text("b".repeat(90)), image()];
        let bounded = bounds.apply(content);
        assert_eq!(bounded.len(), 4);
        assert_eq!(bounded[2].as_text().unwrap(), format!("bbbbb\n[… 80 bytes were left out …]\nbbbbb"));
        assert_eq!(bounded[3].as_text(), Some("[1 more images were left out]"));
    }

    #[test]
    fn parts_are_bounded_and_empty_texts_dropped() {
        let bounds = OutputBounds { max_parts: 2, ..OutputBounds::default() };
        let empty = || Content::text("");
        let bounded = bounds.apply(vec![empty(), Content::text("a"), empty(), image(), Content::text("b"), empty()]);
        assert_eq!(bounded, [Content::text("a"), image(), Content::text("[1 more parts were left out]")]);
        assert_eq!(bounds.apply(vec![empty(), empty()]), [empty()]);
        assert_eq!(bounds.apply(vec![]), []);
    }

    #[test]
    fn pictures_that_no_model_accepts_are_left_out() {
        let bounds = OutputBounds { max_image_bytes: 20, ..OutputBounds::default() };
        let fake = Content::Image(Image { media_type: "image/png".into(), data: b"fake".to_vec() });
        let bounded = bounds.apply(vec![fake, image(), image()]);
        assert_eq!(bounded.len(), 3, "{bounded:?}");
        assert_eq!(bounded[0].as_text(), Some("[an image was left out: its bytes are not of its media type]"));
        assert_eq!(bounded[2].as_text(), Some("[1 more images were left out]"));
    }

    proptest! {
        #[test]
        fn a_cut_text_keeps_its_ends_and_its_bound(text in ".{0,300}", max in 0_usize..300) {
            let cut = cut_middle(text.clone(), max);
            if text.len() <= max {
                prop_assert_eq!(cut, text);
            } else {
                prop_assert!(cut.len() <= max + 60);
                let head = &text[..text.floor_char_boundary(max / 2)];
                let tail = &text[text.ceil_char_boundary(text.len() - max / 2)..];
                prop_assert!(cut.starts_with(head) && cut.ends_with(tail));
            }
        }
    }
}
