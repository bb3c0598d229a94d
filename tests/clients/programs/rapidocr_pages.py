"""RapidOCR's own reading of a page, its three networks run by the server.  Arguments: the server's address."""

import sys
from typing import Any

import cv2
import numpy as np
import tritonclient.http as triton
from cases import run
from rapidocr_onnxruntime import RapidOCR

LINES = ["Graphs are declared", "in a file of lines", "Order 20261123", "Total 384.40 EUR"]
client = triton.InferenceServerClient(sys.argv[1].removeprefix("http://"))


class ServedSession:
    """A session of ONNX Runtime whose `run` asks the server; the rest is the session's own."""

    def __init__(self, name: str, session: Any) -> None:
        self._name = name
        self._session = session
        self.runs = 0

    def run(self, outputs: list[str], feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.runs += 1
        given = [triton.InferInput(name, list(array.shape), "FP32") for name, array in feeds.items()]
        for tensor, array in zip(given, feeds.values(), strict=True):
            tensor.set_data_from_numpy(array)
        reply = client.infer(self._name, given)
        return [reply.as_numpy(name) for name in outputs]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def page() -> np.ndarray:
    drawn = np.full((60 * len(LINES) + 40, 640, 3), 255, np.uint8)
    for number, line in enumerate(LINES):
        place = (30, 60 * (number + 1))
        cv2.putText(drawn, line, place, cv2.FONT_HERSHEY_SIMPLEX, 1.3, (0, 0, 0), 2, cv2.LINE_AA)
    return drawn


def a_page_is_read_as_without_the_server() -> None:
    reader = RapidOCR()
    alone, _ = reader(page())
    holders = {"ocr/det": reader.text_det.infer, "ocr/cls": reader.text_cls.infer}
    holders["ocr/rec"] = reader.text_rec.session
    for name, holder in holders.items():
        holder.session = ServedSession(name, holder.session)
    served, _ = reader(page())
    assert all(holder.session.runs for holder in holders.values())
    assert [text for _, text, _ in served] == [text for _, text, _ in alone]
    assert [text.replace(" ", "") for _, text, _ in served] == [line.replace(" ", "") for line in LINES]
    np.testing.assert_allclose([box for box, *_ in served], [box for box, *_ in alone], atol=1)


run([a_page_is_read_as_without_the_server])
