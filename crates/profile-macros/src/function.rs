//! A function with a span in its body.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

use crate::items::{Angles, Item, is_block, is_punct, is_word};
use crate::options::Options;

/// The function with its body inside a span; `None` if it has no body.
pub(crate) fn instrument(item: &Item, options: &Options, prefix: &str) -> Option<TokenStream> {
    let body = match item.tokens.last() {
        Some(TokenTree::Group(body)) if item.tokens.last().is_some_and(is_block) => body,
        _ => return None,
    };
    let name = options.name.clone().unwrap_or_else(|| format!("{:?}", format!("{prefix}{}", item.name())));
    let path = &options.path;
    let kind = &options.kind;
    let mut inside = TokenStream::new();
    if item.is_async() {
        let mut future = returns(item);
        future.extend(body.stream());
        inside.extend(parsed(&format!(
            "static __ELLWAND_SITE: {path}::Site =
                 {path}::Site::new({name}, ::core::file!(), ::core::line!()).kind({path}::Kind::{kind});"
        )));
        inside.extend(parsed(&format!("{path}::task::in_site")));
        let mut arguments = parsed("&__ELLWAND_SITE, async move");
        arguments.extend([block(future, body)]);
        inside.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
        inside.extend(parsed(".await"));
    } else {
        inside.extend(parsed(&format!("let __ellwand_span = {path}::span!({name}, kind = {path}::Kind::{kind});")));
        inside.extend(body.stream());
    }
    let head = item.tokens.iter().take(item.tokens.len() - 1).cloned();
    Some(head.chain([block(inside, body)]).collect())
}

pub(crate) fn block(stream: TokenStream, like: &Group) -> TokenTree {
    let mut group = Group::new(Delimiter::Brace, stream);
    group.set_span(like.span());
    TokenTree::Group(group)
}

/// Our own source as tokens. It is always valid; an error would be a defect of this crate.
fn parsed(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|_| crate::error("#[profile]: `crate` or `name` is not valid"))
}

/// A statement that gives the compiler the type of an `async` block, which it cannot see through a function: without
/// it, `?` and `return` in the body would need annotations. Empty if the type has no name.
fn returns(item: &Item) -> TokenStream {
    let mut angles = Angles::default();
    let mut output: Option<Vec<TokenTree>> = None;
    let signature = item.tokens.iter().take(item.tokens.len() - 1).skip(item.keyword);
    let mut previous: Option<&TokenTree> = None;
    for token in signature {
        if angles.depth == 0 && is_word(Some(token), "where") {
            break;
        }
        let is_arrow = angles.depth == 0 && is_punct(previous, '-') && is_punct(Some(token), '>');
        angles.see(token);
        previous = Some(token);
        match &mut output {
            Some(output) => output.push(token.clone()),
            None if is_arrow => output = Some(Vec::new()),
            None => {}
        }
    }
    let output: TokenStream = output.map_or_else(|| parsed("()"), |output| output.into_iter().collect());
    let text = output.to_string();
    if text == "!" || text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "impl") {
        return TokenStream::new();
    }
    let mut statement = parsed(
        "#[allow(unreachable_code, clippy::diverging_sub_expression, clippy::needless_return, clippy::empty_loop)]
         if false",
    );
    let mut inner = parsed("let __ellwand_output:");
    inner.extend(output);
    inner.extend(parsed("= loop {}; return __ellwand_output;"));
    statement.extend([TokenTree::Group(Group::new(Delimiter::Brace, inner))]);
    statement
}
