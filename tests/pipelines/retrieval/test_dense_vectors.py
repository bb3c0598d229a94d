"""The search over 8 bits and bounds gives what a search over all vectors in 16 bits gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.retrieval.dense_vectors import DenseVectors, VectorWriter, unit


def written(folder, vectors, precision="float16"):
    with VectorWriter(folder, precision) as writer:
        for start in range(0, len(vectors), 100):
            writer.append(vectors[start : start + 100])
    return DenseVectors(folder, [len(vectors)], vectors.shape[1])


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 2600),
    st.integers(1, 40),
    st.integers(1, 30),
    st.floats(0, 3),
    st.booleans(),
)
def test_the_best_are_those_of_a_whole_search(tmp_path_factory, seed, count, size, top, spread, filtered):
    random = np.random.default_rng(seed)
    centre = random.standard_normal(size)
    vectors = unit((centre + spread * random.standard_normal((count, size))).astype(np.float32))
    stored_vectors = written(tmp_path_factory.mktemp("vectors"), vectors)
    query = unit(random.standard_normal((1, size)).astype(np.float32))
    allowed = random.random(count) < 0.3 if filtered else None
    ((rows, scores),) = stored_vectors.nearest(query, top, allowed)

    exact = vectors.astype(np.float16).astype(np.float32) @ query[0]
    if allowed is not None:
        exact[~allowed] = -np.inf
    wanted = min(top, count if allowed is None else np.count_nonzero(allowed))
    assert len(rows) == wanted
    assert allowed is None or allowed[rows].all()
    assert len(set(rows.tolist())) == wanted
    np.testing.assert_allclose(scores, np.sort(exact)[::-1][:wanted], atol=1e-5)
    np.testing.assert_allclose(scores, exact[rows], atol=1e-5)


def test_vectors_of_8_bits_are_near(tmp_path):
    random = np.random.default_rng(0)
    vectors = unit(random.standard_normal((500, 64)).astype(np.float32))
    found = written(tmp_path, vectors, "int8")
    ((rows, scores),) = found.nearest(vectors[:1], 5)
    assert found.parts[0].halves is None
    assert rows[0] == 0
    np.testing.assert_allclose(scores, (vectors @ vectors[0])[rows], atol=0.01)


def test_rows_are_copied_as_they_are(tmp_path):
    vectors = unit(np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32))
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    first = written(tmp_path / "a", vectors)
    with VectorWriter(tmp_path / "b", "float16") as writer:
        writer.copy(first.parts[0], np.array([3, 40]))
    copied = DenseVectors(tmp_path / "b", [2], 8)
    ((own,), (whole,)) = copied.parts, first.parts
    assert (own.codes == whole.codes[[3, 40]]).all()
    assert (own.halves == whole.halves[[3, 40]]).all()


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_several_parts_give_what_one_gives(tmp_path, precision):
    random = np.random.default_rng(3)
    vectors = unit(random.standard_normal((500, 16)).astype(np.float32))
    queries, allowed = unit(random.standard_normal((3, 16)).astype(np.float32)), random.random(500) < 0.3
    whole = tmp_path / "whole"
    whole.mkdir()
    expected = written(whole, vectors, precision)
    counts, first = [100, 0, 3, 297, 100], 0
    for number, count in enumerate(counts):
        with VectorWriter(tmp_path, precision, number) as writer:
            if count:
                writer.append(vectors[first : first + count])
        first += count
    parts = DenseVectors(tmp_path, counts, 16)
    for given_rows in (None, allowed):
        for top in (1, 30, 1000):
            pairs = zip(
                parts.nearest(queries, top, given_rows),
                expected.nearest(queries, top, given_rows),
                strict=True,
            )
            for (rows, scores), (own_rows, own_scores) in pairs:
                assert rows.tolist() == own_rows.tolist()
                np.testing.assert_allclose(scores, own_scores, atol=1e-6)


def test_what_is_no_number_is_refused(tmp_path):
    with VectorWriter(tmp_path, "float16") as writer, pytest.raises(ValueError, match="not finite"):
        writer.append(np.array([[np.nan, 1]], np.float32))


def test_a_file_of_another_length_is_damaged(tmp_path):
    written(tmp_path, np.eye(4, dtype=np.float32))
    with pytest.raises(ValueError, match="damaged"):
        DenseVectors(tmp_path, [5], 4)
