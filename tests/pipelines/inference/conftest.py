from __future__ import annotations

import one_thread


def pytest_runtest_setup() -> None:
    one_thread.begin()


def pytest_runtest_teardown() -> None:
    one_thread.end()
