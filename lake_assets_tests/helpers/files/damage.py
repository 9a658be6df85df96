"""Damaged files."""

from random import Random

NAMES = [("trips", "public"), ("notes", "public"), ("trips", "audit"), ("other", "public")]


def damaged(rng: Random) -> bytes:
    """A file of some rows with one or two defects."""
    values = ["1", "", '""', '"a, b"', '"x\ny"', '"d ""e"""', "ü☕", "NULL", "-1.5"]
    rows = [
        [rng.choice("IUD"), *rng.choice(NAMES), *rng.choices(values, k=rng.randint(1, 5))] for _ in range(6)
    ]
    content = bytearray("".join(f"{','.join(row)}\n" for row in rows).encode())
    for _ in range(rng.randint(1, 2)):
        start = rng.randrange(len(content))
        end = min(len(content), start + rng.randint(1, 12))
        accident = rng.randrange(6)
        if accident == 0:
            del content[start:]
            content += b"I" * (not content)
        elif accident == 1:
            content[start] ^= 1 << rng.randrange(8)
        elif accident == 2:
            content[start:start] = rng.choice([b'"', b",", b"\n", b"\\", b'""', b'","'])
        elif accident == 3:
            del content[start:end]
            content += b"I" * (not content)
        elif accident == 4:
            content[start:start] = content[start:end]
        else:
            content[start:end] = content[end : 2 * end - start] + content[start:end]
    # Python's reader takes a carriage return for the end of a row.
    return bytes(content).replace(b"\r", b"")
