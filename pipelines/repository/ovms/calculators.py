"""The calculators of OpenVINO Model Server: which module writes their graphs, and why others are refused."""

from __future__ import annotations

from pipelines.repository.ovms import embeddings, language_model, rerank

WRITERS = {
    "HttpLLMCalculator": language_model,
    "EmbeddingsCalculatorOV": embeddings,
    "RerankCalculatorOV": rerank,
}
"""Calculator → module with its MESSAGE, OPTIONS and graph_lines."""
SESSION, INFERENCE = "OpenVINOModelServerSessionCalculator", "OpenVINOInferenceCalculator"
REFUSED = {
    "ImageGenCalculator": "makes images; Braid reads and writes text, and runs tensor models",
    "S2tCalculator": "reads speech; Braid reads and writes text, and runs tensor models",
    "T2sCalculator": "speaks; Braid reads and writes text, and runs tensor models",
    "PythonExecutorCalculator": "runs Python of the folder; a Braid graph names nodes and holds no code",
    "PyTensorOvTensorConverterCalculator": "belongs to PythonExecutorCalculator, which is not run",
}
"""Calculator → why it is not run."""
GRAPH_FIELDS = (
    *("node", "input_stream", "output_stream", "input_side_packet", "output_side_packet", "executor"),
    *("num_threads", "max_queue_size", "report_deadlock", "type", "package", "options", "graph_options"),
    *("packet_factory", "packet_generator", "status_handler", "profiler_config"),
    *("input_stream_handler", "output_stream_handler"),
)
NODE_FIELDS = (
    *("name", "calculator", "input_stream", "output_stream", "input_side_packet", "output_side_packet"),
    *("options", "node_options", "input_stream_info", "input_stream_handler", "output_stream_handler"),
    *("executor", "max_in_flight", "buffer_size_hint", "source_layer", "profiler_config", "option_value"),
    *("external_input", "external_output"),
)
"""The fields of mediapipe.CalculatorGraphConfig and of its Node."""
