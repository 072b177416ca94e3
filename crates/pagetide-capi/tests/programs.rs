//! The examples in C and C++, compiled against the header and the library, and run with and without
//! the sanitizers for addresses and undefined behaviour.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SANITIZE: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

#[test]
fn a_page_is_pinned_from_c() {
    let Some(program) = Example::build("cc", "pinned.c", &["-std=c11"], &[]) else { return };
    let said = program.run();
    assert!(said.ends_with(" 0 wrong\n"), "{said}");
}

#[test]
fn a_page_is_pinned_from_c_under_the_sanitizers() {
    let Some(program) = Example::build("cc", "pinned.c", &["-std=c11"], &SANITIZE) else { return };
    assert!(program.run().contains(" 0 wrong"));
}

#[test]
fn a_region_is_an_array_of_c() {
    let Some(program) = Example::build("cc", "region.c", &["-std=c11"], &[]) else { return };
    assert!(["", "sum 137438691328, 4096 bytes written\n"].contains(&program.run().as_str()));
}

#[test]
fn a_region_is_an_array_of_c_under_the_sanitizers() {
    let Some(program) = Example::build("cc", "region.c", &["-std=c11"], &SANITIZE) else { return };
    assert!(["", "sum 137438691328, 4096 bytes written\n"].contains(&program.run().as_str()));
}

#[test]
fn a_policy_decides_for_objects_of_c() {
    let Some(program) = Example::build("cc", "policy.c", &["-std=c11"], &[]) else { return };
    assert_eq!(program.run(), "enough hits, 0 wrong\n");
}

#[test]
fn a_policy_decides_for_objects_of_c_under_the_sanitizers() {
    let Some(program) = Example::build("cc", "policy.c", &["-std=c11"], &SANITIZE) else { return };
    assert_eq!(program.run(), "enough hits, 0 wrong\n");
}

#[test]
fn a_pool_of_cpp_threads_reads() {
    let Some(program) = Example::build("c++", "readers.cc", &["-std=c++17"], &[]) else { return };
    assert_eq!(program.run(), "4096 pages read by 4 threads, 0 bytes wrong\n");
}

#[test]
fn a_pool_of_cpp_threads_reads_under_the_sanitizers() {
    let Some(program) = Example::build("c++", "readers.cc", &["-std=c++17"], &SANITIZE) else {
        return;
    };
    assert_eq!(program.run(), "4096 pages read by 4 threads, 0 bytes wrong\n");
}

/// A program in a folder of its own, with a file.
struct Example {
    folder: tempfile::TempDir,
}

impl Example {
    /// Returns `None`, after a message, without a compiler or without these sanitizers.
    fn build(
        compiler: &str,
        source: &str,
        language: &[&str],
        sanitize: &[&str],
    ) -> Option<Example> {
        let folder = tempfile::tempdir().unwrap();
        if !compiles(compiler, folder.path(), sanitize) {
            let with = sanitize.first().unwrap_or(&"nothing more");
            println!("SKIPPED: {source}: no {compiler} that links with {with}: install gcc, g++");
            return None;
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = Command::new(compiler)
            .args(language)
            .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"])
            .args(sanitize)
            .arg("-I")
            .arg(root.join("include"))
            .arg(root.join("examples").join(source))
            .arg("-o")
            .arg(folder.path().join("program"))
            .arg(library())
            .output()
            .unwrap();
        assert!(output.status.success(), "{source}: {}", errors_of(&output));
        Some(Example { folder })
    }

    /// Returns the output. The program must succeed, or report a skip, which prints nothing.
    fn run(&self) -> String {
        let output = Command::new(self.folder.path().join("program"))
            .arg(self.folder.path().join("big.bin"))
            .env("LD_LIBRARY_PATH", library().parent().unwrap())
            .output()
            .unwrap();
        if output.status.code() == Some(77) {
            println!("SKIPPED: an example: {}: allow userfaultfd", errors_of(&output).trim());
            return String::new();
        }
        assert!(output.status.success(), "{:?}: {}", output.status, errors_of(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Returns the shared library that was built with this test.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.with_file_name("libpagetide_capi.so")
}

fn errors_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn compiles(compiler: &str, folder: &Path, options: &[&str]) -> bool {
    let source = folder.join(if compiler == "cc" { "probe.c" } else { "probe.cc" });
    std::fs::write(&source, "int main() { return 0; }\n").unwrap();
    let built = Command::new(compiler)
        .args(options)
        .arg(&source)
        .arg("-o")
        .arg(folder.join("probe"))
        .output();
    built.is_ok_and(|output| output.status.success())
}
