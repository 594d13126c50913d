"""XXH3-64 and zstd for the tests, from the C libraries that a build of the project needs anyway (libxxhash,
libzstd)."""

import ctypes


def _library(name):
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"{name} cannot be loaded ({error}); Debian: apt-get install libxxhash0 libzstd1") from None


_xxhash, _zstd = _library("libxxhash.so.0"), _library("libzstd.so.1")
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_64bits.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_zstd.ZSTD_decompress.restype = ctypes.c_size_t
_zstd.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
_zstd.ZSTD_isError.restype = ctypes.c_uint
_zstd.ZSTD_isError.argtypes = [ctypes.c_size_t]


def xxh3(data):
    """XXH3-64 with seed 0 of some bytes."""
    return _xxhash.XXH3_64bits(data, len(data))


def xxh3_at(address, size):
    """The same of memory in place."""
    return _xxhash.XXH3_64bits(address, size)


def unzstd(data, size):
    """The content of one zstd frame, which must have `size` bytes; None when the frame is damaged or has another
    size."""
    target = ctypes.create_string_buffer(max(size, 1))
    written = _zstd.ZSTD_decompress(target, size, data, len(data))
    return None if _zstd.ZSTD_isError(written) or written != size else target.raw[:size]
