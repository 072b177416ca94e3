//! Monitoring and control of a run: a socket for `pagetide ctl` and `top`, metrics and dumps.

use super::RunArgs;
use crate::failure::Failure;
use crate::output;
use crate::terminal;
use pagetide::control::{Control, MetricsServer};
use pagetide::{ExpositionFormat, PageCache};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(5);
/// Characters of the program's name.
const NAME_LEN_MAX: usize = 200;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum MetricsPlace {
    Address(SocketAddr),
    File(PathBuf),
}

impl FromStr for MetricsPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsPlace, String> {
        let port = text.strip_prefix(':').unwrap_or(text);
        if let Ok(port) = port.parse::<u16>() {
            return Ok(MetricsPlace::Address((Ipv4Addr::LOCALHOST, port).into()));
        }
        match text.parse() {
            Ok(address) => Ok(MetricsPlace::Address(address)),
            // Any file name is legal, but this text looks like an address.
            Err(_) if text.ends_with(|last: char| last.is_ascii_digit()) && text.contains(':') => {
                Err("write an address as 127.0.0.1:9464 or [::1]:9464".to_owned())
            }
            Err(_) => Ok(MetricsPlace::File(text.into())),
        }
    }
}

/// As 60s or 0.5s.
pub(super) fn parse_every(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse();
    let seconds = seconds.ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or("write a time from 0.1s to 86400s, as in 60s");
    Ok(Duration::from_secs_f64(seconds?))
}

/// The monitoring of a run, until drop.
pub(super) struct Steering {
    _control: Option<Control>,
    _server: Option<MetricsServer>,
    _files: Vec<KeptFile>,
}

impl Steering {
    pub(super) fn start(args: &RunArgs, cache: &PageCache) -> Result<Steering, Failure> {
        let (mut server, mut files) = (None, Vec::new());
        match &args.metrics {
            None => {}
            Some(MetricsPlace::Address(address)) => {
                let started = MetricsServer::start(cache, *address);
                let act = format!("serve metrics at {address}");
                let started = started.map_err(|error| Failure::on(&act, &error))?;
                if address.port() == 0 {
                    let address = started.address();
                    terminal::note(&format!("pagetide: metrics are at http://{address}/metrics"));
                }
                server = Some(started);
            }
            Some(MetricsPlace::File(path)) => {
                let cache = cache.clone();
                let text = move || cache.metrics_text(ExpositionFormat::Prometheus, 0);
                files.push(KeptFile::start("the metrics", path, INTERVAL, text)?);
            }
        }
        if let (Some(path), Some(every)) = (&args.dump, args.dump_every) {
            let cache = cache.clone();
            let text = move || cache.dump().to_string();
            files.push(KeptFile::start("the dump", path, every, text)?);
        }
        let control = Control::start(cache, &name_of(args));
        if let Err(error) = &control
            && !args.quiet
        {
            terminal::note(&format!("pagetide: this run cannot be asked by ctl and top: {error}"));
        }
        Ok(Steering { _control: control.ok(), _server: server, _files: files })
    }
}

fn name_of(args: &RunArgs) -> String {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let name = words.join(" ");
    name.chars().take(NAME_LEN_MAX).collect()
}

/// A file that is rewritten at an interval, and at the end.
struct KeptFile {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl KeptFile {
    /// Writes the file once, then starts the thread.
    fn start(
        what: &'static str,
        path: &Path,
        every: Duration,
        text: impl Fn() -> String + Send + 'static,
    ) -> Result<KeptFile, Failure> {
        output::write(what, path, &text())?;
        let (stop, stopped) = channel();
        let path = path.to_owned();
        let thread = std::thread::Builder::new().name("pagetide-file".into());
        let thread = thread.spawn(move || {
            loop {
                let is_over = stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
                // The next interval repeats a failed write.
                let _ = output::write(what, &path, &text());
                if is_over {
                    return;
                }
            }
        });
        let thread = thread.map_err(|error| Failure::on(&format!("write {what}"), &error))?;
        Ok(KeptFile { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread already printed its panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_this_machines() {
        let local = MetricsPlace::Address("127.0.0.1:9464".parse().expect("an address"));
        for text in ["9464", ":9464", "127.0.0.1:9464"] {
            assert_eq!(text.parse(), Ok(local.clone()), "{text}");
        }
        let all = MetricsPlace::Address("0.0.0.0:9464".parse().expect("an address"));
        assert_eq!("0.0.0.0:9464".parse(), Ok(all));
        assert_eq!("m.prom".parse(), Ok(MetricsPlace::File("m.prom".into())));
        assert!("localhost:9464".parse::<MetricsPlace>().is_err());
    }

    #[test]
    fn times_between_dumps_are_seconds() {
        assert_eq!(parse_every("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_every("0.5"), Ok(Duration::from_millis(500)));
        assert!(["0", "-1s", "NaN", "s", "1m", "1e9"].iter().all(|it| parse_every(it).is_err()));
    }
}
