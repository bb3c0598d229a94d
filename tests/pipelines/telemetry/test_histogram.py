"""A histogram that is told many values at once holds what it would hold if each were told."""

from prometheus_client import CollectorRegistry, Histogram

from pipelines.telemetry.histogram import HistogramBuffer

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
        observed.add(value)
        single.observe(value)
    observed.flush()
    observed.flush()  # what was told is not told again
    assert without_times(samples(together)) == without_times(samples(single))


def test_a_value_so_many_times_is_told_as_often():
    together, single = histogram(), histogram()
    observed = HistogramBuffer(together)
    observed.add(0.3, times=4)
    observed.flush()
    for _ in range(4):
        single.observe(0.3)
    assert without_times(samples(together)) == without_times(samples(single))
