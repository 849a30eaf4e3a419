//! Bounds on the size of tool results.

use crate::content::{Content, Image};

/// Bounds on one tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBounds {
    /// Maximum bytes of text; longer texts are cut in the middle.
    pub max_text_bytes: usize,
    /// Maximum number of images; the rest are dropped, as is every image that models would reject ([`Image::check`]).
    pub max_images: usize,
    /// Maximum bytes of all images together; the rest are dropped.
    pub max_image_bytes: usize,
    /// Maximum number of parts; the rest are dropped. Empty texts are dropped without counting.
    pub max_parts: usize,
}

impl Default for OutputBounds {
    /// Twice the limits of the built-in tools, so that only tools without separate limits reach these.
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

    /// Cuts `content` to the bounds, and notes each omission in the text.
    pub fn apply(&self, content: Vec<Content>) -> Vec<Content> {
        let is_empty_text = |part: &Content| part.as_text().is_some_and(str::is_empty);
        let had_content = !content.is_empty();
        let mut budget = Remaining { bounds: self, text: self.max_text_bytes, images: 0, image_bytes: 0, left_out: 0 };
        let mut parts = content.into_iter().filter(|part| !is_empty_text(part));
        let mut bounded: Vec<Content> =
            parts.by_ref().take(self.max_parts).filter_map(|part| budget.bound_part(part)).collect();
        if budget.left_out > 0 {
            bounded.push(Content::text(format!("[{} more images were left out]", budget.left_out)));
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

/// The remaining budget while a result is being cut.
struct Remaining<'a> {
    bounds: &'a OutputBounds,
    text: usize,
    images: usize,
    image_bytes: usize,
    /// Number of images that did not fit.
    left_out: usize,
}

impl Remaining<'_> {
    fn bound_part(&mut self, part: Content) -> Option<Content> {
        match part {
            Content::Text { text } => {
                let text = cut_middle(text, self.text);
                self.text = self.text.saturating_sub(text.len());
                Some(Content::Text { text })
            }
            Content::Image(image) => self.image(image),
            // Tools return text and images; the model must not get anything else from an executor.
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

/// Shortens a text to about `max` bytes: its start and its end, with a note between them.
pub fn cut_middle(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - max / 2);
    format!("{}\n[… {} bytes were left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

/// Shortens a text to `max` lines: its first and last ones, with a note in the line between them.
pub fn cut_lines(text: String, max: usize) -> String {
    let lines = text.lines().count();
    let Some(kept) = max.checked_sub(1).filter(|_| lines > max) else { return text };
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let start = |line: usize| text.split_inclusive('\n').take(line).map(str::len).sum::<usize>();
    let (head, tail, left_out) = (start(head), start(lines - tail), lines - kept);
    format!("{}[... {left_out} lines truncated ...]\n{}", &text[..head], &text[tail..])
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
    fn content_at_a_bound_is_not_beyond_it() {
        let bounds = OutputBounds { max_text_bytes: 4, max_images: 2, max_image_bytes: 2 * 13, max_parts: 3 };
        let text = |length: usize| Content::text("a".repeat(length));
        let is_exceeded = |content: &[Content]| bounds.is_exceeded_by(content);
        assert!(!is_exceeded(&[text(4)]) && is_exceeded(&[text(5)]) && is_exceeded(&[text(3), text(2)]));
        assert!(!is_exceeded(&[image(), image()]) && is_exceeded(&[image(), image(), image()]));
        assert!(!is_exceeded(&[text(1), text(1), text(1)]) && is_exceeded(&[text(1), text(1), text(1), text(1)]));
        let small = OutputBounds { max_image_bytes: 12, ..bounds };
        assert!(small.is_exceeded_by(&[image()]));
    }

    #[test]
    fn text_bound_covers_all_parts_together() {
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
    fn invalid_pictures_are_replaced_by_a_note() {
        let bounds = OutputBounds { max_image_bytes: 20, ..OutputBounds::default() };
        let fake = Content::Image(Image { media_type: "image/png".into(), data: b"fake".to_vec() });
        let bounded = bounds.apply(vec![fake, image(), image()]);
        assert_eq!(bounded.len(), 3, "{bounded:?}");
        assert_eq!(bounded[0].as_text(), Some("[an image was left out: its bytes do not match its media type]"));
        assert_eq!(bounded[2].as_text(), Some("[1 more images were left out]"));
    }

    #[test]
    fn long_output_keeps_its_first_and_last_lines_around_a_marker() {
        let text = |lines: std::ops::Range<usize>| lines.map(|n| format!("line {n}\n")).collect::<String>();
        let cut = cut_lines(text(0..200), 50);
        assert_eq!(cut, format!("{}[... 151 lines truncated ...]\n{}", text(0..25), text(176..200)));
        assert_eq!(cut.lines().count(), 50);
        assert_eq!((cut_lines(text(0..50), 50), cut_lines(cut.clone(), 50)), (text(0..50), cut));
        assert_eq!(cut_lines("a\nb".into(), 1), "[... 2 lines truncated ...]\n");
    }

    proptest! {
        #[test]
        fn cut_lines_are_within_the_bound_and_of_the_text(text in "[a-c\n]{0,60}", max in 1_usize..12) {
            let cut = cut_lines(text.clone(), max);
            if text.lines().count() <= max {
                prop_assert_eq!(cut, text);
            } else {
                prop_assert_eq!(cut.lines().count(), max);
                let (head, rest) = cut.split_once("[... ").unwrap();
                prop_assert!(text.starts_with(head) && text.ends_with(rest.split_once(" ...]\n").unwrap().1));
            }
        }

        #[test]
        fn cut_text_keeps_both_ends_within_the_bound(text in ".{0,300}", max in 0_usize..300) {
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
