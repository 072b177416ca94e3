//! Links the unwinder in, where the C compiler has it as an archive: a shared one would be one more
//! library to load for every program under a run, which costs more than all else of ours.

use std::path::Path;
use std::process::Command;

const ARCHIVE: &str = "libgcc_eh.a";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let asked = Command::new("cc").arg(format!("-print-file-name={ARCHIVE}")).output();
    let path = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    // Where there is none, the compiler answers with the bare name.
    if let Some(folder) = path.ok().as_deref().and_then(|path| Path::new(path).parent())
        && folder.is_absolute()
    {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=gcc_eh");
    }
}
