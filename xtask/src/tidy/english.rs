//! House English: messages, comments and documents avoid turns that read like a literal translation.

use super::Sources;

/// The turns to avoid. Not a source file, so the rule does not match its own list.
const TABLE: &str = include_str!("english.txt");

/// No line has a banned turn.
pub(crate) fn plain(sources: &Sources) -> Vec<String> {
    let turns: Vec<(&str, &str)> =
        TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|row| row.split_once(" => ")).collect();
    let mut broken = Vec::new();
    let kinds =
        [".rs", ".md", ".py", ".pyi", ".toml", ".sh", ".ci/run", ".js", ".css", ".html", ".cu", ".cuh", ".wgsl"];
    for (name, text) in sources.ending(&kinds) {
        let prose = match name.rsplit_once('.') {
            Some((_, "rs")) => tokens(text, literal, |_| true),
            // Not its code, where `None` is a value.
            Some((_, "py" | "pyi")) => tokens(text, literal_of_python, |_| true),
            _ => text.to_string(),
        }
        .to_lowercase();
        for (index, (line, original)) in prose.lines().zip(text.lines()).enumerate() {
            if let Some((turn, better)) = turns.iter().find(|(turn, _)| has(line, turn)) {
                let (turn, original) = (turn.trim_end_matches('|'), original.trim());
                broken.push(format!("{name}:{}: {original}\n    not \"{turn}\", but: {better}", index + 1));
            }
        }
    }
    broken
}

/// No doc comment has only one or two words, which repeat the name; a code span or a link may stand alone.
pub(crate) fn saying_something(sources: &Sources) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, text) in sources.ending(&[".rs"]) {
        let doc = |line: &str| {
            let line = line.trim_start();
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::to_string)
        };
        let lines: Vec<Option<String>> = text.lines().map(doc).collect();
        let mut first = 0;
        for block in lines.split(Option::is_none) {
            let words: Vec<&str> = block.iter().flatten().flat_map(|line| line.split_whitespace()).collect();
            if (1..=2).contains(&words.len()) && !words.concat().contains(['`', '[']) {
                broken.push(format!("{name}:{}: \"{}\" says no more than the name", first + 1, words.join(" ")));
            }
            first += block.len() + 1;
        }
    }
    broken
}

/// True if `line` contains `turn` as whole words; a final `|` also requires that no word follows.
fn has(line: &str, turn: &str) -> bool {
    let (words, last) = turn.strip_suffix('|').map_or((turn, false), |words| (words, true));
    line.match_indices(words).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + words.len()..]);
        let next = if last { after.trim_start_matches(' ') } else { after };
        !before.ends_with(char::is_alphanumeric) && !next.starts_with(char::is_alphanumeric)
    })
}

/// The string literals of a Rust file; lines keep their numbers.
pub(super) fn strings(text: &str) -> String {
    tokens(text, literal, |token| !token.starts_with("//"))
}

/// A Rust file without its comments and string literals; lines keep their numbers.
pub(super) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let literal = literal(rest);
        let (token, after) = rest.split_at(literal.unwrap_or(first.len_utf8()));
        match literal {
            Some(_) => code.extend(token.chars().filter(|c| *c == '\n')),
            None => code.push_str(token),
        }
        rest = after;
    }
    code
}

/// The comments and strings that `literal` finds and `keep` selects; the rest becomes empty lines and spaces.
fn tokens(text: &str, literal: fn(&str) -> Option<usize>, keep: impl Fn(&str) -> bool) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let literal = literal(rest);
        let (token, after) = rest.split_at(literal.unwrap_or(first.len_utf8()));
        match literal {
            Some(_) if keep(token) => prose.push_str(token),
            Some(_) => {}
            None => prose.push(if first == '\n' { '\n' } else { ' ' }),
        }
        rest = after;
    }
    prose
}

/// The length of the comment or string at the start of `rest`, in Python.
fn literal_of_python(rest: &str) -> Option<usize> {
    if rest.starts_with('#') {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote))?;
    let (bytes, mut at) = (rest.as_bytes(), quote.len());
    while at < bytes.len() && !bytes[at..].starts_with(quote.as_bytes()) {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some((at + quote.len()).min(bytes.len()))
}

/// The length of the comment or literal at the start of `rest`, in Rust.
fn literal(rest: &str) -> Option<usize> {
    let end = |from: usize, close: &str| rest[from..].find(close).map_or(rest.len(), |at| from + at + close.len());
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
        return Some(end(1, "\"'"));
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        return raw[hashes..].starts_with('"').then(|| end(hashes + 2, &format!("\"{}", "#".repeat(hashes))));
    }
    let mut escaped = false;
    let close = rest.strip_prefix('"')?.find(|c| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    });
    Some(close.map_or(rest.len(), |at| at + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_found_in_comments_and_strings_only() {
        let banned = concat!("to", "ld");
        let text = format!("let {banned} = '\"'; // c\nr#\"a \"b\" {banned}\"#;\nf() // {banned}\n\"\\\"\" {banned}\n");
        let lines: Vec<bool> = tokens(&text, literal, |_| true).lines().map(|line| has(line, banned)).collect();
        assert_eq!(lines, [false, true, true, false]);
        assert!(!has("untold", banned) && has(&format!("it is {banned}."), banned));
        assert!(has("a core of its, too", "of its|") && !has("a core of its cache", "of its|"));
        let file = |name: &str| Sources { files: vec![(name.into(), format!("// {banned}\n"))] };
        for name in ["crates/core/src/a.rs", "workloads/kde/src/a.cu", "crates/page/web/js/a.js"] {
            let broken = plain(&file(name));
            assert!(broken.len() == 1 && broken[0].contains(&format!("{name}:1: // ")), "{broken:?}");
        }
    }

    #[test]
    fn a_doc_comment_of_one_or_two_words_is_found_with_its_line() {
        let text = "/// The\n/// reason: none.\nstruct A {\n    /// The width.\n    b: u8,\n    /// See [`C`].\n    c: u8,\n}\n";
        let broken = saying_something(&Sources { files: vec![("a.rs".into(), text.into())] });
        assert!(broken.len() == 1 && broken[0].starts_with("a.rs:4: \"The width.\""), "{broken:?}");
    }

    #[test]
    fn python_is_read_for_comments_and_strings_and_other_files_as_a_whole() {
        let banned = concat!("to", "ld");
        let broken = |name: &str, text: &str| {
            let text = text.replace("BANNED", banned);
            plain(&Sources { files: vec![(name.into(), text)] }).len()
        };
        assert_eq!(
            broken("a.py", "BANNED = 1\nx = 2  # BANNED\n# BANNED\ny = 'é\\'' + BANNED + \"\"\"\n\"BANNED\"\n\"\"\"\n"),
            3
        );
        for name in ["a.sh", ".ci/run", "Cargo.toml", "a.js", "a.css", "a.wgsl"] {
            assert_eq!(broken(name, "echo \"BANNED\"\n"), 1, "{name}");
        }
    }
}
