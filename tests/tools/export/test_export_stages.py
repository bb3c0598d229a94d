"""What an export shows of its stages where no terminal is: another process shows the lines as they come."""

import io

from rich.console import Console

from tools.export.__main__ import _stages


def test_a_stage_is_shown_when_it_begins():
    file = io.StringIO()
    with _stages(Console(file=file)) as stages:
        stages.start("tracing the model")
        assert file.getvalue() == "… tracing the model\n"
        print("a library's own words")
        stages.start("writing the weights")
    *begun, last = file.getvalue().splitlines()
    assert begun == ["… tracing the model", "… writing the weights"]
    assert last.startswith("✓ ")
