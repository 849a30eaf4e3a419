//! Programs that only read, with the options that keep it so.
//!
//! Each option is listed with its kind, and one that is not is a question. Left out are those that write, start a program,
//! follow links into directories, or name a file that lists others or holds expressions: `-L`, `--files0-from`, `-f FILE`,
//! `--exclude-from`, `-c` of the programs that compare checksums.

use crate::command_scene::Scene;
use crate::shell::{Simple, Word, WordKind};
use crate::words::{Arguments, is_readable, selects_secret};

/// A program that only reads.
pub(crate) struct ReadOnlyProgram {
    names: &'static [&'static str],
    arguments: Arguments,
    /// Letters of options without a value, and then of options with one that names no file.
    letters: (&'static str, &'static str),
    /// Long options, with or without a value, separated by spaces.
    long: &'static str,
    /// Most words that are no options, where a further one would be written to.
    most: usize,
}

const fn reader(
    names: &'static [&'static str],
    arguments: Arguments,
    letters: (&'static str, &'static str),
    long: &'static str,
) -> ReadOnlyProgram {
    ReadOnlyProgram { names, arguments, letters, long, most: usize::MAX }
}

const READERS: &[ReadOnlyProgram] = &[
    reader(
        &[
            ":", "true", "false", "pwd", "whoami", "id", "uname", "arch", "nproc", "echo", "printf", "basename",
            "dirname", "seq", "sleep", "tr", "which", "type", "uptime", "set", "logname", "groups", "expr", "cal",
            "cd", "chdir",
        ],
        Arguments::Texts,
        ("", ""),
        "",
    ),
    reader(&["date"], Arguments::Content, ("uR", "drI"), "utc universal date reference rfc-email rfc-3339 iso-8601"),
    // Its options are tests of one file or text each.
    reader(&["test"], Arguments::Names, ("abcdefghklnopqrstuvwxzGLNORS0123456789", ""), ""),
    reader(
        &["ls", "dir"],
        Arguments::Names,
        ("aAbBcCdfFgGhiIklmnNopqQrRsStTuUvwxXZ1", ""),
        "all almost-all author block-size classify color directory escape file-type format full-time \
         group-directories-first hide human-readable ignore ignore-backups indicator-style inode kibibytes \
         literal no-group numeric-uid-gid quote-name quoting-style recursive reverse show-control-chars si \
         size sort time time-style width zero",
    ),
    reader(&["stat"], Arguments::Names, ("fLtxnq", "c"), "dereference file-system format printf terse"),
    reader(
        &["du"],
        Arguments::Names,
        ("0abchkmsSx", "dtB"),
        "all apparent-size block-size bytes count-links exclude human-readable inodes max-depth null \
         one-file-system separate-dirs si summarize threshold time total",
    ),
    reader(
        &["realpath", "readlink"],
        Arguments::Names,
        ("efmnqszLPv", ""),
        "canonicalize canonicalize-existing canonicalize-missing logical no-newline no-symlinks physical \
         quiet relative-base relative-to silent strip zero",
    ),
    reader(
        &["df", "free"],
        Arguments::Names,
        ("abghHiklmPtTvw", "Bcs"),
        "all human human-readable inodes local mega giga kibi mebi output total type print-type",
    ),
    reader(
        &["tree"],
        Arguments::Names,
        ("aACdDfFgGhiJnNpqQrsStuUvxX", "HILPT"),
        "charset device dirsfirst du filelimit filesfirst ignore-case inodes matchdirs metafirst noreport \
         prune si sort timefmt",
    ),
    reader(&["wc"], Arguments::Measures, ("clLmw", ""), "bytes chars lines max-line-length total words"),
    // With `-z`, it starts programs that decompress.
    reader(
        &["file"],
        Arguments::Measures,
        ("bEhiIkLNnr0", "eFP"),
        "apple brief dereference exclude extension keep-going mime mime-encoding mime-type no-buffer \
         no-dereference no-pad parameter print0 raw separator",
    ),
    reader(
        &["cat"],
        Arguments::Content,
        ("AbeEnstTuv", ""),
        "number number-nonblank show-all show-ends show-nonprinting show-tabs squeeze-blank",
    ),
    reader(
        &["head", "tail"],
        Arguments::Content,
        ("qrvz0123456789", "bcn"),
        "bytes lines quiet silent verbose zero-terminated",
    ),
    reader(
        &["nl"],
        Arguments::Content,
        ("p", "bdfhilnsvw"),
        "body-numbering footer-numbering header-numbering line-increment no-renumber number-format \
         number-separator number-width section-delimiter starting-line-number",
    ),
    reader(&["tac"], Arguments::Content, ("br", "s"), "before regex separator"),
    reader(&["rev"], Arguments::Content, ("", ""), ""),
    reader(
        &["cut"],
        Arguments::Content,
        ("nszw", "bcdf"),
        "bytes characters complement delimiter fields only-delimited output-delimiter zero-terminated",
    ),
    reader(&["fold"], Arguments::Content, ("bs0123456789", "w"), "bytes spaces width"),
    reader(&["paste"], Arguments::Content, ("sz", "d"), "delimiters serial zero-terminated"),
    reader(
        &["comm"],
        Arguments::Content,
        ("123iz", ""),
        "check-order nocheck-order output-delimiter total zero-terminated",
    ),
    reader(&["cmp"], Arguments::Content, ("bls", "in"), "bytes ignore-initial print-bytes quiet silent verbose"),
    reader(
        &["od"],
        Arguments::Content,
        ("abcdfhiloOsvxBDHX", "AjNStw"),
        "address-radix endian format output-duplicates read-bytes skip-bytes strings width",
    ),
    reader(&["hexdump"], Arguments::Content, ("bcCdovxX", "ens"), "canonical length no-squeezing skip"),
    reader(
        &["strings"],
        Arguments::Content,
        ("adfhw0123456789", "ents"),
        "all bytes data encoding include-all-whitespace output-separator print-file-name radix",
    ),
    reader(
        &["column"],
        Arguments::Content,
        ("eJLtx", "cHlnNoRsTW"),
        "json output-separator output-width separator table table-columns table-right",
    ),
    reader(
        &["cksum", "md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum"],
        Arguments::Content,
        ("btz", "al"),
        "algorithm base64 binary length raw tag text untagged zero",
    ),
    reader(&["expand", "unexpand"], Arguments::Content, ("ai0123456789", "t"), "all first-only initial tabs"),
    reader(
        &["fmt"],
        Arguments::Content,
        ("cstu0123456789", "gpw"),
        "crown-margin goal prefix split-only tagged-paragraph uniform-spacing width",
    ),
    reader(
        &["sort"],
        Arguments::Content,
        ("bcCdfghiMmnrRsuVz", "kSt"),
        "buffer-size check debug dictionary-order field-separator general-numeric-sort human-numeric-sort \
         ignore-case ignore-leading-blanks ignore-nonprinting key merge month-sort numeric-sort parallel \
         random-sort reverse sort stable unique version-sort zero-terminated",
    ),
    // Of two directories, it opens the targets of links in them.
    reader(
        &["diff"],
        Arguments::Content,
        ("abBcdeEinNpqstTuwyZ0123456789", "CFIUW"),
        "brief color context ed expand-tabs horizon-lines ignore-all-space ignore-blank-lines ignore-case \
         ignore-matching-lines ignore-space-change ignore-tab-expansion ignore-trailing-space initial-tab \
         label left-column minimal new-file normal rcs report-identical-files show-c-function \
         show-function-line side-by-side speed-large-files strip-trailing-cr suppress-blank-empty \
         suppress-common-lines tabsize text unified width",
    ),
    ReadOnlyProgram {
        names: &["uniq"],
        arguments: Arguments::Content,
        letters: ("cdDiuz", "fsw"),
        long: "all-repeated check-chars count group ignore-case repeated skip-chars skip-fields unique \
         zero-terminated",
        most: 1,
    },
    ReadOnlyProgram {
        names: &["xxd"],
        arguments: Arguments::Content,
        letters: ("abCdeEipuR", "cglnos"),
        long: "",
        most: 1,
    },
    reader(
        &["grep", "egrep", "fgrep"],
        Arguments::Trees,
        ("abcEFGhHiIlLnoPqrsTUvVwxyzZ0123456789", "ABCem"),
        "after-context basic-regexp before-context binary binary-files byte-offset color colour context \
         count directories exclude exclude-dir extended-regexp files-with-matches files-without-match \
         fixed-strings ignore-case include initial-tab invert-match label line-buffered line-number \
         line-regexp max-count no-filename no-ignore-case no-messages null null-data only-matching \
         perl-regexp quiet recursive regexp silent text with-filename word-regexp",
    ),
    reader(
        &["rg"],
        Arguments::Trees,
        ("0abcFHiIlnNopPqsSUvwx", "ABCdegjmMrtTE"),
        "after-context auto-hybrid-regex before-context block-buffered byte-offset case-sensitive color \
         colors column context context-separator count count-matches crlf encoding engine files \
         files-with-matches files-without-match fixed-strings glob glob-case-insensitive heading iglob \
         ignore-case include-zero invert-match json line-buffered line-number line-regexp max-columns \
         max-columns-preview max-count max-depth max-filesize multiline multiline-dotall no-column \
         no-config no-filename no-heading no-ignore no-ignore-dot no-ignore-global no-ignore-parent \
         no-ignore-vcs no-line-number no-messages no-mmap no-unicode null null-data one-file-system \
         only-matching passthru path-separator pcre2 pretty quiet regexp replace smart-case sort sortr \
         stats stop-on-nonmatch text threads trim type type-list type-not vimgrep with-filename word-regexp",
    ),
];

