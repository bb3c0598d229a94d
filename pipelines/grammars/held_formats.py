"""The format of a constraint, without what no grammar holds where the client takes less than all of it."""

from __future__ import annotations

from pipelines.base.errors import NoTextFits, RequestError
from pipelines.grammars.formats import Format, GrammarWriter, format_of
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.normal_schema import loose_schema
from pipelines.grammars.schema_keywords import SchemaError
from pipelines.grammars.unenforced_keywords import note_field
from pipelines.values.tasks import Constraint


def held_format(constraint: Constraint, write: GrammarWriter) -> Format:
    """The format of a constraint; of a `loose` one whose schema has no grammar, the part that has one.

    The keywords that are left out are noted.  A format that has no grammar either way is returned whole, for
    `write` to refuse.  Raises RequestError for a value that does not fit its kind, and where no text fits.
    """
    format = format_of(constraint)
    if not constraint.loose or not isinstance(constraint.value, dict):
        return format
    try:
        write(format, constraint.where)
    except NoTextFits:
        raise
    except RequestError:
        try:
            loose, left_out = loose_schema(constraint.value)
        except (BoundError, SchemaError):
            return format
        if left_out:
            note_field(constraint.where, left_out)
            return {**format, "json_schema": loose}
    return format
