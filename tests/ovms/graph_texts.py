"""Texts of graph.pbtxt and folders of models for them."""

import json

LLM, EMBEDDINGS, RERANK = "LLMCalculatorOptions", "EmbeddingsCalculatorOVOptions", "RerankCalculatorOVOptions"
CALCULATORS = {LLM: "HttpLLMCalculator", EMBEDDINGS: "EmbeddingsCalculatorOV", RERANK: "RerankCalculatorOV"}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
CALLS = (
    "{% for m in messages %}{{ m.content }}{% for call in m.tool_calls or [] %}"
    """{{ '<tool_call>{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}"""
    "{{ '}</tool_call>' }}{% endfor %}{% endfor %}"
)
"""One that writes earlier calls."""


def node(message, *options):
    """A graph of one node, its first option in line 5."""
    lines = [
        'input_stream: "HTTP_REQUEST_PAYLOAD:input"',
        f'node {{ name: "one" calculator: "{CALCULATORS[message]}"',
        "  node_options: {",
        f"    [type.googleapis.com / mediapipe.{message}]: {{",
        *options,
        "} } }",
    ]
    return "\n".join(lines) + "\n"


def export(folder, architecture="Qwen3ForCausalLM", graph=None):
    """Empty files under the names of an export, and a graph.pbtxt."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": [architecture], "model_type": "bert", "vocab_size": 9, "num_labels": 1}
    for name in ("openvino_model.xml", "openvino_model.bin", "tokenizer.json"):
        (folder / name).write_text("{}")
    (folder / "config.json").write_text(json.dumps(config))
    if graph is not None:
        (folder / "graph.pbtxt").write_text(graph)
    return folder
