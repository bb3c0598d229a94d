"""Lines of results hold exactly one line, for every reader of lines."""

from __future__ import annotations

import json

from one_test import in_one_test

from server.apis.batches.result_lines import answered, not_run

LINE_ENDS = ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@in_one_test("end", LINE_ENDS)
@in_one_test("ensure_ascii", [True, False])
def test_no_character_of_a_reply_ends_its_line(end, ensure_ascii):
    reply = {"text": f"a{end}b"}
    body = json.dumps(reply, ensure_ascii=ensure_ascii, indent=1).encode()
    text = answered(0, f"id{end}", 200, "request", body).data.decode()
    assert text.splitlines() == [text]
    found = json.loads(text)
    assert found["response"]["body"] == reply
    assert found["custom_id"] == f"id{end}"


def test_no_character_of_an_error_ends_its_line():
    text = not_run(0, "id", "code", "".join(LINE_ENDS)).data.decode()
    assert text.splitlines() == [text]
    assert json.loads(text)["error"]["message"] == "".join(LINE_ENDS)
