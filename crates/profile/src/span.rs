//! The macro that starts a span.

/// Starts a span that lasts until the end of the block if its guard is bound to a name: `let _span = span!("softmax");`
/// (`let _ =` would end it at once).
///
/// The name must be a constant. These may follow in any order, and are evaluated only while the span is recorded:
///
/// - `bytes`, `flops` and `items`: work done, as any number type ([`Amount`](crate::Amount)).
/// - any other name: an argument, of a number type, `bool` or text.
/// - `kind`: what the time is spent on, a constant [`Kind`](crate::Kind); CPU work otherwise.
/// - `measure`: what this span always measures, constant [`Measures`](crate::Measures).
///
/// ```
/// use ellwand_profile::{Kind, Measures, Mode, Options, Profiler, span};
///
/// fn softmax(x: &mut [f32]) {
///     let _span = span!("softmax", bytes = 8 * x.len(), items = x.len(), shape = "16x1");
///     // ...
/// }
/// let profiler = Profiler::new(Options::new(Mode::Full { bytes: 1 << 20 }));
/// let scope = profiler.enter();
/// softmax(&mut [0.0; 16]);
/// drop(span!("queue", kind = Kind::Wait, measure = Measures::CPU));
/// drop(scope);
/// let trace = profiler.finish();
/// assert_eq!(trace.summary().rows.len(), 2);
/// ```
///
/// While nothing is recorded this costs a load and a branch ([`cost`](crate::cost()) measures it).
#[macro_export]
macro_rules! span {
    ($name:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, ::core::file!(), ::core::line!());
        $crate::Guard::enter(&SITE)
    }};
    ($name:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::__span!(@ [$name] enter [] [] [] $($key = ($value),)+)
    };
}

/// Sorts the members of [`span!`]: site, counters, arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __span {
    (@ [$name:expr] $enter:ident [$($site:tt)*] [$($counter:tt)*] [$($arg:tt)*] bytes = ($value:expr), $($rest:tt)*) => {
        $crate::__span!(@ [$name] $enter [$($site)*] [$($counter)* .bytes($value)] [$($arg)*] $($rest)*)
    };
    (@ [$name:expr] $enter:ident [$($site:tt)*] [$($counter:tt)*] [$($arg:tt)*] items = ($value:expr), $($rest:tt)*) => {
        $crate::__span!(@ [$name] $enter [$($site)*] [$($counter)* .items($value)] [$($arg)*] $($rest)*)
    };
    (@ [$name:expr] $enter:ident [$($site:tt)*] [$($counter:tt)*] [$($arg:tt)*] flops = ($value:expr), $($rest:tt)*) => {
        $crate::__span!(@ [$name] $enter [$($site)*] [$($counter)* .flops($value)] [$($arg)*] $($rest)*)
    };
    (@ [$name:expr] $enter:ident [$($site:tt)*] [$($counter:tt)*] [$($arg:tt)*] kind = ($value:expr), $($rest:tt)*) => {
        $crate::__span!(@ [$name] $enter [$($site)* .kind($value)] [$($counter)*] [$($arg)*] $($rest)*)
    };
    (@ [$name:expr] $enter:ident [$($site:tt)*] [$($counter:tt)*] [$($arg:tt)*] measure = ($value:expr), $($rest:tt)*) => {
        $crate::__span!(@ [$name] enter_measured [$($site)* .measure($value)] [$($counter)*] [$($arg)*] $($rest)*)
    };
    (@ [$name:expr] $enter:ident [$($site:tt)*] [$($counter:tt)*] [$($arg:tt)*] $key:ident = ($value:expr), $($rest:tt)*) => {
        $crate::__span!(@ [$name] $enter [$($site)*] [$($counter)*] [$($arg)* $key = ($value),] $($rest)*)
    };
    (@ [$name:expr] $enter:ident [$($site:tt)*] [$($counter:tt)*] [$($key:ident = ($value:expr),)*]) => {{
        static SITE: $crate::Site = $crate::Site::new($name, ::core::file!(), ::core::line!())$($site)*;
        let guard = $crate::Guard::$enter(&SITE);
        if guard.is_on() {
            $crate::__span!(@count guard [$($counter)*]);
            if guard.is_kept() {
                $(guard.arg(::core::stringify!($key), $value);)*
            }
        }
        guard
    }};
    (@count $guard:ident []) => {};
    (@count $guard:ident [$($counter:tt)+]) => {
        $guard.count($crate::Counters::default()$($counter)+)
    };
}
