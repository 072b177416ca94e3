//! The header is cbindgen's output for the code.

use std::path::Path;

#[test]
fn the_header_is_of_this_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = ["door", "cache", "steer", "file", "page", "group", "region", "policy"];
    let made = sources.iter().fold(cbindgen::Builder::new().with_config(config), |builder, one| {
        builder.with_src(root.join(format!("src/{one}.rs")))
    });
    let mut text = Vec::new();
    made.generate().unwrap().write(&mut text);
    let path = root.join("include/pagetide.h");
    if std::env::var_os("PAGETIDE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let is = std::fs::read(&path).unwrap_or_default();
    assert!(is == text, "make it anew: PAGETIDE_WRITE_HEADER=1 cargo test -p pagetide-capi");
}
