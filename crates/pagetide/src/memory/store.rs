//! Stores: where contents live when not resident.
//!
//! Two kinds. A [`StoreFile`] is a real file, read straight into frames. A [`Store`] is anything
//! else that can read and write bytes (a test that fails on purpose, a file in another format, an
//! object store); it goes through a bounce buffer, a page at a time.

use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::{AlignedBuf, Fingerprint, Lock, Look, PageHandle, StoreError, StoreFile};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;

/// Something that keeps bytes at offsets, beneath a page cache.
///
/// Methods are called by many threads at once, never twice at the same time for overlapping ranges
/// with a write among them. Offsets and lengths of writes are whole pages but for the end of the
/// file. A method may block; it may not call back into the page cache. One that panics has failed.
pub trait Store: Send + Sync {
    /// Reads from `offset` into `target`; returns the bytes read, fewer only at the end. A short
    /// read that is not at the end is asked again for the rest.
    ///
    /// # Errors
    /// The reader of that range gets the error.
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `source` at `offset`; returns the bytes written. The rest is asked again; 0 is
    /// an error.
    ///
    /// # Errors
    /// The pages stay dirty and the next sync reports it.
    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes all writes so far durable.
    ///
    /// # Errors
    /// The next sync of every handle reports it.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`Store::sync_data`], with what describes the file.
    ///
    /// # Errors
    /// As [`Store::sync_data`].
    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    /// How long the contents are, bytes.
    ///
    /// # Errors
    /// Whatever prevents knowing.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are no contents.
    ///
    /// # Errors
    /// As [`Store::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends the contents to `len` bytes; what is added reads as zero.
    ///
    /// # Errors
    /// The length stays.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// Which file it is: device, inode, and when that was made (inode numbers are reused).
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

/// The same in every run, for the same name.
pub(crate) fn hash(name: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// What a mapping reads from and writes to.
pub(crate) enum Backing {
    /// A regular file.
    File { file: Arc<StoreFile>, writable: bool },
    /// A store of the caller's.
    Custom(Box<dyn Store>),
}

impl Backing {
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Backing::File { writable, .. } => *writable,
            Backing::Custom(_) => true,
        }
    }

    /// The file, where batched requests can be used.
    pub(crate) fn file(&self) -> Option<&Arc<StoreFile>> {
        match self {
            Backing::File { file, .. } => Some(file),
            Backing::Custom(_) => None,
        }
    }

    /// How the file looks now; custom stores have no looks, and are never shared.
    pub(crate) fn look(&self) -> io::Result<Look> {
        match self {
            Backing::File { file, .. } => file.look().map_err(StoreError::into_os_error),
            Backing::Custom(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> io::Result<Identity> {
        Ok(Identity::of(&self.look()?.fingerprint))
    }

    pub(crate) fn read_len(&self) -> io::Result<u64> {
        match self {
            Backing::File { file, .. } => file.read_len().map_err(StoreError::into_os_error),
            Backing::Custom(store) => catch(|| store.len()),
        }
    }

    /// Fills the locked pages from `offset` on; returns the bytes read, the rest is zero.
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

    /// Reads from `offset` into `target`; returns the bytes read, fewer only at the end.
    pub(crate) fn read_bytes(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Backing::File { file, .. } => {
                file.read_bytes(target, offset).map_err(StoreError::into_os_error)
            }
            Backing::Custom(store) => read_whole(store.as_ref(), target, offset),
        }
    }

    /// Writes all of `source` at `offset`.
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

    /// The longest that the store may become, bytes, up to `most`.
    pub(crate) fn read_len_max(&self, most: u64) -> u64 {
        // A store that cannot say so refuses the write-back.
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

/// Asks a store of the caller's, which may panic or claim to have done more than it was asked: both
/// are errors of its, and pages in the middle of their I/O are treated as after any other.
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
