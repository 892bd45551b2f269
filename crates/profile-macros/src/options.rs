//! The options in the parentheses of the attribute.

use proc_macro::{TokenStream, TokenTree};

/// Names of kinds; their variants have the same words.
const KINDS: &str = "cpu, wait, launch, sync, kernel, host-to-device, device-to-host, device-to-device, allocation, \
                     compile, instrumentation, in-flight";

pub(crate) struct Options {
    /// The literal, with its quotes.
    pub(crate) name: Option<String>,
    /// Variant of `Kind`.
    pub(crate) kind: String,
    pub(crate) skip: bool,
    /// Path of the crate.
    pub(crate) path: String,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self, String> {
        let mut options = Self { name: None, kind: "Cpu".into(), skip: false, path: "::ellwand_profile".into() };
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
        for member in tokens.split(is_comma).filter(|member| !member.is_empty()) {
            let key = member.first().map_or_else(String::new, ToString::to_string);
            let value: TokenStream = member.iter().skip(2).cloned().collect();
            let value = value.to_string();
            let has_value = member.get(1).is_some_and(|token| token.to_string() == "=") && !value.is_empty();
            match (key.as_str(), has_value) {
                ("skip", false) if member.len() == 1 => options.skip = true,
                ("name", true) if value.starts_with('"') => options.name = Some(value),
                ("kind", true) => options.kind = kind(value.trim_matches('"'))?,
                ("crate", true) => options.path = value,
                _ => {
                    let found: TokenStream = member.iter().cloned().collect();
                    return Err(format!(
                        "#[profile]: `{found}` is unknown; expected name = \"..\", kind = \"..\", skip or crate = path"
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn kind(word: &str) -> Result<String, String> {
    if !KINDS.split(", ").any(|name| name == word) {
        return Err(format!("#[profile]: kind `{word}` is unknown; expected one of {KINDS}"));
    }
    Ok(word.split('-').map(|part| format!("{}{}", part[..1].to_uppercase(), &part[1..])).collect())
}
