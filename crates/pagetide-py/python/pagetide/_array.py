"""numpy arrays over regions."""

import os

import numpy as np

from pagetide._cache import as_path, flush_files
from pagetide._pagetide import Region

_CHUNK_BYTES = 4 << 20
# Longer rows are not read whole for a few of their elements.
_ROW_BYTES_MAX = 64 << 10
# As numpy.memmap has them.
_MODES = {"readonly": "r", "copyonwrite": "c", "readwrite": "r+", "write": "w+"}


class _Source:
    """The origin of an array's memory. Views share it."""

    __slots__ = ("filename", "mode", "offset", "region")

    def __init__(self, region, filename=None, offset=0, mode=None):
        self.region = region
        self.filename = filename
        self.offset = offset
        self.mode = mode


_NONE = _Source(None)


class Array(np.ndarray):
    """A numpy array whose memory is a page cache's; `PageCache.array` and `empty` make it.

    Views of it are of this type, too, and keep its memory; what is computed from it is plain numpy.
    """

    _source = _NONE

    def __array_finalize__(self, obj):
        source = getattr(obj, "_source", _NONE)
        if source is not _NONE and _is_view(self, obj):
            self._source = source

    @property
    def region(self):
        """The `Region` that has its memory; None if it is memory of numpy's own."""
        return self._source.region

    @property
    def filename(self):
        """The absolute path of its file; None without one."""
        return self._source.filename

    @property
    def offset(self):
        """The byte of the file at which the array begins of which this is a view."""
        return self._source.offset

    @property
    def mode(self):
        """The mode of its file: "r", "r+", "w+" or "c"; None without a file."""
        return self._source.mode

    def flush(self):
        """Make what was stored, anywhere in the file, durable. Raises OSError if it cannot be."""
        region = self._in_cache()
        if region is not None:
            region.flush()

    def populate(self, *, for_writes=False):
        """Bring the array into memory as far as it fits: for a system call, see `faults`."""
        region = self._in_cache()
        if region is not None:
            region.populate(*self._range(), for_writes=for_writes)

    def advise(self, advice):
        """"willneed" brings the array in beside the caller, "dontneed" lets its memory go."""
        region = self._in_cache()
        if region is not None:
            region.advise(advice, *self._range())

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

    def take(self, indices, axis=None, out=None, mode="raise"):
        is_rows = axis == 0 or axis is None and self.ndim == 1
        if is_rows and out is None and mode == "raise" and not np.isscalar(indices):
            rows = self._gather(indices)
            if rows is not None:
                return rows
        return self.view(np.ndarray).take(indices, axis, out, mode)

    def _in_cache(self):
        """The region; None for an array without elements."""
        region = self.region
        if region is None and self.size:
            raise ValueError("this array is of memory of numpy's own, and of no page cache")
        return region

    def _range(self):
        low, high = np.lib.array_utils.byte_bounds(self)
        return low - self.region.address, high - low

    def __getitem__(self, index):
        rows = None
        if isinstance(index, (np.ndarray, list)):
            rows = self._gather(index)
        elif type(index) is tuple and index and isinstance(index[0], (np.ndarray, list)):
            rows = self._gather_columns(*index)
        if rows is not None:
            return rows
        found = super().__getitem__(index)
        if type(found) is Array and found._source is _NONE:
            return found.view(np.ndarray)
        return found

    def _gather_columns(self, index, *columns):
        """Rows by their numbers, and columns by slices and numbers; None where numpy does as well."""
        if self.region is None or not all(map(_is_basic, columns)):
            return None
        view = super().__getitem__((slice(None), *columns))
        if type(view) is Array and view[:1].flags.c_contiguous:
            return view._gather(index)
        if self[:1].nbytes > _ROW_BYTES_MAX:
            return None
        index = np.asarray(index)
        rows = self._gather(index)
        nr_axes = 1 if index.dtype.kind == "b" else index.ndim
        return None if rows is None else rows[(slice(None),) * nr_axes + columns]

    def _gather(self, index):
        """Rows by their numbers, brought in together; None where numpy does as well."""
        region, index = self.region, np.asarray(index)
        if index.dtype.kind == "b" and index.shape == self.shape[:1]:
            index = np.flatnonzero(index)
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


def _is_view(array, of):
    if array.size:
        return np.may_share_memory(array, of)
    return array.base is not None and (array.base is of or array.base is of.base)


def _is_basic(index):
    is_number = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
    return is_number or isinstance(index, slice) or index is Ellipsis


def _check_calls_in_child():
    """Makes `Array` refuse, in a forked child, what its parent's memory cannot do there."""

    def getitem(self, index):
        source = self._source
        if source.region is not None and source.mode in (None, "c"):
            source.region._check_here()
        return plain_getitem(self, index)

    def setitem(self, index, value):
        if self.region is not None:
            self.region._check_here()
        np.ndarray.__setitem__(self, index, value)

    plain_getitem = Array.__getitem__
    Array.__getitem__, Array.__setitem__ = getitem, setitem


def _after_fork():
    if "__setitem__" not in vars(Array):
        _check_calls_in_child()


os.register_at_fork(after_in_child=_after_fork)


def over_file(cache, file, dtype, shape, mode, offset, order, faults):
    dtype, mode = _plain(dtype), _MODES.get(mode, mode)
    if mode not in _MODES.values():
        raise ValueError(f"mode {mode!r}: one of r, r+, w+, c, or {', '.join(_MODES)}")
    if offset < 0:
        raise ValueError(f"an offset of {offset} bytes is below 0")
    path, filename = as_path(file)
    if mode == "c":
        flush_files(path)
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
    if mode in ("r", "c") and offset + nbytes > (size := os.stat(path).st_size):
        raise ValueError(
            f"{path} has {size} bytes, and {nbytes} are wanted from byte {offset} on: pass a"
            ' smaller shape, or extend it with mode="r+"'
        )
    if nbytes == 0:
        cache._make_empty(path, offset, mode)
        array = np.ndarray.__new__(Array, shape, dtype, order=order)
        region = None
    else:
        region = cache.region(path, offset + nbytes, mode, faults=faults)
        array = np.ndarray.__new__(Array, shape, dtype, region, offset, order=order)
    array._source = _Source(region, filename, offset, mode)
    array.flags.writeable = mode != "r"
    return array


def anonymous(cache, shape, dtype, order, folder, faults):
    dtype, shape = _plain(dtype), _dimensions(shape)
    nbytes = dtype.itemsize * _product(shape)
    if nbytes == 0:
        return np.ndarray.__new__(Array, shape, dtype, order=order)
    region = cache.region(nbytes=nbytes, folder=folder, faults=faults)
    array = np.ndarray.__new__(Array, shape, dtype, region, order=order)
    array._source = _Source(region)
    return array


def over_npy(cache, file, mode, faults):
    mode = _MODES.get(mode, mode)
    if mode not in ("r", "r+", "c"):
        raise ValueError(f"mode {mode!r}: one of r, r+, c")
    npy = np.lib.format
    path, _ = as_path(file)
    if mode == "c":
        flush_files(path)
    with open(path, "rb") as opened:
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        version = npy.read_magic(opened)
        if version not in read:
            raise ValueError(f"{path} is of version {version} of the .npy format, not 1.0 or 2.0")
        shape, is_fortran, dtype = read[version](opened)
        offset = opened.tell()
    if offset + dtype.itemsize * _product(shape) > os.stat(path).st_size:
        raise ValueError(f"{path} ends before its array does")
    order = "F" if is_fortran else "C"
    return over_file(cache, file, dtype, shape, mode, offset, order, faults)


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
