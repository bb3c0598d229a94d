"""Several versions of one model: which are served, under which names, and what requests see of them."""

import asyncio

import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model
from scripted_host import until

from pipelines.base.errors import NotFound
from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.repository.files.model_versions import VersionPolicy, is_other_version, model_of
from pipelines.repository.model_folders import open_versions, versions
from pipelines.worker.catalogue import Catalogue


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        (VersionPolicy(), [10]),
        (VersionPolicy(latest=2), [10, 3]),
        (VersionPolicy(latest=None), [10, 3, 1]),
        (VersionPolicy(specific=(1, 3, 7)), [3, 1]),
    ],
)
def test_a_policy_chooses_of_the_versions_that_exist(policy, served):
    assert policy.choose([1, 10, 3]) == served


def test_names():
    assert model_of("org/m/versions/2") == "org/m" == model_of("org/m")
    assert is_other_version("m/versions/2")
    assert not is_other_version("versions/2")


def test_the_newest_has_the_models_name_and_others_are_found_by_theirs(tmp_path):
    for number in (1, 2, 3):
        graph = FAKE_GRAPH.replace("max_sequences: 64\n", f"max_sequences: 64\n    max_context: {number}6\n")
        write_fake_model(tmp_path / "tiny" / str(number), graph)

    def scan(repository):
        return open_versions(versions(repository / "tiny"), "tiny", VersionPolicy(latest=2))

    async def run():
        client = InProcessClient(ModelSource(tmp_path, scan))
        catalogue = Catalogue(client)
        await client.start()
        await catalogue.start()
        try:
            await until(
                lambda: (
                    len(cards := catalogue.versions("tiny")) == 2
                    and all(card.state == "ready" for card in cards.values())
                )
            )
            assert [card.name for card in catalogue.cards()] == ["tiny"]
            cards = catalogue.versions("tiny")
            assert [(number, card.name) for number, card in cards.items()] == [
                (3, "tiny"),
                (2, "tiny/versions/2"),
            ]
            assert catalogue.get(None) is catalogue.get("tiny")
            assert (catalogue.get("tiny").max_context, catalogue.get("tiny/versions/2").max_context) == (
                36,
                26,
            )
            assert catalogue.versions("other") == {}
            with pytest.raises(NotFound, match="`tiny/versions/1` does not exist"):
                catalogue.get("tiny/versions/1")
        finally:
            await catalogue.close()
            await client.close()

    asyncio.run(run())
