//! Python's data packages on files larger than the limit: the same results as natively.

use super::agents::python;
use super::mapped::is_served;
use super::{folder, is_long, plain_shell_in, run_counted};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Finds an interpreter in `target/python-packages` or the path.
pub(super) fn python_with(packages: &str, test: &str) -> Option<String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let installed = target.join("python-packages/bin/python3").display().to_string();
    let imports = |name: &String| {
        let import = Command::new(name).args(["-c", &format!("import {packages}")]).output();
        import.is_ok_and(|output| output.status.success())
    };
    let found = [installed, python().to_owned()].into_iter().find(imports);
    if found.is_none() {
        eprintln!(
            "SKIPPED: {test}: python3 has not all of {packages} (python3 -m venv \
             target/python-packages; target/python-packages/bin/pip install them)"
        );
    }
    found
}

fn compare(package: &str, test: &str) {
    let packages = format!("numpy, {package}");
    let packages = if package == "numpy" { "numpy" } else { &packages };
    let Some(python) = python_with(packages, test) else { return };
    // Each file is larger than the limit.
    let (megabytes, memory) = if is_long() { ("640", "64M") } else { ("40", "8M") };
    let native = folder();
    let script = ["packages.py", package, "use", megabytes];
    std::fs::write(native.path().join(script[0]), include_str!("data_packages.py")).unwrap();
    let fill = format!("'{python}' {} {package} fill {megabytes}", script[0]);
    plain_shell_in(native.path(), &fill);
    let begun: Vec<_> = ["kernel", "cache"].map(|mode| (mode, folder())).into();
    for (_, here) in &begun {
        plain_shell_in(native.path(), &format!("cp -r . '{}'", here.path().display()));
    }
    let expected = plain_shell_in(native.path(), &format!("'{python}' {}", script.join(" ")));
    let sums = "find . -type f ! -name summary.json | sort | xargs md5sum";
    let expected_sums = plain_shell_in(native.path(), sums);
    for (mode, here) in begun {
        if mode == "cache" && !is_served(here.path(), test) {
            continue;
        }
        let command = [&[&*python][..], &script].concat();
        let (output, counts) = run_counted(here.path(), memory, &["--mmap", mode], &command);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{package} {mode}: {errors}");
        assert!(output.status.success(), "{package} {mode}: {}: {errors}", output.status);
        assert_eq!(plain_shell_in(here.path(), sums), expected_sums, "{package} {mode}");
        assert_served(&counts, mode == "cache" && package != "h5py");
        // flock does not end the service of a file.
        let is_locked = !counts["kernel_files"]["locked as only the kernel can"].is_null();
        assert!(!is_locked, "{package} {mode}: {counts}");
    }
}

fn assert_served(counts: &Value, is_mapped: bool) {
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert!(count("accesses") > 0, "{counts}");
    assert!(count("resident_bytes_max") <= count("memory_bytes"), "{counts}");
    assert!(!is_mapped || count("mappings") > 0, "{counts}");
}

macro_rules! packages {
    ($($test:ident = $package:literal;)+) => {
        $(
            #[test]
            fn $test() {
                compare($package, stringify!($test));
            }
        )+
    };
}

packages! {
    numpy_computes_the_same_on_a_file_larger_than_the_limit = "numpy";
    h5py_computes_the_same_on_a_file_larger_than_the_limit = "h5py";
    pyarrow_computes_the_same_on_files_larger_than_the_limit = "pyarrow";
    polars_computes_the_same_on_files_larger_than_the_limit = "polars";
}
