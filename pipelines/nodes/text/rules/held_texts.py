"""The grammar of a call of a tool that takes one text, for families that write the text as it is."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.base.errors import RequestError
from pipelines.grammars.formats import Format, GrammarWriter
from pipelines.grammars.unenforced_keywords import note
from pipelines.nodes.text.parsers.tools.text_forms import TEXT_FORMS
from pipelines.nodes.text.rules.held_tools import WHERE
from pipelines.wire.sampling_params import HeldCalls


def held_text(family: str | None, formats: Mapping[str, Format], write: GrammarWriter) -> HeldCalls | None:
    """How the first of the tools with a format is held to it in free text; the others are noted as not held.

    None where the family has no such form, or the format none that ends at a mark.
    """
    form, held = TEXT_FORMS.get(family or ""), None
    for name, text_format in formats.items():
        if form is not None and held is None:
            text = {**text_format, "type": "tagged_text", "end": form.end}
            rest = {"type": "sequence", "elements": [{"type": "const_string", "value": form.before}, text]}
            try:
                held = HeldCalls(form.begin.replace("NAME", name), write(rest, WHERE))
                continue
            except RequestError:
                pass
        note(name, ["format"])
    return held
