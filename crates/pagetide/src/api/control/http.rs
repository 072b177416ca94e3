//! Metrics by HTTP, for Prometheus and compatible collectors.
//!
//! `GET /metrics`, with `?files=10` for the ten most-read files. Serves OpenMetrics to clients that
//! accept it. Statistics are collected at most ten times a second.
//!
//! Ignored: TLS, passwords, and keep-alive.

use crate::api::cache::PageCache;
use crate::api::control::door::{Door, Protocol};
use crate::api::metrics::exposition::ExpositionFormat;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Maximum age of statistics.
const FRESH: Duration = Duration::from_millis(100);
const FILES_MAX: usize = 100;

/// A port that serves the metrics of a cache and keeps the cache alive. Closes when dropped.
pub struct MetricsServer {
    address: SocketAddr,
    _door: Door,
}

impl MetricsServer {
    /// Listens at `address`. Port 0 selects a free port. All clients that reach the port can read
    /// the metrics, and nothing else: use a loopback address unless other machines need access.
    ///
    /// # Errors
    /// The system's error, usually that the port is in use.
    pub fn start(cache: &PageCache, address: SocketAddr) -> io::Result<MetricsServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let protocol = Http { cache: cache.clone(), made: None };
        Ok(MetricsServer { address, _door: Door::open("pagetide-http", listener, protocol)? })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

struct Http {
    cache: PageCache,
    /// Last text, its request and its time.
    made: Option<(Asked, Instant, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    format: ExpositionFormat,
    nr_files: usize,
}

impl Http {
    fn text(&mut self, asked: Asked) -> &str {
        let is_fresh =
            |made: &(Asked, Instant, String)| made.0 == asked && made.1.elapsed() < FRESH;
        let made = self.made.take().filter(is_fresh);
        let made = made.unwrap_or_else(|| {
            let text = self.cache.metrics_text(asked.format, asked.nr_files);
            (asked, Instant::now(), text)
        });
        &self.made.insert(made).2
    }
}

impl Protocol for Http {
    const REQUEST_BYTES_MAX: usize = 8 << 10;

    fn admits(&self, _: BorrowedFd<'_>) -> bool {
        true
    }

    fn whole(&self, received: &[u8]) -> Option<usize> {
        let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
        Some(end + 4)
    }

    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        match parse(request) {
            Ok((is_head, asked)) => {
                let text = self.text(asked);
                respond("200 OK", asked.format.content_type(), text, is_head)
            }
            Err(status) => respond(status, "text/plain", "metrics are at /metrics\n", false),
        }
    }
}

fn respond(status: &str, content_type: &str, body: &str, is_head: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), if is_head { b"" } else { body.as_bytes() }].concat()
}

/// Returns true for a HEAD request, and the request, or an error status.
fn parse(request: &[u8]) -> Result<(bool, Asked), &'static str> {
    const BAD: &str = "400 Bad Request";
    let text = std::str::from_utf8(request).map_err(|_| BAD)?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BAD);
    };
    if !version.starts_with("HTTP/1.") {
        return Err(BAD);
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err("405 Method Not Allowed"),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != "/metrics" && path != "/" {
        return Err("404 Not Found");
    }
    let nr_files = query.split('&').find_map(|part| part.strip_prefix("files="));
    let nr_files = nr_files.map_or(Ok(0), str::parse::<usize>).map_err(|_| BAD)?;
    let accepts = lines.any(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("accept:") && line.contains("application/openmetrics-text")
    });
    let format = match accepts {
        true => ExpositionFormat::OpenMetrics,
        false => ExpositionFormat::Prometheus,
    };
    Ok((is_head, Asked { format, nr_files: nr_files.min(FILES_MAX) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_understood_or_have_a_status() {
        let parse = |text: &str| parse(text.as_bytes());
        let plain = Asked { format: ExpositionFormat::Prometheus, nr_files: 0 };
        assert_eq!(parse("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), Ok((false, plain)));
        assert_eq!(parse("HEAD / HTTP/1.0\r\n\r\n"), Ok((true, plain)));
        let open =
            "GET /metrics?files=900 HTTP/1.1\r\naccept: application/openmetrics-text\r\n\r\n";
        let asked = Asked { format: ExpositionFormat::OpenMetrics, nr_files: FILES_MAX };
        assert_eq!(parse(open), Ok((false, asked)));
        assert_eq!(parse("POST / HTTP/1.1\r\n\r\n"), Err("405 Method Not Allowed"));
        assert_eq!(parse("GET /etc HTTP/1.1\r\n\r\n"), Err("404 Not Found"));
        for bad in ["", "GET /", "GET / HTTP/1.1 x", "GET / FTP", "GET /?files=x HTTP/1.1"] {
            assert_eq!(parse(bad), Err("400 Bad Request"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_understood_or_have_a_status(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let _ = parse(&bytes);
        }
    }
}
