//! Processes controlled by a test, for a fixed order of operations.
//!
//! ```text
//!   test --"os.pread(fd, 4, 0)"--> agent, a python under a run, in another, or outside
//!        <--"ok 74657874"---------
//! ```

use super::pagetide;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// An expression's value, or its errno.
pub(super) type Answer = Result<String, i32>;

pub(super) struct Agent {
    stream: BufReader<UnixStream>,
    name: String,
    /// Standard error of the agent and its run.
    log: PathBuf,
}

impl Agent {
    fn new(stream: UnixStream, name: &str, log: &Path) -> Self {
        Self { stream: BufReader::new(stream), name: name.to_owned(), log: log.to_owned() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns `None` if the process is gone.
    pub(super) fn try_ask(&mut self, expression: &str) -> Option<Answer> {
        self.tell(expression);
        self.answer(expression)
    }

    /// Does not wait for the answer.
    pub(super) fn tell(&mut self, expression: &str) {
        // The read of the answer detects a dead process.
        let _ = self.stream.get_mut().write_all(format!("{expression}\n").as_bytes());
    }

    pub(super) fn answer(&mut self, expression: &str) -> Option<Answer> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        let line = line.trim_end_matches('\n');
        if let Some(number) = line.strip_prefix("errno ") {
            return Some(Err(number.parse().unwrap()));
        }
        let value = line.strip_prefix("ok ");
        Some(Ok(value.unwrap_or_else(|| panic!("{}: {expression}: {line}", self.name)).to_owned()))
    }

    pub(super) fn ask(&mut self, expression: &str) -> Answer {
        self.try_ask(expression).unwrap_or_else(|| {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            panic!("{} is gone: {expression}: {said}", self.name)
        })
    }

    /// Evaluates an expression that must succeed.
    pub(super) fn value(&mut self, expression: &str) -> String {
        let answer = self.ask(expression);
        answer.unwrap_or_else(|error| panic!("{}: {expression}: errno {error}", self.name))
    }

    pub(super) fn number(&mut self, expression: &str) -> i64 {
        self.value(expression).parse().unwrap()
    }

    pub(super) fn bytes(&mut self, expression: &str) -> Vec<u8> {
        from_hex(&self.value(expression))
    }

    /// Takes `flags` such as `O_RDWR | O_CREAT`.
    pub(super) fn open(&mut self, name: &str, flags: &str) -> i64 {
        let flags = flags.replace("O_", "os.O_");
        self.number(&format!("os.open({name:?}, {flags}, 0o644)"))
    }

    /// Forks an agent that inherits all descriptors.
    pub(super) fn fork(&mut self, name: &str) -> Self {
        let (socket, listener) = listen();
        self.number(&format!("fork({socket:?})"));
        Self::new(listener.accept().unwrap().0, name, &self.log)
    }

    /// Fails with the message of a refused run.
    pub(super) fn nested(&mut self, name: &str) -> Result<Self, String> {
        let (socket, listener) = listen();
        let line = [pagetide().to_str().unwrap(), "run", "--memory", "1M", "--", python()];
        let log = "stderr=open('nested.log', 'wb')";
        let start = format!("subprocess.Popen({line:?} + ['-S', 'agent.py', {socket:?}], {log})");
        self.value(&format!("globals().update(run={start}) or 0"));
        listener.set_nonblocking(true).unwrap();
        loop {
            if let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(false).unwrap();
                return Ok(Self::new(stream, name, &self.log));
            }
            if self.value("run.poll()") != "None" {
                return Err(String::from_utf8(self.bytes("contents('nested.log')")).unwrap());
            }
            std::thread::yield_now();
        }
    }
}

pub(super) struct Tree {
    child: Child,
    log: PathBuf,
}

impl Tree {
    pub(super) fn outside(folder: &Path, name: &str) -> (Self, Agent) {
        Self::begin(folder, Command::new(python()), name)
    }

    pub(super) fn under_run(folder: &Path, memory: &str, name: &str) -> (Self, Agent) {
        let mut run = Command::new(pagetide());
        run.args(["run", "--memory", memory, "--", python()]);
        Self::begin(folder, run, name)
    }

