"""The API families that a server may have, by their names in `BRAID_APIS`."""

from __future__ import annotations

API_NAMES = {
    "openai": "OpenAI's and vLLM's chat completions and completions",
    "responses": "OpenAI's Responses",
    "anthropic": "Anthropic's Messages",
    "gemini": "Gemini's generateContent and countTokens",
    "batches": "OpenAI's files and batches",
    "decisions": "OpenAI's decisions, System One, and vLLM's generative_scoring",
    "moderations": "OpenAI's moderations",
    "pooling": "embeddings, classes, scores and rankings by OpenAI's, vLLM's and Jina's fields",
    "retrieval": "searches for passages of an index, and OpenAI's vector stores",
    "tei": "the native paths of Hugging Face's text-embeddings-inference",
    "cohere": "Cohere's embed",
    "tokenizing": "vLLM's tokenize and detokenize",
    "speech": "transcriptions and translations of sound",
    "voice": "speech of text",
    "realtime": "live speech and conversations over WebSockets",
    "scale_out": "vLLM's render and generate: token ids in, token ids out",
    "usage": "what each API key has used, and OpenAI's usage of an organization",
    "kserve": "KServe's and Triton's protocol, TensorFlow Serving's paths",
    "ollama": "Ollama's chat, generate, embed and lists of models",
    "llamacpp": "llama.cpp's own paths, and texts with a gap (infill)",
    "mistral": "Mistral's texts with a gap (fim)",
    "deepseek": "DeepSeek's texts with a gap, and chats, below /beta",
    "ovms": "OpenVINO Model Server's prefixes, /v3 and /v3/v1, and its status of models",
}
"""Name → what it is, for the tables of docs/api.md and docs/settings.md."""
