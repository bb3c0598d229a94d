"""What one call has submitted to engines: sent when it is ready, ended with the call."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from pipelines.values.node_values import Tokens
from pipelines.values.stream_values import StreamChoice
from pipelines.worker.choices import Choices
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.submissions import Submission, TensorSubmission, TokenSubmission


class Submitted:
    """The submissions of a call, in the order in which its nodes made them."""

    def __init__(self, client: RequestClient, choices: Choices) -> None:
        self._client = client
        self._choices = choices
        self._all: list[Submission] = []

    def add(self, submission: Submission) -> None:
        self._all.append(submission)

    def remove(self, submission: Submission) -> None:
        """Forget one that has ended, and with it the memory of its reply."""
        self._all.remove(submission)

    def send_ready(self, most: int | None) -> None:
        """Send what waits for no other one, of the first `most`; None: of all.  Raises as `send`."""
        for submission in self._all[:most]:
            if submission.is_ready:
                self.send(submission)

    def send(self, submission: Submission) -> None:
        """Raises Unavailable without an engine, RequestError for what cannot be sent."""
        submission.send(self._client)
        submission.sent_s = monotonic()
        if isinstance(submission, TokenSubmission):
            self._choices.sent(submission)

    def end(self) -> None:
        """End every submission that was sent, and what the host holds; what has ended is left alone."""
        for submission in self._all:
            submission.end(self._client)

    # --- lengths

    @property
    def text_lengths(self) -> list[int]:
        """Tokens of each text of all submissions."""
        return [length for each in self._all for length in each.text_lengths]

    @property
    def first_lengths(self) -> list[int]:
        """Tokens of each prompt or text, as they were first submitted, and of each image that is no part of a
        prompt.
        """
        texts: Sequence[int] = ()
        images: list[int] = []
        for prompt in self._all:
            if _has_images(prompt):
                images += prompt.text_lengths
            else:
                texts = texts or prompt.text_lengths
        return [*texts, *images]

    @property
    def num_image_tokens(self) -> int:
        """Tokens of all images of a request for vectors."""
        alone = sum(sum(each.text_lengths) for each in self._all if _has_images(each))
        shown = (each.images for each in self._all if isinstance(each, TensorSubmission) and each.images)
        return alone + sum(image.num_tokens for images in shown for text in images.placed for image in text)

    @property
    def prompt_ids(self) -> list[list[int]]:
        """Token ids of each prompt, as they were first submitted."""
        return next((each.text_ids for each in self._all if each.text_lengths), [])

    def choice(self, index: int) -> StreamChoice:
        """A choice of the last submission to a generative engine."""
        return self.generating.choice(index)

    @property
    def generating(self) -> TokenSubmission:
        """The last submission to a generative engine."""
        return [each for each in self._all if isinstance(each, TokenSubmission)][-1]

    @property
    def prompts(self) -> list[Tokens]:
        """The prompts of the first submission to a generative engine."""
        return next((each.prompts for each in self._all if isinstance(each, TokenSubmission)), [])


def _has_images(submission: Submission) -> bool:
    return isinstance(submission, TensorSubmission) and submission.has_images
