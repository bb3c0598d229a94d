"""The settings of a server: their names, types, ranges and descriptions.

docs/settings.md is generated from them.  `kernels`, `allow_node_code` and `node_code_s` are read from the
environment where they are used, as `braid check` and `Local` use them without a server; they are here to be
checked and documented.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from server.base.places import bracketed, default_models
from server.base.replica_ids import NAME
from server.base.setting_types import Apis, Device, Engines, Folder, Kernels, LoraModules, ValueList


class Settings(BaseModel):
    """All settings of a server, the same in each of its processes.  Immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    host: str = Field(
        default="127.0.0.1", min_length=1, description="address to listen at; 0.0.0.0 for every interface"
    )
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen at")
    grpc_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="port of KServe's protocol over gRPC; needs the extra `grpc`; default: none",
    )
    models: Folder = Field(
        default_factory=default_models,
        description="the model repository, one GGUF file, or a config.json of OpenVINO Model Server; "
        "default: ./model_repo, else the checkout's",
    )
    cache: Path | None = Field(
        default=None,
        description="folder for what can be made again: GGUF files in converted form, graphs that OpenVINO "
        "prepared, which models have passed their first run, and prefixes; default: ~/.cache/braid "
        "(XDG_CACHE_HOME)",
    )
    prepared_mb: int = Field(
        default=256,
        ge=0,
        description="MB of the cache that graphs which OpenVINO prepared may take, about 5 for a model, so "
        "that its next load is faster; those used least recently are removed first; 0: none are stored",
    )
    kernels: Kernels = Field(
        default="auto",
        description="auto: Braid's own CPU kernels are used from the wheel `braid-kernels` or from `cache`, "
        "into which `braid serve` compiles them in the background where it finds a C++ compiler; off: they "
        "are neither used nor compiled; a folder: those that `python -m ops.cpu.build` made there",
    )
    first_run: bool = Field(
        default=True,
        description="1: a model that is new is loaded and run once in a process of its own before it is "
        "served, so that one that crashes is failed and the others are served; 0: it is loaded at once",
    )
    prefix_file_gb: float = Field(
        default=0,
        ge=0,
        description="GiB of a file in `cache` for each model, in which prefixes that were reused outlive the "
        "server; a graph's `cache.prefix_file_gb` goes before; 0: none",
    )
    default_model: str | None = Field(
        default=None,
        min_length=1,
        description="model of requests that name none, where several can do what the path does; default: the "
        "first one that generates text, by name",
    )
    device: Device | None = Field(
        default=None,
        description="cpu or cuda:0: runs every model on this device instead of the one in its graph",
    )
    apis: Apis = Field(
        default=(),
        description="API families that are served, as `openai,anthropic`, or with a hyphen those that are "
        "not, as `-batches,-kserve`: [their names](api.md#families); default: all. Health, metrics, models "
        "and status are always there",
    )
    v1: Literal["openai", "ovms"] = Field(
        default="openai",
        description="what the paths below /v1 speak: openai: OpenAI's dialect; ovms: that of OpenVINO Model "
        "Server, as below /v3",
    )
    workers: int = Field(
        default=2, ge=1, le=256, description="worker processes, which speak HTTP; all share one engine host"
    )
    api_keys: ValueList = Field(
        default=(), description="keys that clients may send; empty: no key is required"
    )
    admin_keys: ValueList = Field(
        default=(),
        description="keys for the paths that load and unload models and cancel requests, which then take no "
        "other key; they see all requests in `/v1/status`; empty: every client that may send requests may "
        "load and unload. Of several `api_keys` each sees and cancels its own requests",
    )
    keys_file: Path | None = Field(
        default=None,
        description="YAML file of named keys, as `braid keys add` writes it: name, digest, models, requests "
        "and tokens per minute, admin; beside `api_keys` and `admin_keys`. It is read again when it changes: "
        "[keys](operations.md#keys)",
    )
    usage_file: Path | None = Field(
        default=None,
        description="SQLite file of the requests and tokens of each key, day and model, which `/v1/usage` "
        "shows; default: a file that is removed when the server stops",
    )
    usage_days: int = Field(default=90, ge=1, description="days until the usage of a day is removed")
    allow_node_code: bool = Field(
        default=False,
        description="1: the Python code of a `nodes.py` in a model's folder is run, with all rights of the "
        "server: [nodes of your own](graphs.md#a-node-of-your-own); 0: graphs that use its nodes are refused",
    )
    node_code_s: float = Field(
        default=10, gt=0, description="seconds that one call of a node of a `nodes.py` may take"
    )
    max_loaded_gb: float | None = Field(
        default=None,
        gt=0,
        description="GiB that the weights and caches of loaded models take at most; the model that was used "
        "least recently leaves for one that is requested; default: no bound",
    )
    load_timeout: float = Field(
        default=60, gt=0, description="seconds that a request waits for memory to load its model in"
    )
    load_on_request: bool = Field(
        default=False,
        description="1: the server is ready at once, and a model is loaded by its first request; those with "
        "`pinned: true` are loaded at start",
    )
    idle_unload_s: float = Field(
        default=0, ge=0, description="seconds without calls after which a model is unloaded; 0: never"
    )
    pull: ValueList = Field(
        default=(),
        description="models that clients may have fetched from hubs into the model repository (`POST "
        "/models/pull`): patterns of names, as `Qwen/*,ggml-org/*,modelscope:Qwen/*`, "
        "whose main revision is fetched, and of addresses, as `https://example.com/*.gguf`; `*`: all of hubs;"
        " `off`; default: all where there are `admin_keys`, else off",
    )
    pull_gb: float = Field(
        default=100,
        gt=0,
        description="GiB that models which clients had fetched take together in the model repository at most",
    )
    pull_cache_gb: float | None = Field(
        default=None,
        gt=0,
        description="GiB that the caches of files from hubs take at most, what other programs put there "
        "included; `braid pull`, `braid serve NAME` and `POST /models/pull` refuse to fetch what would go "
        "beyond; default: no bound",
    )
    poll_models: float = Field(
        default=0, ge=0, description="seconds between two looks at the model repository; 0: on request only"
    )
    lora_modules: LoraModules = Field(
        default=(),
        description="adapters as `name=path`, or as a JSON object with `name`, `path` and `base_model_name`, "
        "separated by spaces or line ends; of a model whose graph has an `adapters` setting",
    )
    allow_runtime_lora_updating: bool = Field(
        default=False,
        description="1: clients may load adapters from a model's folder of adapters, and unload them, by "
        "`POST /v1/load_lora_adapter` and `/v1/unload_lora_adapter`",
    )
    in_process: bool = Field(
        default=False, description="1: one worker with the engine as one of its threads; for development"
    )
    engines: Engines = Field(
        default=(),
        description="engine hosts behind the same workers: devices, as `cuda:0,cuda:1`, one engine for each; "
        "or a number of them, among which the CPU cores are divided, by NUMA node where possible; default: "
        "one",
    )
    engine_max_ahead: int = Field(
        default=8,
        ge=0,
        description="with several engines: requests of one worker that the engine of a session may have more "
        "than the least busy one; beyond that the session's next request goes to another",
    )
    grace_s: int = Field(
        default=30, ge=3, description="seconds that running requests have to finish after SIGTERM"
    )
    engine_timeout_s: float = Field(
        default=60, ge=1, description="seconds without a heartbeat after which the engine host is restarted"
    )
    header_timeout_s: float = Field(
        default=20, gt=0, description="seconds that a client has to send the headers of a request"
    )
    body_timeout_s: float = Field(
        default=30,
        gt=0,
        description="seconds that a client has to send the body of a request; at 16 kB/s it may take longer",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe level that is logged"
    )
    status: bool = Field(
        default=True,
        description="1: `/status` is a page that shows what the server does, fed by `/v1/status`; 0: neither "
        "is there, nor the graphs of models, nor the paths of requests (`X-Braid-Trace`), nor what cancels "
        "requests",
    )
    access_log: bool = Field(default=False, description="1: one line on stdout for each request")
    max_body_mb: int = Field(
        default=64, ge=1, description="largest request body in MB; a larger one is a 413"
    )
    allowed_media_domains: ValueList = Field(
        default=(),
        description="hosts from which images and sounds of requests are fetched, each with its public "
        "addresses: `host` on the usual ports, `host:port` on another; empty: nothing is fetched",
    )
    private_media_domains: ValueList = Field(
        default=(),
        description="further hosts, which may have addresses within a network: private, loopback, link-local",
    )
    allowed_local_media_path: Folder | None = Field(
        default=None,
        description="folder below which `file:` URLs of images and sounds are read; default: none are",
    )
    max_audio_mb: float = Field(
        default=25, gt=0, description="largest sound file in MB; a larger one is a 400"
    )
    max_audio_s: float = Field(
        default=600, gt=0, description="longest recording in seconds; a longer one is a 400"
    )
    max_concurrency: int = Field(
        default=320, ge=1, description="requests in flight in each worker; more are a 429"
    )
    max_sockets: int = Field(
        default=100, ge=0, description="open WebSockets in each worker; a further one is a 429"
    )
    socket_idle_s: float = Field(
        default=300, gt=0, description="seconds without an event after which a WebSocket is closed"
    )
    tenant_share: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="part of max_concurrency that one API key (without keys: one session) may hold while it "
        "is alone; several get less each, so that places are left for others; with several keys it is also "
        "the part of max_sockets, files_count and files_mb; 1: no bound",
    )
    error_codes: Literal["vllm", "openai"] = Field(
        default="vllm",
        description="what `error.code` is: vllm: the status as a number, as in vLLM; openai: OpenAI's word "
        "(model_not_found, context_length_exceeded, …), null where it has none; not in /v3 and messages",
    )
    cors_origins: ValueList = Field(
        default=(),
        description="web origins whose pages may call the server; * for all.  Without a key, requests that "
        "change something and WebSockets are refused (403) to pages of others, but those of this machine",
    )
    allowed_hosts: ValueList = Field(
        default=(),
        description="further host names of a server without keys that listens at a loopback address, as a "
        "proxy before it may send them; requests with other names are refused (403), but addresses and local "
        "names; * for all",
    )
    strict_fields: bool = Field(
        default=False,
        description="1: an unknown request field is a 400 with the nearest known name; else it is ignored",
    )
    trust_request_chat_template: bool = Field(
        default=False, description="1: a request may bring its own chat template"
    )
    responses_store: bool = Field(
        default=True,
        description="0: no response of /v1/responses is stored, even if its request sets `store`",
    )
    responses_file: Path | None = Field(
        default=None,
        description="SQLite file of stored responses; default: a file that is removed when the server stops",
    )
    responses_count: int = Field(
        default=10_000, ge=1, description="stored responses at most; the oldest are removed first"
    )
    responses_mb: int = Field(default=512, ge=1, description="MB of stored responses at most")
    responses_hours: float = Field(default=24, gt=0, description="hours until a stored response is removed")
    files: Path | None = Field(
        default=None,
        description="folder of uploaded files, batches, their results and vector stores; default: a folder "
        "that is removed when the server stops",
    )
    file_mb: int = Field(default=200, ge=1, description="MB of an uploaded file at most")
    files_mb: int = Field(
        default=4096, ge=1, description="MB of all files and results together at most; more are a 429"
    )
    files_count: int = Field(default=10_000, ge=1, description="files at most; more are a 429")
    files_days: float = Field(default=30, gt=0, description="days until a file is removed")
    batch_lines: int = Field(default=50_000, ge=1, description="requests of a batch at most")
    batches_per_key: int = Field(
        default=32, ge=1, description="batches of one API key that have not ended; more are a 429"
    )
    disk_reserve_mb: int = Field(
        default=256,
        ge=0,
        description="MB of the disk that stored responses, files and results of batches leave free, at most "
        "a twentieth of the disk; what would take more is a 507, or is not stored",
    )
    replica: str | None = Field(
        default=None,
        pattern=rf"^{NAME}$",
        description="name of this server among those behind one address, which ids of stored responses then "
        "carry: letters, digits, dots and hyphens; default: none",
    )
    engine_socket: Path | None = Field(
        default=None, description="set by the server for its own processes, not by users"
    )

    tls: bool = Field(default=False, description="set by the server for its own processes, not by users")

    @field_validator("engines")
    @classmethod
    def _check_engines(cls, engines: tuple[str, ...], others: ValidationInfo) -> tuple[str, ...]:
        if engines and others.data.get("in_process"):
            raise ValueError("an engine in a worker is the only one: leave out BRAID_IN_PROCESS")
        if not "".join(engines).isdecimal() and engines and others.data.get("device"):
            raise ValueError("it names the devices: leave out BRAID_DEVICE")
        return engines

    @property
    def key_share(self) -> float:
        """The part of a pool that one API key may hold: all of it where there are no others."""
        return self.tenant_share if len({*self.api_keys}) > 1 or self.keys_file else 1.0

    @property
    def needs_key(self) -> bool:
        """Whether clients must send a key."""
        return bool(self.api_keys or self.keys_file)

    @property
    def needs_admin_key(self) -> bool:
        """Whether the paths that load and unload models take no other keys than those of administrators."""
        return bool(self.admin_keys or self.keys_file)

    @property
    def engine_devices(self) -> list[str | None]:
        """The device of each engine; None: those in the graphs."""
        if not self.engines or self.engines[0].isdecimal():
            return [self.device] * int(self.engines[0] if self.engines else 1)
        return list(self.engines)

    @property
    def num_engines(self) -> int:
        return len(self.engine_devices)

    @property
    def engine_sockets(self) -> list[Path]:
        """The unix socket of each engine; [] in a process that no server has started."""
        if self.engine_socket is None or self.num_engines == 1:
            return [] if self.engine_socket is None else [self.engine_socket]
        return [self.engine_socket.with_name(f"engine-{i}.sock") for i in range(self.num_engines)]

    @property
    def url(self) -> str:
        """The URL of the server for a client on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http{'s' if self.tls else ''}://{bracketed(host)}:{self.port}"
