//! Links the unwinder statically if the C compiler has an archive. A shared one is one more library
//! to load in every program, which costs more than everything else.

use std::path::Path;
use std::process::Command;

const ARCHIVE: &str = "libgcc_eh.a";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let asked = Command::new("cc").arg(format!("-print-file-name={ARCHIVE}")).output();
    let path = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    // Without an archive, the compiler prints the bare name.
    if let Some(folder) = path.ok().as_deref().and_then(|path| Path::new(path).parent())
        && folder.is_absolute()
    {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=gcc_eh");
    }
}
