//! A file reads the same after many opens.

use super::{folder, has, is_long, plain_shell_in, shell_in};

#[test]
fn the_last_of_many_opens_is_as_the_first() {
    if !has("gcc", "the_last_of_many_opens_is_as_the_first") {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a.c"), include_str!("many_opens.c")).unwrap();
    std::fs::write(here.path().join("long"), [&b"contents"[..], &[0; 300_000]].concat()).unwrap();
    plain_shell_in(here.path(), "gcc -O1 a.c -o a");
    let nr_opens = if is_long() { 300_000 } else { 5_000 };
    assert_eq!(shell_in(here.path(), "1M", &format!("./a {nr_opens}")), "ok\n");
    assert_eq!(std::fs::metadata(here.path().join("long")).unwrap().len(), 300_008);
}
