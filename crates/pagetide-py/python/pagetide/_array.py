"""numpy arrays over regions."""

import os

import numpy as np

from pagetide._pagetide import Region

_CHUNK_BYTES = 4 << 20


class Array(np.ndarray):
    """A numpy array whose memory is a page cache's; `PageCache.array` and `empty` make it.

    Views of it are of this type, too, and keep its memory; what is computed from it is plain numpy.
    """

    @property
    def region(self):
        """The `Region` that has its memory; None if it is memory of numpy's own."""
        base = self
        while isinstance(base, np.ndarray):
            base = base.base
        base = base.obj if isinstance(base, memoryview) else base
        return base if isinstance(base, Region) else None

    def flush(self):
        """Make what was stored, anywhere in the file, durable. Raises OSError if it cannot be."""
        self._in_cache().flush()

    def populate(self, *, for_writes=False):
        """Bring the array into memory as far as it fits: for a system call, see `faults`."""
        self._in_cache().populate(*self._range(), for_writes=for_writes)

    def advise(self, advice):
        """"willneed" brings the array in beside the caller, "dontneed" lets its memory go."""
        self._in_cache().advise(advice, *self._range())

    def tofile(self, fid, sep="", format="%s"):
        # Through numpy's own memory: a system call may fail on unmapped pages.
        if sep:
            return super().tofile(fid, sep, format)
        if not hasattr(fid, "write"):
            with open(fid, "wb") as opened:
                return self.tofile(opened)
        flags, length = ["external_loop", "buffered", "zerosize_ok"], _CHUNK_BYTES // self.itemsize
        for chunk in np.nditer(self.view(np.ndarray), flags, order="C", buffersize=max(length, 1)):
            if chunk.size:
                chunk.copy().tofile(fid)

    def _in_cache(self):
        region = self.region
        if region is None:
            raise ValueError("this array is of memory of numpy's own, and of no page cache")
        return region

    def _range(self):
        low, high = np.lib.array_utils.byte_bounds(self)
        return low - self.region.address, high - low

    def __getitem__(self, index):
        if isinstance(index, (np.ndarray, list)) and (rows := self._gather(index)) is not None:
            return rows
        found = super().__getitem__(index)
        if type(found) is Array and found.region is None:
            return found.view(np.ndarray)
        return found

    def _gather(self, index):
        """Rows by their numbers, brought in together; None where numpy does as well."""
        region, index = self.region, np.asarray(index)
        is_rows = index.dtype.kind in "iu" and index.ndim > 0
        if region is None or not is_rows or not region._misses(index.size):
            return None
        first, length = self.view(np.ndarray)[:1], len(self)
        if not (first.size and index.size and first.flags.c_contiguous
                and index.min() >= -length and index.max() < length):
            return None
        rows = np.empty(index.shape + self.shape[1:], self.dtype)
        index = index.astype("i8", order="C")
        starts = np.where(index < 0, index + length, index) * self.strides[0]
        region.gather(starts + (first.ctypes.data - region.address), rows)
        return rows

    def __array_wrap__(self, array, context=None, return_scalar=False):
        array = super().__array_wrap__(array, context)
        if self is array or type(self) is not Array:
            return array
        return array[()] if return_scalar else array.view(np.ndarray)

    def __reduce__(self):
        return self.view(np.ndarray).__reduce__()

    def __reduce_ex__(self, protocol):
        return self.view(np.ndarray).__reduce_ex__(protocol)


def over_file(cache, path, dtype, shape, mode, offset, order, faults):
    dtype = _plain(dtype)
    if offset < 0:
        raise ValueError(f"an offset of {offset} bytes is below 0")
    if shape is None:
        if mode == "w+":
            raise ValueError("a new file needs a shape")
        left = os.stat(path).st_size - offset
        if left < 0 or left % dtype.itemsize:
            raise ValueError(
                f"{left} bytes from byte {offset} of {path} on are no whole number of elements of"
                f" {dtype.itemsize} bytes"
            )
        shape = (left // dtype.itemsize,)
    shape = _dimensions(shape)
    nbytes = dtype.itemsize * _product(shape)
    if mode != "w+" and offset + nbytes > (size := os.stat(path).st_size):
        raise ValueError(
            f"{path} has {size} bytes, and {nbytes} are wanted from byte {offset} on: pass a"
            ' smaller shape, or make it anew with mode="w+"'
        )
    if nbytes == 0:
        return np.empty(shape, dtype, order)
    region = cache.region(path, offset + nbytes, mode, faults=faults)
    array = np.ndarray.__new__(Array, shape, dtype, region, offset, order=order)
    array.flags.writeable = mode != "r"
    return array


def anonymous(cache, shape, dtype, order, folder, faults):
    dtype, shape = _plain(dtype), _dimensions(shape)
    nbytes = dtype.itemsize * _product(shape)
    if nbytes == 0:
        return np.empty(shape, dtype, order)
    region = cache.region(nbytes=nbytes, folder=folder, faults=faults)
    return np.ndarray.__new__(Array, shape, dtype, region, order=order)


def over_npy(cache, path, mode, faults):
    if mode not in ("r", "r+"):
        raise ValueError(f"mode {mode!r}: one of r, r+")
    npy = np.lib.format
    with open(path, "rb") as file:
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        version = npy.read_magic(file)
        if version not in read:
            raise ValueError(f"{path} is of version {version} of the .npy format, not 1.0 or 2.0")
        shape, is_fortran, dtype = read[version](file)
        offset = file.tell()
    order = "F" if is_fortran else "C"
    return over_file(cache, path, dtype, shape, mode, offset, order, faults)


def _plain(dtype):
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise ValueError(f"{dtype} has objects of Python's, which cannot be in a page cache")
    if dtype.itemsize == 0:
        raise ValueError(f"{dtype} has elements of no bytes")
    return dtype


def _dimensions(shape):
    try:
        shape = tuple(shape)
    except TypeError:
        shape = (shape,)
    shape = tuple(length.__index__() for length in shape)
    if any(length < 0 for length in shape):
        raise ValueError(f"shape {shape} has a length below 0")
    return shape


def _product(shape):
    product = 1
    for length in shape:
        product *= length
    return product
