//! How much of a tool's result the model gets.

use crate::content::Content;

/// Bounds of one tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBounds {
    /// Bytes of text; too much is cut in the middle.
    pub max_text_bytes: usize,
    /// Images; the rest is left out.
    pub max_images: usize,
}

impl Default for OutputBounds {
    /// Twice what the built-in tools give, so that it only meets tools that do not bound themselves.
    fn default() -> Self {
        Self { max_text_bytes: 200 * 1024, max_images: 16 }
    }
}

impl OutputBounds {
    pub(crate) fn is_exceeded_by(&self, content: &[Content]) -> bool {
        let text: usize = content.iter().filter_map(Content::as_text).map(str::len).sum();
        let images = content.iter().filter(|part| matches!(part, Content::Image(_))).count();
        text > self.max_text_bytes || images > self.max_images
    }

    /// Cuts what is too much, and says so in the text.
    pub(crate) fn apply(&self, content: Vec<Content>) -> Vec<Content> {
        let mut text_left = self.max_text_bytes;
        let mut images = 0;
        let mut bounded = Vec::with_capacity(content.len());
        for part in content {
            match part {
                Content::Text { text } => {
                    let text = cut_middle(text, text_left);
                    text_left = text_left.saturating_sub(text.len());
                    bounded.push(Content::Text { text });
                }
                Content::Image(image) => {
                    images += 1;
                    if images <= self.max_images {
                        bounded.push(Content::Image(image));
                    }
                }
                // Tools give text and images; what else an executor puts there is not for the model.
                Content::Thinking(_) | Content::ToolCall(_) => {}
            }
        }
        if images > self.max_images {
            bounded.push(Content::text(format!("[{} more images were left out]", images - self.max_images)));
        }
        bounded
    }
}

/// At most about `max` bytes: the start and the end of the text, with a mark between them.
pub(crate) fn cut_middle(text: String, max: usize) -> String {
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
    use crate::content::Image;
    use proptest::prelude::*;

    #[test]
    fn all_texts_together_are_bounded() {
        let bounds = OutputBounds { max_text_bytes: 100, max_images: 1 };
        let image = Content::Image(Image { media_type: "image/png".into(), data: vec![1] });
        let content = vec![Content::text("a".repeat(90)), image.clone(), Content::text("b".repeat(90)), image];
        let bounded = bounds.apply(content);
        assert_eq!(bounded.len(), 4);
        assert_eq!(bounded[2].as_text().unwrap(), format!("bbbbb\n[… 80 bytes were left out …]\nbbbbb"));
        assert_eq!(bounded[3].as_text(), Some("[1 more images were left out]"));
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
