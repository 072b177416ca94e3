//! A device: serves requests in order, with a latency and a bandwidth.
//!
//! ```text
//!   ask(now, bytes):  |--- earlier bytes ---|--- ours ---|--- latency ---| done
//!                    now                     busy until
//! ```
//!
//! Problem: I/O waits are a main reason why CPUs allocate in bursts. Idea: bytes move one request
//! at a time, and latencies overlap. Invariant: requests end in order. Ignored: reordering, reads
//! against writes, failing. Source: our own, a queue with one server.

use super::clock::Nanos;

/// A device, and the end of its queued transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// From the last byte moved to the answer.
    latency: Nanos,
    bytes_per_s: u64,
    busy_until: Nanos,
}

/// A device's number in its machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DeviceId(pub u32);

impl Device {
    /// Returns an idle device.
    pub const fn new(latency: Nanos, bytes_per_s: u64) -> Device {
        assert!(bytes_per_s > 0, "a device moves bytes");
        Device { latency, bytes_per_s, busy_until: Nanos::ZERO }
    }

    /// Queues a request. Returns its end.
    pub fn ask(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let moving = Nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.busy_until = self.busy_until.max(now) + moving;
        self.busy_until + self.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_queue_and_latencies_overlap() {
        // 1000 bytes take 1000 ns.
        let mut device = Device::new(Nanos(70), 1_000_000_000);
        assert_eq!(device.ask(Nanos(0), 1000), Nanos(1070));
        assert_eq!(device.ask(Nanos(10), 500), Nanos(1570));
        assert_eq!(device.ask(Nanos(5000), 0), Nanos(5070));
    }

    #[test]
    fn the_largest_request_does_not_wrap() {
        let mut device = Device::new(Nanos(70), 1);
        assert_eq!(device.ask(Nanos(0), u64::MAX), Nanos::MAX);
    }

    #[test]
    #[should_panic(expected = "a device moves bytes")]
    fn a_device_without_bandwidth_is_refused() {
        let _ = Device::new(Nanos(1), 0);
    }
}
