"""Random chains of names and bytes: after every scan, each file is one object, and it has that object's content.

Here: the decisions, on a bucket in memory. Not here: single cases (`test_copies.py`), the tables that are computed from
such files (`silver/write/test_names_and_bytes.py`).
"""

from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random

import pytest

from lake_assets.bronze.files.keys import FileKind, name_of, place_of
from lake_assets.bronze.log.admission import new_records
from lake_assets.bronze.log.copies import originals
from lake_assets.bronze.log.known import Known
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.silver.plan.members import newest_versions
from lake_assets_tests.helpers.files.dms_files import NOON

NAMES = {
    "20260301-120000000": FileKind.CDC,
    "20260301-120100000": FileKind.CDC,
    "LOAD00000001": FileKind.LOAD,
}
EXTENSIONS = (".csv", ".csv.gz", ".parquet", ".json")
ROOT = "public/my.items"


@dataclass
class Bucket:
    """Objects, the log of their scans, and which content each file should have."""

    random: Random
    objects: dict[str, NewFile] = field(default_factory=dict)
    log: list[LoggedFile] = field(default_factory=list)
    seen: dict[str, set[str]] = field(default_factory=dict)
    """By name, the contents that scans have seen."""
    current: dict[str, str] = field(default_factory=dict)
    writes: int = 0

    def write(self, key: str, content: str) -> None:
        """Writes an object; the same content has another version each time, or the same."""
        self.writes += 1
        name, kind = name_of(key), NAMES[name_of(key)]
        self.objects[key] = NewFile(
            schema="public",
            table="my.items",
            key=key,
            version=f"{content} {self.random.choice(['', str(self.writes)])}",
            kind=kind,
            format=key.split(".")[2],
            compression="gzip" if key.endswith(".gz") else "none",
            size=1,
            last_modified=NOON + timedelta(seconds=self.writes),
            flush_time=NOON + timedelta(minutes=list(NAMES).index(name)) if kind is FileKind.CDC else None,
            capture_date=date(2026, 3, 1),
            rows=1,
            first_commit_ts=NOON - timedelta(minutes=1),
            content=content,
            one_stamp=False,
        )

    def at(self, name: str) -> list[NewFile]:
        return sorted(
            (o for o in self.objects.values() if name_of(o.key) == name), key=lambda o: o.last_modified
        )

    def step(self, *, may_move: bool) -> str:
        """Something happens to a file. An object that gets another folder and other bytes between two scans is another
        file: nothing could distinguish it from a part of a parallel load."""
        name = self.random.choice(list(NAMES))
        there, former = self.at(name), sorted(self.seen.get(name, ()))
        what = self.random.choice(
            ["write", "write", "convert", "convert", "delete", "touch", "move"][: 7 if may_move else 6]
        )
        if not there:
            self.write(f"{ROOT}/{name}.csv", f"{name}-{self.writes}")
            return f"{name} is there"
        source = self.random.choice(there)
        beside = f"{place_of(source.key)}{self.random.choice(EXTENSIONS)}"
        if what == "write":
            again = former and self.random.random() < 0.3
            self.write(beside, self.random.choice(former) if again else f"{name}-{self.writes}")
        elif what == "convert":
            self.write(beside, str(source.content))
        elif what == "move" and len(there) == 1:
            folder = self.random.choice([ROOT, f"{ROOT}/p0", f"{ROOT}/p1"])
            moved = f"{folder}/{source.key.rpartition('/')[2]}"
            self.objects.pop(source.key)
            self.write(moved, str(source.content))
        elif what == "touch":
            self.write(source.key, str(source.content))
        if what in ("write", "convert") and self.random.random() < 0.6:
            # As a rule, the older names are deleted.
            for other in self.at(name)[:-1]:
                self.objects.pop(other.key, None)
        if what == "delete" and len(there) > 1:
            self.objects.pop(source.key)
        return f"{what} {source.key} {beside}"

    def known(self) -> Known:
        return Known.of(self.log)

    def listed(self) -> list[NewFile]:
        """What a scan would inspect: the objects that the log does not settle."""
        newest = self.known().newest
        return [
            o
            for o in self.objects.values()
            if (was := newest.get(o.key)) is None
            or was.version != o.version
            or (o.kind is FileKind.LOAD and o.last_modified > was.last_modified)
        ]

    def append(self, found: list[NewFile], keys: set[str], based_on: int) -> list[LoggedFile]:
        known = self.known()
        elsewhere = {key for file in found for key in known.elsewhere(file)}
        new = new_records(
            found,
            known,
            self.log,
            source="shop",
            head=len(self.log),
            based_on=based_on,
            now=NOON,
            listed=keys if self.random.random() < 0.5 else None,
            absent=elsewhere - keys,
        )
        self.log += new
        return new

    def scan(self) -> list[LoggedFile]:
        """A scan; also decides by its own rule which content each file has from now on."""
        for name in NAMES:
            there, seen = self.at(name), self.seen.setdefault(name, set())
            contents = [str(o.content) for o in there]
            new = list(dict.fromkeys(content for content in contents if content not in seen))
            if new:
                self.current[name] = new[-1]
            elif self.current.get(name) not in contents and len(set(contents)) == 1:
                self.current[name] = contents[0]
            elif self.current.get(name) not in contents:
                self.current.pop(name, None)  # which of several former contents it is, does not matter
            seen |= set(contents)
        return self.append(self.listed(), set(self.objects), len(self.log))

    def check(self) -> None:
        members = newest_versions(originals(self.log))
        files = [name_of(member.key) for member in members]
        assert sorted(files) == sorted(name for name in NAMES if self.at(name)), "each file once"
        for member in members:
            there = self.objects[member.path]
            assert there.content == member.content, "it is read where its content is"
            name = name_of(member.key)
            assert self.current.get(name) in (None, member.content)
            self.current[name] = str(member.content)


def run(seed: int, steps: int = 25) -> None:
    """One history."""
    bucket, story = Bucket(Random(seed)), []
    try:
        for _ in range(steps):
            late = (bucket.listed(), set(bucket.objects), len(bucket.log))
            for number in range(bucket.random.choice([1, 1, 2, 3])):
                story.append(bucket.step(may_move=not number))
                if story[-1].startswith("move"):
                    break
            story.append(f"scan: {[(f.key, f.content, f.copy_of) for f in bucket.scan()]}")
            if bucket.random.random() < 0.2:
                # Another process listed the bucket before, and was slower.
                story.append(f"late scan: {[(f.key, f.content) for f in bucket.append(*late)]}")
                story.append(f"scan: {[(f.key, f.content, f.copy_of) for f in bucket.scan()]}")
            bucket.check()
            assert bucket.scan() == [], "what is known stays known"
    except Exception as error:
        lines = "\n".join(story)
        raise AssertionError(f"seed {seed}: {error!r}\n{lines}") from error


@pytest.mark.parametrize("seed", range(60))
def test_every_file_is_one_object(seed: int) -> None:
    run(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 6000, 500))
def test_every_file_is_one_object_in_long(first: int) -> None:
    for seed in range(1000 + first, 1500 + first):
        run(seed)
