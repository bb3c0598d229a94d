"""The field `repetition_detection`: when an output that repeats itself is ended."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator

from pipelines.requests.fields.field_types import MAX_PATTERN, Whole, field_error
from pipelines.requests.fields.known_fields import Options
from pipelines.wire.sampling_params import RepetitionDetection


class Detection(Options):
    """vLLM's shape.  A `max_pattern_size` of 0 switches it off."""

    where: ClassVar[str] = "repetition_detection"

    max_pattern_size: Whole = 0
    min_pattern_size: Whole = 0
    min_count: Whole = 0

    def detection(self) -> RepetitionDetection | None:
        if self.max_pattern_size == 0:
            return None
        return RepetitionDetection(self.max_pattern_size, self.min_count, max(self.min_pattern_size, 1))


def _sensible(found: Detection) -> Detection:
    if not 0 <= found.max_pattern_size <= MAX_PATTERN:
        raise field_error(f"`max_pattern_size` must be in [0, {MAX_PATTERN}], got {found.max_pattern_size}")
    if not 0 <= found.min_pattern_size <= found.max_pattern_size:
        raise field_error("`min_pattern_size` must be in [0, max_pattern_size]")
    if found.max_pattern_size and not 2 <= found.min_count <= MAX_PATTERN:
        raise field_error(f"`min_count` must be in [2, {MAX_PATTERN}], got {found.min_count}")
    return found


Repetition = Annotated[Detection, AfterValidator(_sensible)]
