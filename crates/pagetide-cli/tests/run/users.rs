//! A run grants no additional access: not to a child of another user or with fewer rights, nor to a
//! stranger with the server's name. Needs root.

use super::agents::{Agent, Tree, python};
use super::{folder, has, noise, pagetide, plain_shell_in, run_counted};
use std::path::Path;
use std::process::Command;

const EACCES: i32 = 13;
const EBADF: i32 = 9;

fn is_root(test: &str) -> bool {
    let is_root = plain_shell_in(Path::new("/"), "id -u").trim() == "0";
    if !is_root {
        eprintln!("SKIPPED: {test}: needs root, to become another user");
    }
    is_root && has("python3", test)
}

/// Opens a file of root with pages in memory as descriptor 9, unreadable for other users.
fn keeper(here: &Path) -> (Tree, Agent, Vec<u8>) {
    let contents = noise(300_000, 4);
    std::fs::write(here.join("secret"), &contents).unwrap();
    plain_shell_in(here, "chmod 600 secret && chmod 755 .");
    let (tree, mut parent) = Tree::under_run(here, "1M", "parent");
    let file = parent.open("secret", "O_RDONLY");
    parent.number(&format!("os.dup2({file}, 9)"));
    assert!(parent.bytes("os.pread(9, 1 << 20, 0)") == contents);
    (tree, parent, contents)
}

#[test]
fn a_child_of_another_user_has_the_descriptors_rights_and_no_more() {
    let test = "a_child_of_another_user_has_the_descriptors_rights_and_no_more";
    if !is_root(test) {
        return;
    }
    let here = folder();
    let (tree, mut parent, contents) = keeper(here.path());
    let log = parent.open("log", "O_WRONLY | O_CREAT | O_APPEND");
    parent.number(&format!("os.write({log}, b'parent\\n')"));
    for become_other in ["os.setuid(65534)", "os.setresuid(65534, 65534, 0)", "os.seteuid(65534)"] {
        eprintln!("{become_other}");
        let mut child = parent.fork("child");
        assert!(child.bytes("os.pread(9, 4096, 4096)") == contents[4096..8192]);
        child.value(become_other);
        assert!(child.bytes("os.pread(9, 1 << 20, 0)") == contents);
        assert_eq!(child.ask("os.pwrite(9, b'stolen', 0)"), Err(EBADF));
        assert_eq!(child.ask("os.ftruncate(9, 0)"), Err(22));
        for name in ["secret", "/proc/self/fd/9"] {
            for flags in ["os.O_RDONLY", "os.O_WRONLY", "os.O_RDWR | os.O_TRUNC"] {
                assert_eq!(child.ask(&format!("os.open({name:?}, {flags})")), Err(EACCES));
            }
        }
        child.number(&format!("os.write({log}, b'child\\n')"));
        // The child has no writable mapping of the server's memory files.
        let maps = String::from_utf8(child.bytes("contents('/proc/self/maps')")).unwrap();
        let shared: Vec<&str> = maps.lines().filter(|line| line.contains("memfd:")).collect();
        let writable = shared.iter().filter(|line| line.contains(" rw"));
        assert_eq!(writable.count(), 0, "{shared:?}");
        let id = child.number("os.getpid()");
        drop(child);
        parent.number(&format!("os.waitpid({id}, 0)[1]"));
        parent.number(&format!("os.write({log}, b'parent\\n')"));
    }
    assert!(parent.bytes("os.pread(9, 1 << 20, 0)") == contents);
    drop(parent);
    tree.finish();
    assert!(std::fs::read(here.path().join("secret")).unwrap() == contents);
    let written = std::fs::read_to_string(here.path().join("log")).unwrap();
    assert_eq!(written, format!("parent\n{}", "child\nparent\n".repeat(3)));
}

#[test]
fn a_descriptor_that_a_program_inherits_and_never_uses_works_for_the_user_it_becomes() {
    let test = "a_descriptor_that_a_program_inherits_and_never_uses_works_for_the_user_it_becomes";
    if !is_root(test) || !has("setpriv", test) {
        return;
    }
    let here = folder();
    let (tree, mut parent, contents) = keeper(here.path());
    let words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let words = [&words[..], &["sh", "-c", "cat <&9"]].concat();
    let run = format!("subprocess.run({words:?}, pass_fds=[9], stdout=subprocess.PIPE).stdout");
    assert!(parent.bytes(&run) == contents);
    drop(parent);
    tree.finish();
}