/// Tests and actions of `find` that read attributes and write names to its output.
const FIND: &str = "a amin and anewer atime cmin cnewer ctime d daystart depth empty executable false fstype gid group \
         ilname iname inum ipath iregex iwholename links lname ls maxdepth mindepth mmin mount mtime name \
         newer newermt nogroup noleaf not nouser o or P path perm print print0 printf prune quit readable \
         regex regextype samefile size true type uid used user wholename writable xdev xtype E";

/// Returns the entry of a program; `find` has [`is_find`] instead.
pub(crate) fn find_reader(name: &str) -> Option<&'static ReadOnlyProgram> {
    READERS.iter().find(|reader| reader.names.contains(&name))
}

/// Returns whether a program is one that only reads, and opens no file that its arguments name.
pub(crate) fn shows_no_content(name: &str) -> bool {
    name == "find"
        || find_reader(name).is_some_and(|reader| matches!(reader.arguments, Arguments::Texts | Arguments::Names))
}

/// Returns whether `find` only shows names.
pub(crate) fn is_find(command: &Simple, scene: &Scene<'_>) -> bool {
    command.words[1..].iter().all(|word| {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
        let is_mode =
            |text: &str| text.contains(['+', '=']) && text.bytes().all(|byte| b"ugoarwxXst+-=,".contains(&byte));
        let is_known = |name: &str| FIND.split(' ').any(|known| known == name) || is_number(name) || is_mode(name);
        // Also values, as in `-perm -644` and `-perm -u+x`.
        word.text.strip_prefix('-').is_none_or(is_known) && is_readable(word, Arguments::Names, command, scene)
    })
}

