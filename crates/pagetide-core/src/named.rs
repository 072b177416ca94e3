//! Enums with typed names: list, printing, parsing and error from one declaration.

/// Declares such an enum, and the error for an unknown name. In the form
/// `Variant = "name", "summary";`, the summary also documents the variant.
///
/// ```
/// pagetide_core::named! {
///     /// Where to turn.
///     pub enum Turn or UnknownTurn("no such turn") {
///         /// Where the heart is.
///         Left = "left",
///         /// The other way.
///         Right = "right",
///     }
/// }
/// assert_eq!("left".parse(), Ok(Turn::Left));
/// assert_eq!(Turn::ALL.map(Turn::as_str), ["left", "right"]);
/// assert_eq!(UnknownTurn.to_string(), "no such turn; there are left, right");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$of_enum:meta])*
        pub enum $name:ident or $unknown:ident($said:literal) {
            $($(#[$of_variant:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl $name {
            /// All variants, in order.
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant,)+];

            /// Returns the name, as typed.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        $crate::typed!($name or $unknown($said));
    };
    (
        $(#[$of_enum:meta])*
        pub enum $name:ident or $unknown:ident($said:literal) {
            $($variant:ident = $text:literal, $summary:literal;)+
        }
    ) => {
        $crate::named! {
            $(#[$of_enum])*
            pub enum $name or $unknown($said) {
                $(#[doc = $summary] $variant = $text,)+
            }
        }

        impl $name {
            /// Returns a one-line description.
            pub const fn summary(self) -> &'static str {
                match self { $($name::$variant => $summary,)+ }
            }
        }
    };
}

/// The half of [`named!`](crate::named!) for an enum with `ALL` and `as_str`.
#[macro_export]
macro_rules! typed {
    ($name:ident or $unknown:ident($said:literal)) => {
        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::core::str::FromStr for $name {
            type Err = $unknown;

            fn from_str(text: &str) -> ::core::result::Result<$name, $unknown> {
                $name::ALL.iter().copied().find(|it| it.as_str() == text).ok_or($unknown)
            }
        }

        /// Unknown name. The message lists the known ones.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $unknown;

        impl ::core::fmt::Display for $unknown {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(concat!($said, "; there are"))?;
                $name::ALL.iter().enumerate().try_for_each(|(nth, it)| {
                    let before = if nth == 0 { "" } else { "," };
                    write!(f, "{before} {it}")
                })
            }
        }

        impl ::core::error::Error for $unknown {}
    };
}
