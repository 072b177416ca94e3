//! How a run is seen and steered while it lasts: a socket for `pagetide ctl` and `top`, and metrics
//! where they are asked for.

use super::RunArgs;
use crate::failure::Failure;
use crate::output;
use crate::terminal;
use pagetide::control::{Control, MetricsServer};
use pagetide::{ExpositionFormat, PageCache};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a file of metrics is written.
const INTERVAL: Duration = Duration::from_secs(5);
/// The program's name is told up to here, characters.
const NAME_LEN_MAX: usize = 200;

/// Where metrics go.
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
            // A file may have any name, but this one was meant to be an address.
            Err(_) if text.ends_with(|last: char| last.is_ascii_digit()) && text.contains(':') => {
                Err("write an address as 127.0.0.1:9464 or [::1]:9464".to_owned())
            }
            Err(_) => Ok(MetricsPlace::File(text.into())),
        }
    }
}

/// What watches a run; dropped, it ends.
pub(super) struct Steering {
    _control: Option<Control>,
    _server: Option<MetricsServer>,
    _file: Option<MetricsFile>,
}

impl Steering {
    /// # Errors
    /// Where metrics were asked for and cannot be had.
    pub(super) fn start(args: &RunArgs, cache: &PageCache) -> Result<Steering, Failure> {
        let (mut server, mut file) = (None, None);
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
            Some(MetricsPlace::File(path)) => file = Some(MetricsFile::start(cache, path.clone())?),
        }
        let control = Control::start(cache, &name_of(args));
        if let Err(error) = &control
            && !args.quiet
        {
            terminal::note(&format!("pagetide: this run cannot be asked by ctl and top: {error}"));
        }
        Ok(Steering { _control: control.ok(), _server: server, _file: file })
    }
}

fn name_of(args: &RunArgs) -> String {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let name = words.join(" ");
    name.chars().take(NAME_LEN_MAX).collect()
}

/// A file that has the metrics of a few seconds ago.
struct MetricsFile {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsFile {
    fn start(cache: &PageCache, path: PathBuf) -> Result<MetricsFile, Failure> {
        let write = |cache: &PageCache, path: &PathBuf| {
            let text = cache.metrics_text(ExpositionFormat::Prometheus, 0);
            output::write("the metrics", path, &text)
        };
        write(cache, &path)?;
        let (stop, stopped) = channel();
        let cache = cache.clone();
        let thread = std::thread::Builder::new().name("pagetide-metrics".into());
        let thread = thread.spawn(move || {
            loop {
                let is_over = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                // The next time there may be room again.
                let _ = write(&cache, &path);
                if is_over {
                    return;
                }
            }
        });
        let thread = thread.map_err(|error| Failure::on("write metrics", &error))?;
        Ok(MetricsFile { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
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
}
