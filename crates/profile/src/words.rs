//! Enumerations whose variants each have a name.

/// Defines an enumeration with `ALL`, its variants in the order of declaration, and a function that returns the name of
/// each.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)+ }
     $(#[$about:meta])* fn $method:ident;) => {
        $(#[$meta])*
        $vis enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
            /// Every variant, in the order of declaration and of tables.
            #[allow(dead_code, reason = "not every enumeration is listed")]
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            $(#[$about])*
            $vis const fn $method(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}
