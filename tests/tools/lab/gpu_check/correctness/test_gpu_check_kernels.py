"""The kernels' cases run without a GPU too, over the host's stand-in for one, and notice what is wrong."""

import numpy as np
import pytest
from host_device import HostDevice

from ops.cuda.sampling import CudaSamplingOps
from tools.lab.gpu_check.base.setting import Setting
from tools.lab.gpu_check.correctness import kernels
from tools.lab.gpu_check.correctness.benches import Bench, benches
from tools.lab.gpu_check.correctness.cases import CASES
from tools.lab.gpu_check.correctness.sizes import SIZES, Size

ODD = Size(rows=5, vocab=1031, sequences=6, context=200, block_tokens=16)


@pytest.fixture(scope="module")
def device():
    return HostDevice()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("size", [SIZES["tiny"], ODD], ids=["tiny", "odd"])
def test_the_kernels_do_what_numpy_does(case, size, device):
    case.check(device, size)


class Wrong(CudaSamplingOps):
    """Gives the next token, and does not ban."""

    def choose(self, logits, *others):
        return (super().choose(logits, *others) + 1) % logits.shape[1]

    def ban(self, logits, rows, ids):
        pass


def test_wrong_kernels_are_found_and_right_ones_still_judged(device, monkeypatch, capsys):
    monkeypatch.setattr("ops.cuda.sampling.CudaSamplingOps", Wrong)
    setting = Setting()
    wrong = kernels.run_cases(device, ["tiny"], setting)
    names = [wrong_case.split(", tiny")[0] for wrong_case in wrong]
    assert "ban" in names
    assert all(name.startswith(("ban", "choose")) for name in names)
    assert sum(name.startswith("choose") for name in names) == sum(
        case.name.startswith("choose") for case in CASES
    )
    assert "row 0 gives" in wrong[1]
    assert setting.figures["tiny right"] == len(CASES) - len(wrong)
    assert f"{len(CASES) - len(wrong)} of {len(CASES)} right" in capsys.readouterr().out


def test_a_case_that_breaks_is_wrong_and_not_the_end(device, monkeypatch):
    def breaks(*_):
        raise RuntimeError("illegal memory access")

    monkeypatch.setattr("ops.cuda.cache_blocks.copy_blocks", breaks)
    assert kernels.run_cases(device, ["tiny"], Setting()) == [
        "copy_blocks, tiny: RuntimeError: illegal memory access"
    ]


def test_what_is_timed_runs(device):
    made = list(benches(device, quick=True, vocab=97))
    assert len({bench.name for bench in made}) == len(made)
    for bench in made:
        if bench.name.endswith(" 1") or "blocks" in bench.name:
            assert kernels.measure(device, bench, lambda run: None, repeats=1).call_us > 0


def test_the_speed_is_bytes_over_the_devices_time(device):
    """1 kB in 2 µs of a device that was busy for 10 µs in 5 calls."""
    calls = []
    bench = Bench("one", lambda: calls.append(1), 1000)

    def trace(run):
        run()
        return 10.0

    measured = kernels.measure(device, bench, trace, repeats=5)
    assert (measured.device_us, measured.gb_s) == (2.0, 0.5)
    assert len(calls) == 2 + 5 + 5
    assert np.isfinite(measured.call_us)
