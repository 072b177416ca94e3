//! Finds a cache by its socket, its process, a descendant, or as the only one.

use crate::failure::Failure;
use pagetide::control::{self, SocketPlace};
use std::path::PathBuf;
use std::time::Duration;

/// A slower cache is busy or stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Fails if there is no such cache or more than one.
pub(super) fn find(name: Option<&str>) -> Result<PathBuf, Failure> {
    let pid = match name {
        None => None,
        Some(name) => match name.parse::<u32>() {
            Ok(pid) => Some(pid),
            Err(_) => return Ok(PathBuf::from(name)),
        },
    };
    let places = control::list().map_err(|error| Failure::on("look for caches", &error))?;
    choose(&places, pid, parent_of).map_err(Failure::Refused)
}

fn choose(
    places: &[SocketPlace],
    pid: Option<u32>,
    parent_of: impl Fn(u32) -> Option<u32>,
) -> Result<PathBuf, String> {
    let of = |pid: u32| places.iter().filter(|it| it.pid == pid).collect::<Vec<_>>();
    let meant = match pid {
        None => places.iter().collect(),
        Some(pid) => {
            let above =
                std::iter::successors(Some(pid), |pid| parent_of(*pid).filter(|it| *it > 1));
            above.map(of).find(|found| !found.is_empty()).unwrap_or_default()
        }
    };
    match (meant.as_slice(), pid) {
        ([one], _) => Ok(one.path.clone()),
        ([], None) => {
            let folder = control::folder();
            Err(format!(
                "no cache of this user can be asked: there is no socket in {}",
                folder.display()
            ))
        }
        ([], Some(pid)) => {
            Err(format!("process {pid} has no cache that can be asked{}", those(places)))
        }
        (several, _) => {
            let several: Vec<SocketPlace> = several.iter().map(|one| (*one).clone()).collect();
            Err(format!("several caches can be asked; say which{}", those(&several)))
        }
    }
}

fn those(places: &[SocketPlace]) -> String {
    let lines = places.iter().map(|it| format!("\n  {}  {}", it.pid, it.path.display()));
    if places.is_empty() { String::new() } else { format!(":{}", lines.collect::<String>()) }
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_of_a_process() {
        assert_eq!(parent_of(std::process::id()), Some(std::os::unix::process::parent_id()));
        assert_eq!(parent_of(u32::MAX), None);
    }

    #[test]
    fn none_and_a_wrong_process_are_told_apart() {
        let none = choose(&[], None, |_| None).unwrap_err();
        assert!(none.starts_with("no cache of this user can be asked"), "{none}");
        let wrong = choose(&[], Some(7), |pid| Some(pid - 1)).unwrap_err();
        assert_eq!(wrong, "process 7 has no cache that can be asked");
    }
}
