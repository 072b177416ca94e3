//! Stores: the place of contents that are not resident. A [`StoreFile`] is a real file, read
//! directly into frames. A [`Store`] is anything else, accessed through a bounce buffer, page by
//! page.

use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::{AlignedBuf, Fingerprint, Lock, Look, PageHandle, StoreError, StoreFile};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;

/// Storage of bytes at offsets, beneath a page cache.
///
/// Many threads call the methods at once, but never with overlapping ranges if one call is a write.
/// Offsets and lengths of writes are whole pages, except at the end of the file. A method may
/// block, but must not call back into the page cache. A panic counts as an error.
pub trait Store: Send + Sync {
    /// Reads from `offset` into `target`. Returns the number of bytes read, which is less than
    /// asked for only at the end of the contents. After a short read, the cache asks for the rest.
    ///
    /// # Errors
    /// The reader of the range gets the error.
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `source` at `offset`. Returns the number of bytes written. The cache asks again
    /// for the rest, and treats 0 as an error.
    ///
    /// # Errors
    /// The pages stay dirty, and the next sync reports the error.
    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes all previous writes durable.
    ///
    /// # Errors
    /// The next sync of every handle reports the error.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes all previous writes and the file's metadata durable.
    ///
    /// # Errors
    /// As [`Store::sync_data`].
    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    /// Returns the length of the contents, in bytes.
    ///
    /// # Errors
    /// Fails if the length cannot be determined.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if there are no contents.
    ///
    /// # Errors
    /// As [`Store::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Truncates or extends the contents to `len` bytes. Added bytes read as zero.
    ///
    /// # Errors
    /// The length stays the same.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// The identity of a file: device, inode, and creation time (inode numbers are reused).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Identity {
    pub(crate) dev: u64,
    ino: u64,
    btime_ns: Option<i128>,
}

impl Identity {
    pub(crate) fn of(fingerprint: &Fingerprint) -> Identity {
        let Fingerprint { dev, ino, btime_ns, .. } = *fingerprint;
        Identity { dev, ino, btime_ns }
    }
}

/// Returns the same hash for the same name in every run.
pub(crate) fn hash(name: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

pub(crate) enum Backing {
    File { file: Arc<StoreFile>, writable: bool },
    Custom(Box<dyn Store>),
}

impl Backing {
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Backing::File { writable, .. } => *writable,
            Backing::Custom(_) => true,
        }
    }

    pub(crate) fn file(&self) -> Option<&Arc<StoreFile>> {
        match self {
            Backing::File { file, .. } => Some(file),
            Backing::Custom(_) => None,
        }
    }

    /// Closes a file that no program has open otherwise. Returns any other store.
    pub(crate) fn close_if_sole(self) -> Option<Backing> {
        let Backing::File { file, writable } = self else { return Some(self) };
        let file = match Arc::try_unwrap(file) {
            Ok(file) => Arc::new(file.close_if_sole()?),
            Err(file) => file,
        };
        Some(Backing::File { file, writable })
    }

    /// Returns the file's current state. Fails for custom stores, which are never shared.
    pub(crate) fn look(&self) -> io::Result<Look> {
        match self {
            Backing::File { file, .. } => file.look().map_err(StoreError::into_os_error),
            Backing::Custom(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn identity(&self) -> io::Result<Identity> {
        Ok(Identity::of(&self.look()?.fingerprint))
    }

    pub(crate) fn read_len(&self) -> io::Result<u64> {
        match self {
            Backing::File { file, .. } => file.read_len().map_err(StoreError::into_os_error),
            Backing::Custom(store) => catch(|| store.len()),
        }
    }

    /// Fills the locked pages from `offset` on. Returns the number of bytes read, and zeroes the
    /// rest.
    pub(crate) fn read_pages<H: PageHandle>(
        &self,
        offset: u64,
        pages: &mut [Lock<H>],
    ) -> io::Result<usize> {
        match self {
            Backing::File { file, .. } => {
                file.read_frames(offset, pages).map_err(StoreError::into_os_error)
            }
            Backing::Custom(store) => {
                let mut buffer = AlignedBuf::zeroed(pages.len() * PAGE_BYTES);
                let done = read_whole(store.as_ref(), &mut buffer, offset)?;
                buffer[done..].fill(0);
                for (page, bytes) in pages.iter_mut().zip(buffer.chunks_exact(PAGE_BYTES)) {
                    page.write(0, bytes);
                }
                Ok(done)
            }
        }
    }

    /// Reads from `offset` into `target`. Returns the number of bytes read, less only at the end.
    pub(crate) fn read_bytes(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Backing::File { file, .. } => {
                file.read_bytes(target, offset).map_err(StoreError::into_os_error)
            }
            Backing::Custom(store) => read_whole(store.as_ref(), target, offset),
        }
    }

    pub(crate) fn write_bytes(&self, source: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Backing::File { file, .. } => {
                file.write_bytes(source, offset).map_err(StoreError::into_os_error)
            }
            Backing::Custom(store) => write_whole(store.as_ref(), source, offset),
        }
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        match self {
            Backing::File { file, .. } => file.sync_data().map_err(StoreError::into_os_error),
            Backing::Custom(store) => catch(|| store.sync_data()),
        }
    }

    pub(crate) fn sync_all(&self) -> io::Result<()> {
        match self {
            Backing::File { file, .. } => file.sync_all().map_err(StoreError::into_os_error),
            Backing::Custom(store) => catch(|| store.sync_all()),
        }
    }

    /// Returns the store's maximum length, in bytes, up to `most`.
    pub(crate) fn read_len_max(&self, most: u64) -> u64 {
        // A store that cannot tell refuses the write-back.
        self.file().and_then(|file| file.read_len_max(most).ok()).unwrap_or(most)
    }

    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        match self {
            Backing::File { file, .. } => file.set_len(len).map_err(StoreError::into_os_error),
            Backing::Custom(store) => catch(|| store.set_len(len)),
        }
    }
}

fn read_whole(store: &dyn Store, target: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < target.len() {
        let rest = &mut target[done..];
        let most = rest.len();
        match ask(most, || store.read_at(rest, offset + done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn write_whole(store: &dyn Store, source: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < source.len() {
        let rest = &source[done..];
        match ask(rest.len(), || store.write_at(rest, offset + done as u64)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Calls a store of the caller. A panic or a count above `most` becomes an error.
fn ask(most: usize, request: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    match catch(request)? {
        count if count > most => Err(io::ErrorKind::InvalidData.into()),
        count => Ok(count),
    }
}

fn catch<T>(request: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(request));
    result.unwrap_or_else(|_| Err(io::Error::other("the store panicked")))
}
