"""Forms and lines that tests of files and batches send, and what they wait for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from asgi_client import Answer, AsgiClient
from patience import PATIENCE_S

BOUNDARY = "border"
CHAT = "/v1/chat/completions"
ENDED = ("completed", "failed", "cancelled", "expired")


def line(name: str, url: str = CHAT, **body: Any) -> dict[str, Any]:
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], **body}
    return {"custom_id": name, "method": "POST", "url": url, "body": chat}


def lines(*given: dict[str, Any] | str) -> bytes:
    return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in given).encode()


def form(data: bytes, **fields: str) -> tuple[bytes, dict[str, str]]:
    """The body of an upload, and its headers."""
    parts = [
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
        for name, text in {"purpose": "batch", **fields}.items()
    ]
    head = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'
    body = b"".join([*parts, head.encode(), data, f"\r\n--{BOUNDARY}--\r\n".encode()])
    return body, {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}


async def upload(client: AsgiClient, data: bytes, **headers: str) -> Answer:
    body, sent = form(data)
    return await client.ask("POST", "/v1/files", body, headers={**sent, **headers})


async def create(client: AsgiClient, data: bytes, **fields: Any) -> Answer:
    """A batch of these lines."""
    file = (await upload(client, data)).json
    body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h", **fields}
    return await client.post("/v1/batches", body)


async def ended(client: AsgiClient, batch_id: str) -> dict[str, Any]:
    """The batch, when it has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            batch: dict[str, Any] = (await client.get(f"/v1/batches/{batch_id}")).json
            if batch["status"] in ENDED:
                return batch
            await asyncio.sleep(0.02)


async def results(client: AsgiClient, file_id: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/files/{file_id}/content")
    return [json.loads(each) for each in answer.body.splitlines()]
