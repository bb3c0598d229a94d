"""Names of models as people write them, and texts that name none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.hub.base.errors import HubError, NameFault
from pipelines.hub.base.local_names import check_local_name
from pipelines.hub.base.names import MODELSCOPE, URL, HubName, parse_name
from pipelines.hub.base.remote_files import is_safe_path

NAMES = {
    "Qwen/Qwen3-4B-GGUF": HubName("Qwen/Qwen3-4B-GGUF"),
    "Qwen/Qwen3-4B-GGUF:Q4_K_M": HubName("Qwen/Qwen3-4B-GGUF", "Q4_K_M"),
    "hf.co/a/b:Q8_0": HubName("a/b", "Q8_0"),
    "hf:a/b": HubName("a/b"),
    "a/b/sub/x-Q8_0.gguf": HubName("a/b", "sub/x-Q8_0.gguf"),
    "https://huggingface.co/a/b": HubName("a/b"),
    "https://huggingface.co/a/b/tree/v1": HubName("a/b", None, "v1"),
    "https://huggingface.co/a/b/blob/main/x.gguf": HubName("a/b", "x.gguf", "main"),
    "https://huggingface.co/a/b/resolve/main/x.gguf?download=true": HubName("a/b", "x.gguf", "main"),
    "https://modelscope.cn/models/a/b": HubName("a/b", hub=MODELSCOPE),
    "modelscope:a/b": HubName("a/b", hub=MODELSCOPE),
    "https://x.org/d/m.gguf?s=1": HubName("https://x.org/d/m.gguf?s=1", hub=URL),
}


@pytest.mark.parametrize("text", NAMES)
def test_names(text):
    assert parse_name(text) == NAMES[text]


@pytest.mark.parametrize(
    "text",
    ["", "gpt2", "a/b:", "a/../b", "../a", "a/b:../c", "a/b:x/../y", "a/b/c:d", "a--b/c", "a/b.git", "/a/b",
     "https://x.org/m.bin", "https://user:pw@x.org/m.gguf", "ftp://x.org/m.gguf", "a/b\n", "a b/c", "-a/b"],
)  # fmt: skip
def test_texts_that_name_no_model(text):
    if text.endswith("\n"):
        assert parse_name(text) == HubName("a/b")  # blanks around a name do not matter
        return
    with pytest.raises(NameFault):
        parse_name(text)


def test_options_go_before_what_the_text_says():
    assert parse_name("a/b", "modelscope", "v2") == HubName("a/b", None, "v2", MODELSCOPE)
    for wrong in ("../x", "a/../b", "", "x y"):
        with pytest.raises(NameFault):
            parse_name("a/b", revision=wrong)


def test_secrets_of_an_address_are_not_shown():
    name = parse_name("https://x.org/d/m.gguf?signature=secret")
    assert "secret" not in f"{name} {name.local} {name.cache_key}"


@given(st.text(max_size=40) | st.from_regex(r"[\w./:-]{1,40}", fullmatch=True))
def test_whatever_is_a_name_stays_below_a_folder(text):
    try:
        name = parse_name(text)
        check_local_name(name.local)
    except HubError:
        return
    assert is_safe_path(name.local.replace(":", "-"))
    assert name.hub == URL or is_safe_path(name.cache_key)
