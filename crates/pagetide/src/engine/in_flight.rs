//! State of requests in flight, by token.

/// Tokens are small, and reused.
pub(crate) struct InFlight<T> {
    slots: Vec<Option<T>>,
}

impl<T> InFlight<T> {
    pub(crate) fn new() -> InFlight<T> {
        InFlight { slots: Vec::new() }
    }

    /// Stores `request` until its completion. Returns its token.
    pub(crate) fn insert(&mut self, request: T) -> u64 {
        let token = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if token == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[token] = Some(request);
        token as u64
    }

    pub(crate) fn take(&mut self, token: u64) -> Option<T> {
        self.slots.get_mut(token as usize)?.take()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }
}
