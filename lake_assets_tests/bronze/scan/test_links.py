"""Links in a folder that is a source: those inside are followed, the others are left out and named."""

from pathlib import Path

import pytest

from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.storage.object_store import LocalStore, StoreError
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, small_lake, write_file

LOAD = "public/items/LOAD00000001.csv"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the source's, with a file in it."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "20260301-120000000.csv").write_text("secret")
    return folder


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """The source's location, with one file."""
    write_file(tmp_path, LOAD, [ITEMS_HEADER])
    return tmp_path / "bronze"


def listed(location: Path) -> tuple[list[str], dict[str, str]]:
    store = LocalStore(location)
    return [obj.key for obj in store.list()], dict(store.left_out)


def test_circles_are_left_out_and_the_rest_is_listed(location: Path) -> None:
    (location / "public/items/itself").symlink_to("itself")
    (location / "public/items/up").symlink_to("..")
    (location / "public/there").mkdir()
    (location / "public/there/back").symlink_to("../here")
    (location / "public/here").symlink_to("there")
    keys, left_out = listed(location)
    assert keys == [LOAD]
    assert set(left_out) == {
        "public/items/itself",
        "public/items/up",
        "public/there/back",
        "public/here/back",
    }
    assert "nowhere" in left_out["public/items/itself"]
    assert left_out["public/items/up"] == f"a link to a folder that it is in, {location / 'public'}"


def test_links_out_of_the_location_are_neither_listed_nor_read(location: Path, outside: Path) -> None:
    (location / "public/others").symlink_to(outside)
    (location / "public/items/20260301-120000000.csv").symlink_to(outside / "20260301-120000000.csv")
    keys, left_out = listed(location)
    assert keys == [LOAD]
    assert set(left_out) == {"public/others", "public/items/20260301-120000000.csv"}
    assert str(outside) in left_out["public/others"]
    for key in ("public/others/20260301-120000000.csv", "public/items/20260301-120000000.csv"):
        with pytest.raises(StoreError, match="link out of the source's location"):
            LocalStore(location).open(key)


def test_links_inside_the_location_are_followed(location: Path) -> None:
    (location / "public/copy").symlink_to("items")
    (location / "public/items/LOAD00000002.csv").symlink_to("LOAD00000001.csv")
    keys, left_out = listed(location)
    assert keys == [
        "public/copy/LOAD00000001.csv",
        "public/copy/LOAD00000002.csv",
        LOAD,
        "public/items/LOAD00000002.csv",
    ]
    assert left_out == {}


def test_a_location_that_is_a_link_itself_is_a_location(location: Path) -> None:
    link = location.with_name("link")
    link.symlink_to(location)
    assert listed(link) == ([LOAD], {})
    with LocalStore(link).open(LOAD) as file:
        assert file.read().startswith(b"Op,")


def test_a_link_that_was_removed_is_left_out_no_more(location: Path) -> None:
    store, link = LocalStore(location), location / "public/up"
    link.symlink_to("..")
    assert [obj.key for obj in store.list()] == [LOAD]
    assert set(store.left_out) == {"public/up"}
    link.unlink()
    assert [obj.key for obj in store.list("public/")] == [LOAD]
    assert store.left_out == {}


def test_a_look_logs_the_rest_and_names_what_it_left_out(
    tmp_path: Path, location: Path, outside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (location / "public/up").symlink_to("..")
    (location / "public/others").symlink_to(outside)
    found = log_arrivals(small_lake(tmp_path).runtime, "shop")
    assert [file.key for file in found.logged] == [LOAD]
    assert [entry.key for entry in found.unknown] == ["public/others", "public/up"]
    assert "public/others is no DMS file: a link out of the source's location" in caplog.text