/// Root without its capabilities may not read what is another's, and the server is no way around.
#[test]
fn a_child_with_fewer_rights_gets_no_file_by_the_servers() {
    let test = "a_child_with_fewer_rights_gets_no_file_by_the_servers";
    if !is_root(test) || !has("setpriv", test) {
        return;
    }
    let here = folder();
    let contents = noise(300_000, 5);
    std::fs::write(here.path().join("others"), &contents).unwrap();
    plain_shell_in(here.path(), "chown 65534 others && chmod 600 others");
    let (tree, mut parent) = Tree::under_run(here.path(), "1M", "parent");
    let held = parent.open("others", "O_RDWR");
    assert!(parent.bytes(&format!("os.pread({held}, 1 << 20, 0)")) == contents);
    let script = "import os\n\
        for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):\n \
        try: print(os.open('others', flags))\n \
        except OSError as error: print(error.errno)";
    let words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", python(), "-c", script];
    let seen = parent.bytes(&format!("subprocess.run({words:?}, stdout=subprocess.PIPE).stdout"));
    assert_eq!(String::from_utf8_lossy(&seen), "13\n13\n13\n");
    assert!(parent.bytes(&format!("os.pread({held}, 1 << 20, 0)")) == contents);
    drop(parent);
    tree.finish();
}

/// Returns the name of the run's socket.
fn name_of(agent: &mut Agent) -> String {
    let run = agent.value("os.environ['PAGETIDE_RUN']");
    run.split(':').nth(2).expect("version, flags, name").to_owned()
}

#[test]
fn a_stranger_at_the_servers_socket_gets_nothing_and_stops_nobody() {
    let test = "a_stranger_at_the_servers_socket_gets_nothing_and_stops_nobody";
    if !is_root(test) {
        return;
    }
    let here = folder();
    let (tree, mut parent, contents) = keeper(here.path());
    let name = name_of(&mut parent);
    let script = format!(
        "import os, random, socket, sys\n\
         random.seed(7)\n\
         if sys.argv[1] == 'other': os.setuid(65534)\n\
         for turn in range(60):\n \
         link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n \
         link.connect('\\0{name}')\n \
         try:\n  \
         for packet in range(turn % 4):\n   \
         link.send(random.randbytes(random.choice((0, 1, 24, 48, 9000))))\n  \
         if sys.argv[1] == 'other': link.shutdown(socket.SHUT_WR); print(link.recv(100))\n \
         except OSError as error: print(b'')\n \
         link.close()\n"
    );
    std::fs::write(here.path().join("stranger.py"), script).unwrap();
    for user in ["same", "other"] {
        let printed = plain_shell_in(here.path(), &format!("{} stranger.py {user}", python()));
        assert!(printed.lines().all(|line| line == "b''"), "{user}: {printed}");
        // Existing and new processes are served.
        assert!(parent.bytes("os.pread(9, 1 << 20, 0)") == contents);
        let mut child = parent.fork("child");
        let log = child.open("log", "O_RDWR | O_CREAT | O_APPEND");
        child.number(&format!("os.write({log}, b'{user} ')"));
        let seen = child.bytes(&format!("os.pread({log}, 100, 0)"));
        assert!(String::from_utf8_lossy(&seen).ends_with(&format!("{user} ")));
    }
    drop(parent);
    tree.finish();
    let log = std::fs::read_to_string(here.path().join("log")).unwrap();
    assert_eq!(log, "same other ");
}

/// As memcached does.
#[test]
fn a_program_that_sets_the_groups_it_has_is_served_on() {
    let test = "a_program_that_sets_the_groups_it_has_is_served_on";
    if !is_root(test) {
        return;
    }
    let script = "import os; os.setgroups(os.getgroups())\n\
        fd = os.open('a', os.O_RDWR | os.O_CREAT)\n\
        os.write(fd, bytes(1 << 20))\n\
        assert len(os.pread(fd, 1 << 20, 0)) == 1 << 20";
    let here = folder();
    let (output, counts) = run_counted(here.path(), "1M", &[], &["python3", "-c", script]);
    assert!(output.status.success() && counts["accesses"].as_u64() >= Some(256), "{counts}");
}

#[test]
fn groups_at_a_bad_address_are_refused_as_by_the_kernel() {
    let test = "groups_at_a_bad_address_are_refused_as_by_the_kernel";
    if !is_root(test) || !has("setpriv", test) {
        return;
    }
    let script = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n\
        nr = len(os.getgroups()); assert nr == 2\n\
        assert libc.setgroups(nr, ctypes.c_void_p(8)) == -1\n\
        print(os.strerror(ctypes.get_errno()))";
    let mut run = Command::new("setpriv");
    run.args(["--groups", "5,6"]).arg(pagetide());
    run.args(["run", "-q", "--memory", "1M", "--", "python3", "-c", script]);
    let output = run.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Bad address\n", "{output:?}");
}
