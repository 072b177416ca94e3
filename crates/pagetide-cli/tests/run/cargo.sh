# A small crate, built, run and tested, without a network; and built again after a change.
set -eu
mkdir -p small/src
cd small
printf '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' >Cargo.toml
printf 'pub fn twice(x: u32) -> u32 { x * 2 }\n' >src/lib.rs
printf '#[test]\nfn doubles() { assert_eq!(twice(2), 4); }\n' >>src/lib.rs
printf 'fn main() { println!("{}", small::twice(21)); }\n' >src/main.rs
export CARGO_TARGET_DIR=target
unset RUSTFLAGS RUSTC_WRAPPER CARGO_BUILD_TARGET
cargo build --quiet --offline
./target/debug/small
cargo test --quiet --offline --lib | grep -c '1 passed'
sed -i s/21/12/ src/main.rs
cargo build --quiet --offline
./target/debug/small
