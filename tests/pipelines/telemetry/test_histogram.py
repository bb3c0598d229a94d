"""A histogram that is told many values at once holds what it would hold if each were told."""

from prometheus_client import CollectorRegistry, Histogram

from pipelines.telemetry.histogram import PERIOD_S, HistogramBuffer

VALUES = [0.01, 0.1, 0.1000001, 0.5, 3.0, 1.0, 1e9]


def histogram():
    made = Histogram("h", "…", ["model"], registry=CollectorRegistry(), buckets=(0.1, 0.5, 1))
    return made.labels("m")


def samples(one):
    return [(sample.name, sample.labels, sample.value) for sample in one._child_samples()]


def without_times(found):
    return [(name, labels, value) for name, labels, value in found if "created" not in name]


def test_told_together_is_told_one_by_one():
    together, single = histogram(), histogram()
    observed = HistogramBuffer(together)
    for value in VALUES:
        observed.add(value, now_s=0.0)
        single.observe(value)
    observed.flush()
    observed.flush()  # what was told is not told again
    assert without_times(samples(together)) == without_times(samples(single))


def test_a_value_so_many_times_is_told_as_often():
    together, single = histogram(), histogram()
    observed = HistogramBuffer(together)
    observed.add(0.3, now_s=0.0, times=4)
    observed.flush()
    for _ in range(4):
        single.observe(0.3)
    assert without_times(samples(together)) == without_times(samples(single))


def test_it_is_told_once_in_a_period():
    told = histogram()
    observed = HistogramBuffer(told)

    def count():
        return next(value for name, _, value in samples(told) if name == "_count")

    observed.add(0.2, now_s=100.0)
    assert count() == 1
    observed.add(0.2, now_s=100.0 + PERIOD_S / 2)
    assert count() == 1
    observed.add(0.2, now_s=100.0 + PERIOD_S)
    assert count() == 3
