//! The attribute `#[profile]` of `ellwand-profile`.
//!
//! It works on tokens, without a parser of the language: it looks for the body of each function and leaves everything
//! else as it is. A full parser would cost a user's build twice what the profiler costs.

mod function;
mod items;
mod options;

use proc_macro::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};

use items::{Item, What};
use options::Options;

/// Puts a function, or every function of an `impl` block, a trait or a module, inside a span.
///
/// ```ignore
/// #[profile]
/// fn encode(x: &[f32]) -> Vec<u8> { .. }           // encode
///
/// #[profile(name = "fetch page", kind = "wait")]
/// async fn fetch(url: &str) -> Page { .. }         // one span for each poll
///
/// #[profile]
/// impl Codec {
///     fn decode(&self) { .. }                      // Codec::decode
///     #[profile(skip)]
///     fn is_empty(&self) -> bool { .. }            // none
/// }
/// ```
///
/// - `name = ".."`: the name of the span; for a function only.
/// - `kind = ".."`: what the time is spent on: `cpu` (default), `wait`, `launch`, `sync`, `allocation`, `compile`, ..
/// - `skip`: leaves the function as it is.
/// - `crate = path`: the path of `ellwand_profile`, such as `ellwand::profile`.
///
/// A span of an `async fn` follows its task: every poll is a span on the thread that polls, and the last one has the
/// arguments `polls` and `elapsed_ns`. If the future is dropped before its end, a span of the drop has these arguments.
/// `const fn` in a block stay as they are.
#[proc_macro_attribute]
pub fn profile(attribute: TokenStream, item: TokenStream) -> TokenStream {
    match expand(attribute, item.clone()) {
        Ok(expanded) => expanded,
        Err(message) => {
            // Keep the item too, so this is the only message.
            let mut out = error(&message);
            out.extend(item);
            out
        }
    }
}

fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream, String> {
    let options = Options::parse(attribute)?;
    if options.skip {
        return Ok(item);
    }
    let item = Item::of(&item.into_iter().collect::<Vec<_>>());
    match item.what {
        What::Function if item.is_const() => Err("#[profile]: a `const fn` cannot contain a span".into()),
        What::Function => function::instrument(&item, &options, "")
            .ok_or_else(|| "#[profile]: expected a function with a body".to_string()),
        _ if options.name.is_some() => {
            Err("#[profile]: `name` names one function; leave it out on an `impl` block, a trait or a module".into())
        }
        What::Container => Ok(container(&item, &options)),
        What::Other => Err("#[profile]: expected a function, an `impl` block, a trait or a module".into()),
    }
}

/// The item with every function inside instrumented.
fn container(item: &Item, options: &Options) -> TokenStream {
    let Some(TokenTree::Group(body)) = item.tokens.last().filter(|body| items::is_block(body)) else {
        return item.tokens.iter().cloned().collect();
    };
    let prefix = format!("{}::", item.name());
    let mut inside = TokenStream::new();
    for inner in items::split(body.stream()) {
        let plain = || inner.tokens.iter().cloned().collect::<TokenStream>();
        inside.extend(match inner.what {
            _ if inner.has_own_attribute() => plain(),
            What::Function if !inner.is_const() => function::instrument(&inner, options, &prefix).unwrap_or_else(plain),
            What::Container => container(&inner, options),
            _ => plain(),
        });
    }
    let head = item.tokens.iter().take(item.tokens.len() - 1).cloned();
    head.chain([function::block(inside, body)]).collect()
}

/// `compile_error!(message);`
fn error(message: &str) -> TokenStream {
    let text = TokenStream::from(TokenTree::Literal(Literal::string(message)));
    let mut out: TokenStream = "::core::compile_error!".parse().unwrap_or_default();
    let mut group = Group::new(Delimiter::Brace, text);
    group.set_span(Span::call_site());
    out.extend([TokenTree::Group(group)]);
    out
}