impl ReadOnlyProgram {
    /// Returns whether a command of this program opens nothing but files of the workspace, and changes nothing.
    pub(crate) fn permits(&self, command: &Simple, scene: &Scene<'_>) -> bool {
        let arguments = &command.words[1..];
        let name = command.words[0].text.as_str();
        let is_printf_to_variable = name == "printf" && arguments.iter().any(|word| word.text.starts_with("-v"));
        // Behind `--`, all words count.
        let options = arguments.iter().position(|word| word.text == "--").unwrap_or(arguments.len());
        let operands = || {
            let before = arguments[..options].iter().filter(|word| !word.text.starts_with('-') || word.text == "-");
            before.chain(arguments.get(options + 1..).unwrap_or_default())
        };
        let is_operand = |word: &Word| match self.arguments {
            // Some programs open the content of a directory, and others fail.
            Arguments::Content => !is_directory(word, command),
            _ => true,
        };
        !is_printf_to_variable
            && (self.arguments != Arguments::Trees || !selects_secret(arguments))
            && operands().count() <= self.most
            && (name != "date" || shows_time(arguments))
            // It reads further arguments from such a file.
            && (name != "strings" || !arguments.iter().any(|word| word.text.starts_with('@')))
            && (self.arguments == Arguments::Texts || arguments[..options].iter().all(|word| self.has_option(word)))
            && operands().all(is_operand)
            && arguments.iter().all(|word| is_readable(word, self.arguments, command, scene))
    }

    /// Returns whether a word is not an option, or consists of listed ones.
    fn has_option(&self, word: &Word) -> bool {
        let Some(text) = word.text.strip_prefix('-').filter(|text| !text.is_empty()) else { return true };
        if let Some(long) = text.strip_prefix('-') {
            let name = long.split('=').next().unwrap_or_default();
            return self.long.split(' ').any(|known| known == name);
        }
        let (letters, valued) = self.letters;
        for letter in text.chars() {
            if valued.contains(letter) {
                return true;
            }
            if !letters.contains(letter) {
                return false;
            }
        }
        true
    }
}

/// Returns whether a word names a directory, in one of the directories where a command may start.
fn is_directory(word: &Word, command: &Simple) -> bool {
    let mut directories = command.directories.iter().flatten();
    word.kind != WordKind::Literal || directories.any(|directory| directory.join(&word.text).is_dir())
}

/// Returns whether `date` only shows a time: it sets the clock to a word that is neither a format nor a value.
fn shows_time(arguments: &[Word]) -> bool {
    const VALUES: &[&str] = &["-d", "-r", "-ud", "-ur", "--date", "--reference"];
    let mut before = "";
    arguments.iter().all(|word| {
        let is_value = VALUES.contains(&std::mem::replace(&mut before, &word.text));
        is_value || (word.text.starts_with(['-', '+']) && word.text != "--")
    })
}
