"""Pages of lists: their ends, their order, and rows that change between two pages."""

import sqlite3

import pytest

from pipelines.base.errors import RequestError
from server.sqlite.pages import ListPage, RowList, read_rows

FILES = RowList("files", "id", scope="account = :account", shown="coalesce(:status = status, 1)")


@pytest.fixture
def db():
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE files (number INTEGER PRIMARY KEY, id TEXT, account TEXT, status TEXT)")
    rows = [(name, "ann" if name != "x" else "bob", "waits") for name in "abxcd"]
    db.executemany("INSERT INTO files (id, account, status) VALUES (?, ?, ?)", rows)
    yield db
    db.close()


def ids(db, page, status=None):
    return "".join(name for (name,) in read_rows(db, FILES, {"account": "ann", "status": status}, page))


def test_a_page_has_one_row_more_than_it_shows_where_there_are_more(db):
    assert ids(db, ListPage(2)) == "dcb"
    assert ids(db, ListPage(2, after="c")) == "ba"
    assert ids(db, ListPage(2, newest_first=False)) == "abc"
    assert ids(db, ListPage(2, after="b", newest_first=False)) == "cd"


def test_a_page_begins_after_a_row_that_is_not_shown_any_more(db):
    assert ids(db, ListPage(1, newest_first=False), status="waits") == "ab"
    db.execute("UPDATE files SET status = 'done' WHERE id = 'a'")
    assert ids(db, ListPage(1, after="a", newest_first=False), status="waits") == "bc"


@pytest.mark.parametrize("after", ["x", "nothing"], ids=["of_another_account", "unknown"])
def test_another_list_has_no_row_of_this_one(db, after):
    with pytest.raises(RequestError, match="no id of this list"):
        ids(db, ListPage(2, after=after))
