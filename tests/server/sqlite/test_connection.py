"""An SQLite file that several workers open at the same time."""

from server.sqlite import connection


def test_a_worker_that_comes_second_takes_the_tables_of_the_first(tmp_path, monkeypatch):
    path, tables_made = tmp_path / "db", []

    def tables(version):
        tables_made.append(version)
        return "CREATE TABLE t (a);\n"

    def first_makes_them(db, version, script):
        monkeypatch.undo()
        connection.connect(path, 1, tables).close()  # after the second has seen a file without tables
        make(db, version, script)

    make = connection._make_tables
    monkeypatch.setattr(connection, "_make_tables", first_makes_them)
    db = connection.connect(path, 1, tables)
    assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert tables_made == [0]
    db.close()
