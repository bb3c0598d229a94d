"""OpenVINO Model Server's own client, of TensorFlow Serving's paths.  Arguments: the server's address."""

import sys

import numpy as np
import pytest
from cases import run
from ovmsclient import make_http_client
from tensor_elements import IMAGE, doubled_beside

client = make_http_client(sys.argv[1].removeprefix("http://"))


def what_a_model_is() -> None:
    signatures = client.get_model_metadata("detector")["metadata"]["signature_def"]["signature_def"]
    found = signatures["serving_default"]
    assert found["inputs"]["image"]["dtype"] == "DT_FLOAT"
    assert [each["size"] for each in found["inputs"]["image"]["tensor_shape"]["dim"]] == ["-1", "4"]
    assert set(found["outputs"]) == {"boxes", "doubled"}
    assert client.get_model_status("detector")[1]["state"] == "AVAILABLE"


def predicted() -> None:
    found = client.predict({"image": IMAGE}, "detector")
    np.testing.assert_array_equal(found["doubled"], 2 * IMAGE)
    np.testing.assert_array_equal(client.predict({"image": IMAGE}, "two"), doubled_beside(IMAGE))


def refusals() -> None:
    with pytest.raises(Exception, match="none"):
        client.predict({"image": IMAGE}, "none")
    with pytest.raises(Exception, match="must be float32"):
        client.predict({"image": IMAGE[:, :2]}, "detector")


run([what_a_model_is, predicted, refusals])
