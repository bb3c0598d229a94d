"""Which files of a repository are taken: names of published models, and what is refused."""

import pytest
from published_files import PUBLISHED, REFUSED

from pipelines.hub.base.errors import NameFault
from pipelines.hub.offers.gguf import quant_of
from pipelines.hub.offers.repository import all_offers, choose, left_out

CASES = [(each, tag) for each in PUBLISHED for tag in each.taken]


@pytest.mark.parametrize(
    ("published", "tag"), CASES, ids=[f"{each.repo}:{tag}@{each.device}" for each, tag in CASES]
)
def test_published_models(published, tag):
    choice = choose(published.files, tag or None, published.device)
    assert choice.offer.paths == sorted(published.taken[tag])
    assert choice.reason


@pytest.mark.parametrize("published", PUBLISHED, ids=[each.repo + each.device for each in PUBLISHED])
def test_each_tag_that_is_offered_takes_its_offer(published):
    for offer in all_offers(published.files):
        assert choose(published.files, offer.tag).offer.paths == offer.paths
        assert set(offer.paths) <= set(published.files)
        assert not set(offer.links.values()) & set(left_out(published.files))


@pytest.mark.parametrize(("paths", "tag", "text"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_refused_says_why(paths, tag, text):
    with pytest.raises(NameFault, match=text):
        choose(paths, tag or None)


def test_variants_have_the_names_that_a_graph_is_made_for():
    onnx = next(each for each in PUBLISHED if each.repo == "onnx-community/Qwen3-0.6B-ONNX")
    links = choose(onnx.files, "q4").offer.links
    assert links["onnx/model.onnx"] == "onnx/model_q4.onnx"
    assert links["onnx/model_q4.onnx_data"] == "onnx/model_q4.onnx_data"
    genai = next(each for each in PUBLISHED if "Phi-3" in each.repo)
    assert "genai_config.json" in choose(genai.files, None).offer.links


def test_code_and_pickles_are_never_among_the_files():
    extra = ("modeling_x.py", "a.pkl", "w.pt", "pytorch_model.bin", "training_args.bin", "1_Pooling/x.py")
    for published in PUBLISHED:
        files = (*published.files, *extra)
        taken = {path for offer in all_offers(files) for path in offer.paths}
        assert not taken & set(extra)


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("Q8_0/x-Q8_0-00001-of-00002.gguf", "Q8_0"),
        ("BF16/x-00001-of-00002.gguf", "BF16"),
        ("x.i1-IQ4_XS.gguf", "i1-IQ4_XS"),
        ("x-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("ggml-model-q4_0.gguf", "q4_0"),
        ("tinyllama.gguf", "tinyllama"),
    ],
)
def test_quantisations_in_names(path, tag):
    assert quant_of(path) == tag
