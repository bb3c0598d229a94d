"""What config.json sets for a classic model, carried out by the model that is loaded."""

import json

from tensor_models import DETECTOR, write_ir

from pipelines.host.models.model import load_for_host
from pipelines.repository.model_folders import scan


def test_shapes_layouts_streams_and_runs_at_once_are_carried_out(tmp_path):
    write_ir(tmp_path / "dummy" / "1" / "dummy.xml", DETECTOR)
    config = {"name": "dummy", "base_path": "dummy", "nireq": 4, "shape": "(3,4)", "layout": "NC:NC",
              "plugin_config": {"NUM_STREAMS": "2"}}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": [{"config": config}]}))
    (model,) = scan(tmp_path / "config.json")
    assert "    max_runs: 4\n" in model.opened().graph_text()
    assert "streams: 2" in model.opened().graph_text()
    loaded = load_for_host(model)
    loaded.close()
    assert [str(port) for port in loaded.inputs] == ["float32[3, 4]"]
    assert [str(port) for port in loaded.outputs] == ["float32[3, 2]", "float32[3, 4]"]
