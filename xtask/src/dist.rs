//! `cargo x dist`: the distribution in one folder, with checksums.
//!
//! ```text
//!   <target folder>/release/dist/
//!     bin/pagetide                      the command, with the library of `run` inside
//!     lib/pagetide/                     that library as a file, for an installation for all users
//!     lib/ include/ lib/pkgconfig/      libpagetide.so and .a, pagetide.h, pagetide.pc
//!     share/                            manual pages, completions
//!     *.deb *.whl                       where cargo-deb and maturin are installed
//!     SHA256SUMS
//! ```
//!
//! `bin`, `lib`, `include` and `share` can be copied to a prefix.
//!
//! Ignored: other machines than this one, signatures, archives.

use crate::python::with_command;
use crate::step::{Outcome, StepContext};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const LIMIT: Duration = Duration::from_secs(3600);
const PRELOAD: &str = "libpagetide_preload.so";
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/pagetide"),
    ("zsh", "share/zsh/site-functions/_pagetide"),
    ("fish", "share/fish/vendor_completions.d/pagetide.fish"),
];

/// Builds the distribution. Returns true if everything possible on this machine was built.
pub(crate) fn run(root: &Path) -> bool {
    match make(root) {
        Ok(folder) => {
            println!("{}", folder.display());
            true
        }
        Err(why) => {
            eprintln!("{why}");
            false
        }
    }
}

fn make(root: &Path) -> Result<PathBuf, String> {
    let context = StepContext::new(root, "dist", LIMIT).map_err(|error| error.to_string())?;
    let built = context.target_dir().join("release");
    let dist = Dist { root, folder: built.join("dist"), built, context };
    dist.begin()?;
    dist.command()?;
    dist.library()?;
    dist.share()?;
    dist.packages()?;
    dist.sums()?;
    Ok(dist.folder)
}

struct Dist<'a> {
    root: &'a Path,
    built: PathBuf,
    folder: PathBuf,
    context: StepContext<'a>,
}

