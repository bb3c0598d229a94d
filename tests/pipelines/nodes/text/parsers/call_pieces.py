"""What a client makes of the pieces of calls."""

from pipelines.nodes.text.parsers.tables import TOOLS


def joined(pieces):
    """(name, arguments) of each call, after a check that pieces come as clients expect them."""
    calls = []
    for piece in pieces:
        if piece.name is not None:
            assert piece.index == len(calls)
            assert piece.id
            calls.append([piece.id, piece.name, piece.arguments])
        else:
            assert piece.index == len(calls) - 1
            assert piece.id is None
            assert piece.arguments
            calls[-1][2] += piece.arguments
    assert len({id for id, _, _ in calls}) == len(calls)
    return [(name, arguments) for _, name, arguments in calls]


def parse(name, texts, tools=()):
    """(content, calls) of texts that come one after the other."""
    parser = TOOLS[name](tools)
    out = [parser.push(text) for text in texts] + [parser.push("", final=True)]
    return "".join(text for text, _ in out), joined(piece for _, found in out for piece in found)
