"""What a load does and how far it is: known to whoever watches, and not to others."""

from pipelines.base.load_progress import doing, report, watched


def test_what_is_done_is_reported_now_and_then_and_at_its_end():
    heard = []
    with watched(lambda what, share: heard.append((what, share))), doing("converting a.gguf"):
        for number in range(1, 1001):
            report(number / 1000)
    assert heard[0] == ("converting a.gguf", 0.001)
    assert heard[-1] == ("converting a.gguf", 1.0)
    assert len(heard) < 100


def test_nobody_is_heard_before_and_after():
    heard = []
    report(0.5)
    with watched(lambda *news: heard.append(news)):
        report(0.5)  # nothing is done
    with doing("converting a.gguf"):
        report(1.0)
    assert heard == []
