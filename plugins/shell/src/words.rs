//! Splits a shell command into simple commands and their words.
//!
//! Supports as much of the shell's grammar as the deny patterns need: quotes, escapes, comments, separators, and
//! here-documents, which are data. Expands nothing.

use std::iter::Peekable;
use std::str::Chars;

/// Returns the words of each simple command, without quotes and escapes.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut parser = Parser { rest: text.chars().peekable(), ..Parser::default() };
    parser.run();
    parser.commands
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<Vec<String>>,
    command: Vec<String>,
    /// The current word; quotes can make it empty.
    word: Option<String>,
    /// Delimiters of the here-documents that start after this line.
    here: Vec<String>,
    /// The next word is such a delimiter.
    delimiter_next: bool,
}

impl Default for Parser<'_> {
    fn default() -> Self {
        let (commands, command, here) = (Vec::new(), Vec::new(), Vec::new());
        Self { rest: "".chars().peekable(), commands, command, word: None, here, delimiter_next: false }
    }
}

impl Parser<'_> {
    fn run(&mut self) {
        while let Some(c) = self.rest.next() {
            match c {
                '\'' => self.quoted(),
                '"' => self.double_quoted(),
                '\\' => self.escaped(),
                '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' => {
                    self.end_command();
                    self.skip_here_documents();
                }
                ';' | '&' | '|' | '(' | ')' | '`' => self.end_command(),
                '<' | '>' => self.redirection(c),
                c => self.push(c),
            }
        }
        self.end_command();
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.rest.next_if(|c| *c != '\'') {
            self.push(c);
        }
        self.rest.next();
    }

    fn double_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.rest.next() {
            match c {
                '"' => return,
                '\\' => self.escaped(),
                c => self.push(c),
            }
        }
    }

    /// A backslash before a line feed joins two lines.
    fn escaped(&mut self) {
        match self.rest.next() {
            None | Some('\n') => {}
            Some(c) => self.push(c),
        }
    }

    fn redirection(&mut self, c: char) {
        self.end_word();
        let mut operator = String::from(c);
        while let Some(more) = self.rest.next_if(|more| matches!(more, '<' | '>' | '&' | '|')) {
            operator.push(more);
        }
        if operator == "<<" {
            self.rest.next_if_eq(&'-');
            self.delimiter_next = true;
        } else {
            self.command.push(operator);
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.delimiter_next) { self.here.push(word) } else { self.command.push(word) }
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.command.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }

    fn skip_here_documents(&mut self) {
        for delimiter in std::mem::take(&mut self.here) {
            while self.rest.peek().is_some() {
                let line: String = std::iter::from_fn(|| self.rest.next_if(|c| *c != '\n')).collect();
                self.rest.next();
                if line.trim_start_matches('\t') == delimiter {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_and_escapes_are_removed() {
        let text = r#"echo  'a b' "c \" d" e\ f ''"#;
        assert_eq!(commands(text), [["echo", "a b", "c \" d", "e f", ""]]);
    }

    #[test]
    fn commands_are_split_like_in_a_shell() {
        let words = commands("a 1; b 2 && c || d | e & (f) `g` $(h)\ni");
        let programs: Vec<&str> = words.iter().map(|words| words[0].as_str()).collect();
        assert_eq!(programs, ["a", "b", "c", "d", "e", "f", "g", "$", "h", "i"]);
    }

    #[test]
    fn backslash_at_the_end_joins_lines() {
        assert_eq!(commands("rm \\\n -rf x"), [["rm", "-rf", "x"]]);
    }

    #[test]
    fn comments_are_dropped() {
        assert_eq!(commands("a # b; c\nd#e"), [vec!["a"], vec!["d#e"]]);
    }

    #[test]
    fn here_documents_are_data() {
        let text = "cat > f <<'EOF' && a\nrm -rf /\n\tEOF\nb <<-X\nreboot\nX\nc <<< word";
        let expected = [vec!["cat", ">", "f"], vec!["a"], vec!["b"], vec!["c", "<<<", "word"]];
        assert_eq!(commands(text), expected);
    }

    #[test]
    fn redirections_are_separate_words() {
        assert_eq!(commands("a>b 2>&1 c"), [["a", ">", "b", "2", ">&", "1", "c"]]);
    }

    proptest! {
        #[test]
        fn arbitrary_text_terminates(text in "[a'\"\\\\\n;&|<>() #-]{0,60}") {
            let words: usize = commands(&text).iter().map(Vec::len).sum();
            prop_assert!(words <= text.len());
        }
    }
}
