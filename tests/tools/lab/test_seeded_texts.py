"""What is counted of texts alone and among others; requests are the same in every run."""

from tools.lab.seeded_texts import body, report

ALONE = [[([1, 2], [-0.5, -1.0])], [([3], [-2.0]), ([4], [-1.0])], [([5], [-1.0])]]


def test_texts_and_log_probabilities_that_differ_are_counted(capsys):
    together = [[([1, 2], [-0.5, -1.25])], [([3], [-2.0]), ([9], [-1.0])], [([5], [-1.0])]]
    assert report(1, ALONE, ALONE) == 0
    assert report(2, ALONE, together) == 1
    same, other = capsys.readouterr().out.splitlines()
    assert "of 3 requests 0 texts differ [], and log-probabilities of 0, by 0 at most" in same
    assert "of 3 requests 1 texts differ [1], and log-probabilities of 1, by 0.25 at most" in other


def test_requests_have_seeds_and_are_of_many_kinds():
    bodies = [body("m", number) for number in range(60)]
    assert bodies == [body("m", number) for number in range(60)]
    assert len({one["seed"] for one in bodies}) == 60
    assert {one["n"] for one in bodies} == {1, 2}
    assert any("echo" in one for one in bodies)
