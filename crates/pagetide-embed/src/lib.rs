//! A shared library that was built as a dependency, as bytes of the program that depends on it.
//!
//! **Problem.** `cargo install` installs programs and nothing else, so that a library which a
//! program loads into others has to travel inside it. Cargo's stable releases say nowhere where a
//! dependency's `cdylib` is.
//!
//! **Idea.** A dependency that is both `rlib` and `cdylib` is built by one call of rustc, into one
//! folder and under one name, before a program that depends on it. The path of the `rlib` is among
//! the arguments of the compiler which this macro runs in:
//!
//! ```text
//!   rustc --extern pagetide_preload=target/release/deps/libpagetide_preload.rlib ...
//!   cdylib!("pagetide_preload") --> include_bytes!("target/release/deps/libpagetide_preload.so")
//! ```
//!
//! **Ignored.** What only checks the code (`cargo check`, clippy, an editor) has no library yet:
//! there are no bytes then.

use proc_macro::TokenStream;
use std::path::{Path, PathBuf};

/// The shared library of a dependency, named as rustc does, with `_`: a `&'static [u8]`, empty
/// where the code is only checked.
#[proc_macro]
pub fn cdylib(name: TokenStream) -> TokenStream {
    let name = name.to_string();
    let arguments: Vec<String> = std::env::args().collect();
    let library = shared_library(&arguments, name.trim_matches('"'));
    let code = match library.filter(|path| path.is_file()) {
        Some(path) => format!("::core::include_bytes!({:?}).as_slice()", absolute(&path)),
        None => "&[]".to_owned(),
    };
    code.parse().expect("it is an expression")
}

/// Rustc takes paths for relative to where it runs, and `include_bytes` to the source file.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Where the library would be, if the compiler was told of an archive of that name.
fn shared_library(arguments: &[String], name: &str) -> Option<PathBuf> {
    arguments.iter().find_map(|argument| {
        let (names, path) = argument.trim_start_matches("--extern=").split_once('=')?;
        // As in `priv,noprelude:name`.
        let is_it = names.rsplit(':').next() == Some(name);
        let path = Path::new(path);
        (is_it && path.extension()? == "rlib").then(|| path.with_extension("so"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(arguments: &[&str]) -> Option<PathBuf> {
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        shared_library(&arguments, "lib_a")
    }

    #[test]
    fn the_archive_of_that_name_is_found_however_it_is_passed() {
        let there = Some(PathBuf::from("/t/deps/liblib_a-1f.so"));
        assert_eq!(found(&["--extern", "lib_a=/t/deps/liblib_a-1f.rlib"]), there);
        assert_eq!(found(&["--extern=priv,noprelude:lib_a=/t/deps/liblib_a-1f.rlib"]), there);
    }

    #[test]
    fn others_and_what_is_only_checked_are_not() {
        assert_eq!(found(&["--extern", "lib_ab=/t/liblib_ab.rlib"]), None);
        assert_eq!(found(&["--extern", "lib_a=/t/liblib_a.rmeta"]), None);
        assert_eq!(found(&["--extern", "lib_a", "-Lx=y"]), None);
    }
}
