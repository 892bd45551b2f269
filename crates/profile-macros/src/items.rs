//! Items in a stream of tokens: where one ends and what it is.

use proc_macro::{Delimiter, TokenStream, TokenTree};

/// The kinds of item that the attribute distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Function,
    /// An `impl` block, a trait or a module.
    Container,
    Other,
}

pub(crate) struct Item {
    pub(crate) tokens: Vec<TokenTree>,
    pub(crate) what: What,
    /// Index of `fn`, `impl`, `trait` or `mod`.
    pub(crate) keyword: usize,
}

/// Words that may precede `fn`, `impl`, `trait` or `mod`.
const QUALIFIERS: [&str; 8] = ["pub", "const", "async", "unsafe", "extern", "default", "safe", "auto"];

pub(crate) fn is_block(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

pub(crate) fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

pub(crate) fn is_word(token: Option<&TokenTree>, wanted: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident.to_string() == wanted)
}

/// Depth of angle brackets, token by token. In signatures `<` and `>` are brackets, except in `->` and `=>`.
#[derive(Default)]
pub(crate) struct Angles {
    pub(crate) depth: usize,
    is_arrow: bool,
}

impl Angles {
    pub(crate) fn see(&mut self, token: &TokenTree) {
        let TokenTree::Punct(punct) = token else {
            self.is_arrow = false;
            return;
        };
        match punct.as_char() {
            '<' => self.depth += 1,
            '>' if !self.is_arrow => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.is_arrow = matches!(punct.as_char(), '-' | '=');
    }
}

impl Item {
    pub(crate) fn of(tokens: &[TokenTree]) -> Self {
        let (keyword, what) = classify(tokens);
        Self { tokens: tokens.to_vec(), what, keyword }
    }

    fn has_qualifier(&self, word: &str) -> bool {
        self.tokens.iter().take(self.keyword).any(|token| is_word(Some(token), word))
    }

    pub(crate) fn is_const(&self) -> bool {
        self.has_qualifier("const")
    }

    pub(crate) fn is_async(&self) -> bool {
        self.has_qualifier("async")
    }

    /// True if the item has its own `#[profile]`, under any path.
    pub(crate) fn has_own_attribute(&self) -> bool {
        self.tokens.iter().take(self.keyword).any(|token| {
            let TokenTree::Group(group) = token else { return false };
            let path = group.stream().into_iter().take_while(|token| !matches!(token, TokenTree::Group(_)));
            group.delimiter() == Delimiter::Bracket && is_word(path.last().as_ref(), "profile")
        })
    }

    /// The name of a function, module, trait, or of the type of an `impl` block.
    pub(crate) fn name(&self) -> String {
        let rest = self.tokens.get(self.keyword + 1..).unwrap_or_default();
        if !is_word(self.tokens.get(self.keyword), "impl") {
            return rest.first().map_or_else(String::new, ToString::to_string);
        }
        // The last word outside angle brackets: that of the trait, or of the type after `for`.
        let mut angles = Angles::default();
        let mut name = String::new();
        for token in rest {
            if is_block(token) || (angles.depth == 0 && is_word(Some(token), "where")) {
                break;
            }
            angles.see(token);
            if let (0, TokenTree::Ident(ident)) = (angles.depth, token) {
                let word = ident.to_string();
                if !["for", "dyn", "mut", "const", "as"].contains(&word.as_str()) {
                    name = word;
                }
            }
        }
        name
    }
}

/// Index of the keyword that determines the kind of item, and that kind.
fn classify(tokens: &[TokenTree]) -> (usize, What) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            // An attribute.
            TokenTree::Punct(punct) if punct.as_char() == '#' => at += 1,
            TokenTree::Group(group) if group.delimiter() != Delimiter::Brace => {}
            // The ABI of `extern "C"`.
            TokenTree::Literal(_) => {}
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                "fn" => return (at, What::Function),
                "impl" | "trait" | "mod" => return (at, What::Container),
                word if QUALIFIERS.contains(&word) => {}
                _ => return (at, What::Other),
            },
            _ => return (at, What::Other),
        }
        at += 1;
    }
    (at, What::Other)
}

/// The items of a block.
pub(crate) fn split(stream: TokenStream) -> Vec<Item> {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut items = Vec::new();
    let mut start = 0;
    while start < tokens.len() {
        let rest = tokens.get(start..).unwrap_or_default();
        let (keyword, what) = classify(rest);
        let length = length(rest, keyword, what).min(rest.len()).max(1);
        items.push(Item { tokens: rest.get(..length).unwrap_or_default().to_vec(), what, keyword });
        start += length;
    }
    items
}

/// Number of tokens of the first item.
fn length(tokens: &[TokenTree], keyword: usize, what: What) -> usize {
    // Values may contain blocks, so only a semicolon ends these items.
    let is_value =
        what == What::Other && ["use", "type", "static", "let"].iter().any(|word| is_word(tokens.get(keyword), word));
    let is_constant = what == What::Other && tokens.iter().take(keyword).any(|token| is_word(Some(token), "const"));
    let mut angles = Angles::default();
    for (at, token) in tokens.iter().enumerate().skip(keyword) {
        if is_punct(Some(token), ';') {
            return at + 1;
        }
        if is_block(token) && angles.depth == 0 && !is_value && !is_constant {
            return at + 1;
        }
        if what != What::Other {
            angles.see(token);
        }
    }
    tokens.len()
}
