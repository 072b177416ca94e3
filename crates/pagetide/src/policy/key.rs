//! Keys of bytes.

use super::index::hash_of;

/// Returns a key for `bytes`, the same in every process.
///
/// Two keys of bytes may get the same number: among a million keys with a probability of one in 37
/// million. The policy then treats the two as one entry. Such bytes can also be made on purpose.
///
/// # Cost
/// About a nanosecond for eight bytes.
pub fn key_of(bytes: &[u8]) -> u64 {
    let mut key = hash_of(bytes.len() as u64);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        key = hash_of(key.rotate_left(5) ^ word);
    }
    let rest = words.remainder();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash_of(key.rotate_left(5) ^ u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn bytes_that_differ_have_different_keys() {
        let mut seen = BTreeSet::new();
        for len in 0..40 {
            for value in 0..=255 {
                let mut bytes = vec![0; len];
                for at in 0..len {
                    bytes[at] = value;
                    seen.insert((key_of(&bytes), bytes.clone()));
                }
            }
        }
        let keys: BTreeSet<u64> = seen.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), seen.len());
        assert_ne!(key_of(b""), key_of(b"\0"), "lengths count");
    }
}