    /// Starts `command`, a python that becomes the agent.
    pub(super) fn begin(folder: &Path, mut command: Command, name: &str) -> (Self, Agent) {
        std::fs::write(folder.join("agent.py"), include_str!("agent.py")).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let log = folder.join(format!("{name}.log"));
        command
            .args(["-S", "agent.py"])
            .stdin(OwnedFd::from(far))
            .stderr(File::create(&log).unwrap());
        let child = command.current_dir(folder).spawn().unwrap();
        let agent = Agent::new(near, name, &log);
        (Self { child, log }, agent)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns stderr. All agents must be gone.
    pub(super) fn finish(mut self) -> String {
        let status = self.child.wait().unwrap();
        let said = std::fs::read_to_string(&self.log).unwrap();
        assert!(status.success(), "{status}: {said}");
        said
    }
}

type Pair = [(Option<Tree>, Agent); 2];

/// Checks `law` on every mixture of inside and outside, each in its own folder.
pub(super) fn for_every_pair(place: &Place, law: impl Fn(&Path, &mut Agent, &mut Agent)) {
    let inside = |here: &Path| place.tree(here, true, "inside");
    let outside = |here: &Path| place.tree(here, false, "outside");
    let run = |name: &str, agents: &dyn Fn(&Path) -> Pair| {
        let here = tempfile::tempdir_in(&place.base).unwrap();
        eprintln!("{name}");
        let [(left_tree, mut left), (right_tree, mut right)] = agents(here.path());
        law(here.path(), &mut left, &mut right);
        // The nested agent goes first.
        drop(right);
        drop(left);
        for tree in [left_tree, right_tree].into_iter().flatten() {
            tree.finish();
        }
    };
    let some = |(tree, agent): (Tree, Agent)| (Some(tree), agent);
    run("inside, then outside", &|here| [some(inside(here)), some(outside(here))]);
    run("outside, then inside", &|here| [some(outside(here)), some(inside(here))]);
    run("two runs", &|here| [some(inside(here)), some(place.tree(here, true, "another run"))]);
    run("two processes of one run", &|here| {
        let (tree, mut agent) = inside(here);
        let forked = agent.fork("forked");
        [(Some(tree), agent), (None, forked)]
    });
    run("a run inside a run", &|here| {
        let (tree, mut outer) = inside(here);
        let inner = outer.nested("nested").unwrap_or_else(|said| {
            // A refused run gives a reason, and the program continues without it.
            assert!(said.starts_with("pagetide: ") && said.lines().count() == 1, "{said}");
            outer.fork("forked")
        });
        [(Some(tree), outer), (None, inner)]
    });
}

/// A folder, and the command that enters its namespace.
pub(super) struct Place {
    pub(super) base: PathBuf,
    pub(super) enter: Vec<String>,
}

impl Place {
    pub(super) fn disk() -> Self {
        Self { base: env!("CARGO_TARGET_TMPDIR").into(), enter: Vec::new() }
    }

    fn tree(&self, here: &Path, is_inside: bool, name: &str) -> (Tree, Agent) {
        let run = [pagetide().to_str().unwrap(), "run", "--memory", "1M", "--"];
        let run: &[&str] = if is_inside { &run } else { &[] };
        let mut words = self.enter.iter().map(String::as_str).chain(run.iter().copied());
        let mut command = Command::new(words.next().unwrap_or(python()));
        command.args(words);
        if is_inside || !self.enter.is_empty() {
            command.arg(python());
        }
        Tree::begin(here, command, name)
    }
}

/// Resolves wrapper scripts to the real interpreter.
pub(super) fn python() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let ask = ["-c", "import sys; print(sys.executable, end='')"];
        let output = Command::new("python3").args(ask).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    })
}

pub(super) fn literal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("bytes.fromhex('{digits}')")
}

fn from_hex(digits: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

fn listen() -> (String, UnixListener) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("pagetide-test-{}-{number}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    (name, UnixListener::bind_addr(&address).unwrap())
}
