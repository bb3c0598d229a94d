"""The tokenize node: prompts → token ids; and what the nodes with a tokenizer have in common."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.nodes.images.places import place_images, write_images
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.text.tokenizing.long_text import PIECE_CHARS
from pipelines.nodes.text.tokenizing.text_reader import TextReader, cut, max_prompt_tokens
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from pipelines.values.node_values import Images, Prompt, Tokens
from pipelines.values.tasks import GenerationInput, PoolingInput

if TYPE_CHECKING:
    from pipelines.nodes.text.tokenizing.gap_reader import GapReader


class TokenizerNode(Node):
    """A node with a tokenizer, which is the graph's tokenizer for endpoints too."""

    class Config(NodeConfig):
        tokenizer: FilePath = Field(description="a tokenizer.json")

    def load(self, resources: Loading) -> None:
        self.path = self.folder / self.config.tokenizer
        self.tokenizer = resources.shared(open_tokenizer, self.path)
        self.max_context = resources.max_context
        self.reader = TextReader(self.tokenizer, self.max_context)
        self.max_chars = self.reader.max_chars

    @cached_property
    def gaps(self) -> GapReader:
        """What writes prompts with gaps."""
        from pipelines.nodes.text.tokenizing.gap_reader import GapReader  # few requests have a gap

        return GapReader(self.tokenizer, self.ids)

    def whole(self, request: PoolingInput, prompts: list[Prompt]) -> list[Tokens]:
        """The tokens of texts for an embedding or pooling model.  Raises RequestError."""
        if not request.images:
            check_given(prompts)
        if request.stride is not None:
            return self.reader.windows(prompts, request.stride)
        return self.reader.read(prompts, self.max_tokens(request), request.truncate_left)

    def max_tokens(self, request: PoolingInput) -> int | None:
        """The tokens to which the request has its texts cut; None: not cut.  Raises RequestError."""
        return max_prompt_tokens(request, self.max_context, self.max_context)

    def ids(self, prompt: Prompt, most: int | None = None, left: bool = False) -> list[int]:
        """All tokens of one prompt; of a long one as many as `TextReader.encode` gives."""
        if prompt.ids is not None:
            return prompt.ids
        if prompt.gap is not None:
            frame = self.reader.frames[1, prompt.add_special_tokens]
            return self.gaps.ids(prompt.gap, lambda ids: frame.around(ids)[0])
        if prompt.pieces:
            return self.joined(prompt)
        text, special = prompt.text or "", prompt.add_special_tokens
        if len(text) > PIECE_CHARS:
            return self.reader.frames[1, special].around(self.reader.encode_long(text, most, left))[0]
        ids: list[int] = self.tokenizer.encode_batch_fast([text], add_special_tokens=special)[0].ids
        return ids  # encoded as a batch of one, which releases the GIL

    def joined(self, prompt: Prompt) -> list[int]:
        """All tokens of a prompt whose pieces are tokenized one by one.

        Tokenizers may begin a text as if there were blank space before it, but not a line.
        """
        first, *others = prompt.pieces
        ids = self.ids(replace(prompt, text=first, pieces=()))
        begin = len(self.ids(Prompt(LINE_END)))
        for piece in filter(None, others):
            ids += self.ids(Prompt(LINE_END + piece))[begin:]
        return ids


def with_images(tokens: list[Tokens], images: Images, field: str) -> list[Tokens]:
    """The prompts with all tokens of their images.  Raises RequestError."""
    placed = place_images([prompt.ids for prompt in tokens], images, field)
    return [replace(prompt, ids=ids, images=own) for prompt, (ids, own) in zip(tokens, placed, strict=True)]


def field_of(request: GenerationInput) -> str:
    """The field of a request that holds its prompt."""
    return "prompt" if request.messages is None else "messages"


