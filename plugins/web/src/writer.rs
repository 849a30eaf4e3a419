//! Writes Markdown: collapses space, and puts breaks, indentation and marks only before text.

/// Nested quotations and lists that are shown.
const MAX_NESTED: usize = 6;

/// The break before the next text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Break {
    Nothing,
    Space,
    Line,
    Paragraph,
}

/// The text so far, and the separator before the next one.
pub(crate) struct Writer {
    text: String,
    next: Break,
    quotes: usize,
    /// Quotations around the last text.
    quoted: usize,
    /// For each open list, the number of its last item; none if it is not numbered.
    lists: Vec<Option<u32>>,
    /// The mark of a list item or heading that has no text yet.
    mark: String,
    /// True after the mark before a cell.
    is_cell_empty: bool,
    /// The address of a link, and whether its text has begun.
    link: Option<(String, bool)>,
    /// Whether the text of inline code has begun.
    code: Option<bool>,
    /// Whether preformatted text has begun, and the line feeds before the next of it.
    block: Option<(bool, usize)>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        let (text, mark, is_cell_empty) = (String::new(), String::new(), false);
        let (next, lists) = (Break::Nothing, Vec::new());
        Self { text, next, quotes: 0, quoted: 0, lists, mark, is_cell_empty, link: None, code: None, block: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn finish(mut self) -> String {
        self.leave_link();
        self.leave_code();
        self.leave_block();
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }

    /// Begins a new line or paragraph with the next text. Links have one line.
    pub(crate) fn pause(&mut self, at_least: Break) {
        let most = match &self.link {
            Some((_, true)) => Break::Space,
            _ if self.is_cell_empty => Break::Space,
            // The text of an item follows its mark.
            _ if !self.mark.is_empty() => Break::Line,
            _ => Break::Paragraph,
        };
        self.next = self.next.max(at_least.min(most));
    }

    /// Writes text in which space has no meaning, unless it is preformatted.
    pub(crate) fn write(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\n' if self.block.is_some() => self.feed(),
                ' ' | '\t' | '\n' | '\r' | '\u{c}' | '\u{a0}' if self.block.is_none() => self.pause(Break::Space),
                c => {
                    self.begin();
                    self.text.push(c);
                }
            }
        }
    }

    /// Writes a word as it is.
    pub(crate) fn word(&mut self, word: &str) {
        self.begin();
        self.text.push_str(word);
    }

    /// Writes the mark between two cells of a row. Breaks at the end of the first one have no meaning, but that before the row
    /// does if the row has no text yet.
    pub(crate) fn cell(&mut self, is_row_empty: bool) {
        if !is_row_empty {
            self.next = Break::Nothing;
        }
        self.begin();
        self.text.push_str(" |");
        (self.next, self.is_cell_empty) = (Break::Space, true);
    }

    pub(crate) fn quote(&mut self, is_open: bool) {
        self.pause(Break::Paragraph);
        self.quotes = if is_open { self.quotes + 1 } else { self.quotes.saturating_sub(1) };
    }

    pub(crate) fn list(&mut self, is_numbered: bool) {
        self.pause(if self.lists.is_empty() { Break::Paragraph } else { Break::Line });
        self.lists.push(is_numbered.then_some(0));
    }

    pub(crate) fn leave_list(&mut self) {
        self.mark.clear();
        self.lists.pop();
        self.pause(if self.lists.is_empty() { Break::Paragraph } else { Break::Line });
    }

    pub(crate) fn item(&mut self) {
        self.pause(Break::Line);
        self.mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number = number.saturating_add(1);
                format!("{number}. ")
            }
            _ => "- ".to_owned(),
        };
    }

    pub(crate) fn heading(&mut self, level: usize) {
        self.pause(Break::Paragraph);
        self.mark.push_str(&"######"[..level.min(6)]);
        self.mark.push(' ');
    }

    pub(crate) fn leave_heading(&mut self) {
        self.mark.clear();
        self.pause(Break::Paragraph);
    }

    pub(crate) fn link(&mut self, address: String) {
        self.leave_link();
        self.link = Some((address, false));
    }

    pub(crate) fn leave_link(&mut self) {
        if let Some((address, true)) = self.link.take() {
            self.text.push_str(&format!("]({address})"));
        }
    }

    pub(crate) fn code(&mut self) {
        self.leave_code();
        self.code = self.block.is_none().then_some(false);
    }

    pub(crate) fn leave_code(&mut self) {
        if self.code.take() == Some(true) {
            self.text.push('`');
        }
    }

    pub(crate) fn preformatted(&mut self) {
        self.leave_block();
        self.leave_code();
        self.pause(Break::Paragraph);
        self.block = Some((false, 0));
    }

    pub(crate) fn leave_block(&mut self) {
        if let Some((true, _)) = self.block.take() {
            self.break_line();
            self.text.push_str("```");
        }
        self.pause(Break::Paragraph);
    }

    /// A line feed in preformatted text; one at its beginning or end has no meaning.
    fn feed(&mut self) {
        if let Some((true, feeds)) = &mut self.block {
            *feeds += 1;
        }
    }

    /// Writes everything that comes before a text.
    fn begin(&mut self) {
        let next = std::mem::replace(&mut self.next, Break::Nothing);
        let is_first = self.text.is_empty();
        match next {
            Break::Line | Break::Paragraph if !is_first => {
                if next == Break::Paragraph {
                    self.text.push('\n');
                    let around = self.quotes.min(self.quoted).min(MAX_NESTED);
                    self.text.push_str("> ".repeat(around).trim_end());
                }
                self.break_line();
            }
            Break::Space if !is_first && !self.text.ends_with([' ', '\n']) => self.text.push(' '),
            _ if is_first => self.indent(),
            _ => {}
        }
        (self.quoted, self.is_cell_empty) = (self.quotes, false);
        if !self.mark.is_empty() {
            self.text.push_str(&std::mem::take(&mut self.mark));
        }
        if let Some((is_begun, feeds)) = self.block {
            if !is_begun {
                self.text.push_str("```");
            }
            (0..feeds.max(usize::from(!is_begun))).for_each(|_| self.break_line());
            self.block = Some((true, 0));
        }
        if let Some((_, is_begun @ false)) = &mut self.link {
            *is_begun = true;
            self.text.push('[');
        }
        if self.code == Some(false) {
            self.code = Some(true);
            self.text.push('`');
        }
    }

    fn break_line(&mut self) {
        self.text.push('\n');
        self.indent();
    }

    fn indent(&mut self) {
        self.text.push_str(&"> ".repeat(self.quotes.min(MAX_NESTED)));
        let is_item = self.mark.starts_with("- ") || self.mark.starts_with(|c: char| c.is_ascii_digit());
        let depth = self.lists.len().saturating_sub(usize::from(is_item));
        self.text.push_str(&"  ".repeat(depth.min(MAX_NESTED)));
    }
}