impl Dist<'_> {
    fn begin(&self) -> Result<(), String> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(|error| on(&self.folder, &error))?;
        }
        for text in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            self.copy(&self.root.join(text), &format!("share/doc/pagetide/{text}"))?;
        }
        Ok(())
    }

    /// Adds the command, and its embedded library of `run`.
    fn command(&self) -> Result<(), String> {
        self.cargo(&["build", "--release", "--locked", "--package", "pagetide-cli"])?;
        self.copy(&self.built.join("pagetide"), "bin/pagetide")?;
        self.copy(&self.built.join("deps").join(PRELOAD), &format!("lib/pagetide/{PRELOAD}"))
    }

    /// Adds the C library, laid out as by `cargo cinstall`.
    fn library(&self) -> Result<(), String> {
        let (whole, soname) = (library_name(3), library_name(2));
        let linked = format!("link-arg=-Wl,-soname,{soname}");
        let kinds = ["--lib", "--crate-type", "cdylib,staticlib"];
        let build = ["rustc", "--release", "--locked", "--package", "pagetide-capi"];
        self.cargo(&[&build[..], &kinds, &["--", "-C", &linked]].concat())?;
        self.copy(&self.built.join("libpagetide_capi.so"), &format!("lib/{whole}"))?;
        self.copy(&self.built.join("libpagetide_capi.a"), "lib/libpagetide.a")?;
        for name in [soname.as_str(), "libpagetide.so"] {
            let link = self.place(&format!("lib/{name}"))?;
            symlink(&whole, &link).map_err(|error| on(&link, &error))?;
        }
        let header = self.root.join("crates/pagetide-capi/include/pagetide.h");
        self.copy(&header, "include/pagetide.h")?;
        self.write("lib/pkgconfig/pagetide.pc", &pkg_config())
    }

    fn share(&self) -> Result<(), String> {
        let manuals = self.place("share/man/man1/pagetide.1")?;
        let folder = manuals.parent().expect("it is in one");
        self.ask(&["manuals", &folder.to_string_lossy()])?;
        for (shell, path) in COMPLETIONS {
            self.write(path, &self.ask(&["completions", shell])?)?;
        }
        Ok(())
    }

    fn packages(&self) -> Result<(), String> {
        let folder = self.folder.to_string_lossy().into_owned();
        if succeeds("cargo", &["deb", "--version"]) {
            let deb = ["deb", "--no-build", "--no-strip", "--package", "pagetide-cli"];
            self.cargo(&[&deb[..], &["--output", &folder]].concat())?;
        } else {
            println!("SKIPPED: dist: no .deb: cargo install cargo-deb");
        }
        let wheel = self.root.join("crates/pagetide-py/Cargo.toml");
        if !wheel.is_file() {
            return Ok(());
        }
        if succeeds("maturin", &["--version"]) {
            let manifest = wheel.to_string_lossy();
            let build = ["build", "--release", "--locked", "--manifest-path", &manifest];
            let build = [&build[..], &["--out", &folder]].concat();
            let (door, command) = (wheel.with_file_name(""), self.folder.join("bin/pagetide"));
            let built = with_command(&door, &command, || self.step("maturin", &build));
            built.map_err(|error| on(&door, &error))?
        } else {
            println!("SKIPPED: dist: no wheel: pip install maturin");
            Ok(())
        }
    }

    /// Writes the SHA-256 of every file, for `sha256sum --check`.
    fn sums(&self) -> Result<(), String> {
        let sum = "find . -type f ! -name SHA256SUMS -printf '%P\\0' | sort -z \
                   | xargs -0 sha256sum > SHA256SUMS";
        let output = Command::new("sh").args(["-c", sum]).current_dir(&self.folder).output();
        let output = output.map_err(|error| on(&self.folder, &error))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("no checksums: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(), String> {
        self.step("cargo", arguments)
    }

    fn step(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let line = format!("{program} {}", arguments.join(" "));
        println!("{line}");
        match self.context.command(program, arguments, &[]) {
            Outcome::Done => Ok(()),
            Outcome::Skipped(why) => Err(why),
            Outcome::Failed | Outcome::TimedOut => {
                let log = self.context.log().display();
                Err(format!("{}\n{line} failed; whole output in {log}", self.context.read_log()))
            }
        }
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let command = self.folder.join("bin/pagetide");
        let output = Command::new(&command).args(arguments).output();
        let output = output.map_err(|error| on(&command, &error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn place(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        let parent = path.parent().expect("it is in a folder");
        fs::create_dir_all(parent).map_err(|error| on(parent, &error))?;
        Ok(path)
    }

    fn copy(&self, from: &Path, name: &str) -> Result<(), String> {
        let to = self.place(name)?;
        fs::copy(from, &to).map(drop).map_err(|error| on(from, &error))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.place(name)?;
        fs::write(&path, text).map_err(|error| on(&path, &error))
    }
}

fn on(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Returns the C library's file name with this many version parts. Before 1.0, programs depend on
/// two.
fn library_name(nr_parts: usize) -> String {
    let parts: Vec<&str> = VERSION.split('.').take(nr_parts).collect();
    format!("libpagetide.so.{}", parts.join("."))
}

/// Uses relative paths, so that the folder can be copied anywhere.
fn pkg_config() -> String {
    format!(
        "\
prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: pagetide
Description: A page cache over real files, with a hard byte limit
Version: {VERSION}
Libs: -L${{libdir}} -lpagetide
Libs.private: -lgcc_s -lpthread -lm -ldl -lc
Cflags: -I${{includedir}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_named_by_its_version() {
        let parts: Vec<&str> = VERSION.split('.').collect();
        assert_eq!(library_name(3), format!("libpagetide.so.{VERSION}"));
        assert_eq!(library_name(2), format!("libpagetide.so.{}.{}", parts[0], parts[1]));
        assert!(pkg_config().contains(&format!("\nVersion: {VERSION}\n")));
    }
}