def check_given(prompts: list[Prompt]) -> None:
    """Raise RequestError where the graph made no prompt of a conversation."""
    if not prompts:
        raise RequestError("this model takes raw prompts: its graph lacks a chat_template", "messages")


LINE_END = "\n"
PROMPT_TAIL_TOKENS = 64
"""The last tokens of a prompt in token ids are decoded for parsers, which read only how a prompt ends."""


class Tokenize(TokenizerNode):
    """Turns prompts into token ids; ids that the client made pass through.

    With `images` each mark for an image, or a sound, in a prompt becomes all its tokens.
    """

    class Config(TokenizerNode.Config):
        strip: bool = Field(
            default=False,
            description="remove blank space at the ends of texts; not of prompts that a chat template wrote",
        )
        lowercase: bool = Field(default=False, description="tokenize the same texts in lower case")
        truncate: bool = Field(
            default=False, description="cut texts that are too long for the model, instead of refusing them"
        )

    def run(self, call: Running, prompts: list[Prompt], images: Images | None = None) -> list[Tokens]:
        if self.config.strip or self.config.lowercase:
            prompts = [self.cleaned(each) for each in prompts]
        if isinstance(call.request, PoolingInput):
            if images is not None:
                return self.shown(call.request, prompts, images)
            return self.whole(call.request, prompts)
        return self.to_continue(call.request, prompts, images)

    def max_tokens(self, request: PoolingInput) -> int | None:
        """The bound that the request sets, or the model's where the graph cuts texts."""
        most = super().max_tokens(request)
        return self.max_context or None if most is None and self.config.truncate else most

    def cleaned(self, prompt: Prompt) -> Prompt:
        """A text as the graph wants it; token ids and what a chat template wrote stay as they are."""
        if prompt.text is None or prompt.is_rendered:
            return prompt
        text = prompt.text.strip() if self.config.strip else prompt.text
        text = text.lower() if self.config.lowercase else text
        return prompt if text == prompt.text else replace(prompt, text=text)

    def to_continue(
        self, request: GenerationInput, prompts: list[Prompt], images: Images | None
    ) -> list[Tokens]:
        """The tokens of prompts that a generative model continues.  Raises RequestError."""
        check_given(prompts)
        if images is not None:
            prompts = write_images(prompts, images, field_of(request))
        if request.truncate_prompt_tokens is None and not self.config.truncate:
            self.check_length(prompts, field_of(request))
        bad_words = self.spellings(request.bad_words)
        reply_text = self.read(request.completion_ids) if request.parse_reasoning else ""
        most = max_prompt_tokens(request, self.max_context, self.max_context - 1)
        if most is None and self.config.truncate and self.max_context:
            most = self.max_context - 1
        common = self.breakers(request) | self.expected(request)
        tokens = [
            Tokens(
                self.to_size(prompt, request, most),
                bad_words,
                prompt_text=self.prompt_text(prompt, request),
                reply_text=reply_text,
                sampling=self.stops(prompt, request) | common,
            )
            for prompt in prompts
        ]
        if images is None:
            return tokens
        if images.lengths and request.truncate_prompt_tokens is not None:
            raise RequestError("a prompt with images or sounds is not cut", "truncate_prompt_tokens")
        return with_images(tokens, images, field_of(request))

    def shown(self, request: PoolingInput, prompts: list[Prompt], images: Images) -> list[Tokens]:
        """The tokens of texts that may show images, for a model that gives vectors of them.

        Texts beside images are not cut.  Raises RequestError.
        """
        check_given(prompts)
        field = "messages" if request.conversations else "input"
        prompts = write_images(prompts, images, field)
        if not images.lengths and not any(prompt.pieces for prompt in prompts):
            return with_images(self.whole(request, prompts), images, field)
        self.reader.refuse_long_texts([prompt.text for prompt in prompts if prompt.text is not None])
        read = [Tokens(self.ids(prompt), of=of) for of, prompt in enumerate(prompts)]
        tokens = with_images(read, images, field)
        longest, most = max(len(text.ids) for text in tokens), self.max_tokens(request)
        if longest > (most or longest):
            raise RequestError(
                f"an input beside images has {longest} tokens, and `truncate_prompt_tokens` is {most}: it is "
                "not cut",
                "truncate_prompt_tokens",
            )
        for text in tokens:
            self.reader.check_size(text.ids)
        return tokens

    def prompt_text(self, prompt: Prompt, request: GenerationInput) -> str:
        """The prompt's text; of ids its end, where parsers of reasoning read it."""
        if prompt.ids is None:
            return prompt.text or ""
        return self.read(prompt.ids[-PROMPT_TAIL_TOKENS:]) if request.parse_reasoning else ""

    def check_length(self, prompts: list[Prompt], field: str) -> None:
        """Raise RequestError for text that cannot fit, before it is encoded, which takes seconds."""
        longest = max(len(prompt.text or "") for prompt in prompts)
        if longest > self.max_chars > 0:
            raise ContextTooLong(
                f"You passed {longest} input characters. However, the model's context length is only "
                f"{self.max_context} tokens (at most {self.max_chars} characters). "
                "Please reduce the length of the input prompt.",
                field,
            )

    def to_size(self, prompt: Prompt, request: GenerationInput, most: int | None) -> list[int]:
        """The tokens of a prompt and of the reply's beginning, cut to `most`; None: not cut.

        Raises RequestError for a long text of more tokens than the model takes.
        """
        ids = self.ids(prompt, most or self.max_context or None, most is not None and request.truncate_left)
        is_long = len(prompt.text or "") > PIECE_CHARS  # then there may be more ids than were read
        if most is None and is_long and len(ids) > self.max_context > 0:
            raise ContextTooLong(
                f"This model's maximum context length is {self.max_context} tokens. However, your prompt "
                f"contains at least {self.max_context + 1} input tokens. "
                "Please reduce the length of the input prompt.",
                field=field_of(request),
            )
        return cut(ids + request.completion_ids, most, request.truncate_left)

    def stops(self, prompt: Prompt, request: GenerationInput) -> dict[str, Any]:
        """The further end tokens of what fills a gap, as a sampling parameter."""
        if prompt.gap is None or self.gaps.form is None:
            return {}
        return {"stop_token_ids": [*request.sampling.get("stop_token_ids", []), *self.gaps.form.stops]}

    def breakers(self, request: GenerationInput) -> dict[str, Any]:
        """The tokens across which no repetition reaches, as a sampling parameter."""
        llama = request.sampling.get("llama")
        if llama is None or not llama.dry_multiplier:
            return {}
        texts = request.sequence_breakers
        ids = [token for token, text in enumerate(self.token_texts) if any(part in text for part in texts)]
        return {"llama": replace(llama, dry_breaker_ids=ids)}

    def expected(self, request: GenerationInput) -> dict[str, Any]:
        """The tokens of the reply that is expected, as a sampling parameter."""
        if not request.expected:
            return {}
        return {"expected_ids": self.tokenizer.encode(request.expected, add_special_tokens=False).ids}

    @cached_property
    def token_texts(self) -> list[str]:
        """The text of each token alone."""
        size = self.tokenizer.get_vocab_size()
        texts: list[str] = self.tokenizer.decode_batch([[i] for i in range(size)], skip_special_tokens=False)
        return texts

    def read(self, ids: list[int]) -> str:
        """The text of ids for parsers, special tokens included."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False) if ids else ""
        return text

    def spellings(self, words: list[str]) -> list[list[int]]:
        """Each word as it is tokenized at the start of a text and after a space (vLLM's rule)."""
        found = []
        for word in words:
            for spelling in (word.lstrip(), " " + word.lstrip()):
                ids = self.tokenizer.encode(spelling, add_special_tokens=False).ids
                if ids and ids not in found:
                    found.append(ids)
        return found
