"""The images of an input with names, and with names alone."""

from __future__ import annotations

from dataclasses import replace

from server.apis.generation.request_images import known_images, with_files


def with_names(generation):
    images = [replace(each, uuid=f"image {i}") for i, each in enumerate(generation.images)]
    return replace(generation, images=images)


async def with_names_alone(client, pipeline, generation):
    """The same without files, as an endpoint completes it; names are of their own tenant and salt."""
    images = [replace(each, url=None) for each in with_names(generation).images]
    for tenant, salt in (("another", ""), ("", "another")):
        assert not await known_images(client, pipeline, tenant, images, salt)
    known = await known_images(client, pipeline, "", images, "")
    return with_files(replace(generation, images=images), known)
