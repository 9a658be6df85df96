"""The bytes of an object, decompressed, and the errors of unreadable content.

Here: streams of text files, strict gzip. Not here: what the text contains (`inspect.py`), Parquet.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import BinaryIO, Protocol

from lake_assets.errors import LakeError
from lake_assets.storage.object_store import ObjectStore, StoreError

CHUNK = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"


def refuse_machine_fault(key: str, error: BaseException) -> None:
    """Raises StoreError if the machine failed rather than the file's content: Arrow's own errors about content have no
    errno of the operating system."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
        raise StoreError(
            f"{key} could not be read ({error}): its content is not at fault; the next run tries again."
        ) from error


class Digest(Protocol):
    """Identifies what it has been given piece by piece."""

    def add(self, piece: bytes, /) -> None: ...


class ContentDigest:
    """Identifies a content, whatever the object's ETag, encryption or compression."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)

    def add(self, piece: bytes) -> None:
        self._hash.update(piece)

    @property
    def hex(self) -> str:
        return self._hash.hexdigest()


class UnreadableFile(LakeError):
    """A file whose content does not match its name, or is damaged."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key} cannot be read: {reason}")
        self.key = key
        self.reason = reason


class HeldBack(UnreadableFile):
    """A readable file that must not be applied without a user's decision."""

    def __init__(self, key: str, reason: str) -> None:
        LakeError.__init__(self, f"{key}: {reason}")
        self.key = key
        self.reason = reason


class FilesUnusable(LakeError):
    """Files of a batch that seemed intact cannot be used; the batch is tried again without them."""

    def __init__(self, files: Sequence[UnreadableFile]) -> None:
        super().__init__(str(files[0]))
        self.files = tuple(files)


def chunks(store: ObjectStore, key: str, compression: str) -> Iterator[bytes]:
    """The content in pieces of at most a mebibyte. Raises UnreadableFile for a damaged gzip stream (`compression`
    "gzip"), StoreError if the object cannot be fetched."""
    with store.open(key) as stream:
        yield from inflated(stream, key) if compression == "gzip" else _pieces(stream)


def whole(
    store: ObjectStore, key: str, compression: str, limit: int, *, why: str = "it is irregular"
) -> bytes:
    """All of the content. Raises as `chunks`, and UnreadableFile for more than `limit` bytes; `why`: why it has to be
    read whole."""
    content = bytearray()
    for chunk in chunks(store, key, compression):
        content += chunk
        if len(content) > limit:
            raise UnreadableFile(key, f"it is larger than {limit >> 20} MiB, and {why}")
    return bytes(content)


def lines(pieces: Iterable[bytes], end: bytes) -> Iterator[bytes]:
    """The content, given in pieces of any size, cut after each `end`."""
    rest = b""
    for piece in pieces:
        *ended, rest = (rest + piece).split(end)
        for line in ended:
            yield line + end
    if rest:
        yield rest


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        yield chunk


def inflated(stream: BinaryIO, key: str) -> Iterator[bytes]:
    """The content of a gzip stream. Raises UnreadableFile."""
    # By zlib, because Python's gzip tolerates bytes after the stream that Spark's decompressor may refuse.
    member = zlib.decompressobj(wbits=31)
    try:
        for piece in _pieces(stream):
            compressed = piece
            while compressed:
                if member.eof:
                    member = zlib.decompressobj(wbits=31)
                if chunk := member.decompress(compressed, CHUNK):
                    yield chunk
                compressed = member.unused_data if member.eof else member.unconsumed_tail
        while not member.eof and (chunk := member.decompress(member.unconsumed_tail, CHUNK)):
            yield chunk
    except zlib.error as error:
        raise UnreadableFile(key, f"the gzip stream is damaged or incomplete ({error})") from error
    if not member.eof:
        raise UnreadableFile(key, "the gzip stream is damaged or incomplete (it ends too early)")


def digested(content: Iterator[bytes], digest: Digest) -> Iterator[bytes]:
    """The content, each piece added to the digest."""
    for chunk in content:
        digest.add(chunk)
        yield chunk
