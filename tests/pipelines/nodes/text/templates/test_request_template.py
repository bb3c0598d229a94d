"""Templates of requests: what they do wrong ends in an error, and in nothing else."""

from __future__ import annotations

import contextlib

import pytest
from breadth import after

from pipelines.base.bounded_processes import BoundedProcesses
from pipelines.base.errors import RequestError
from pipelines.nodes.text.templates import request_template
from pipelines.nodes.text.templates.jinja_template import MAX_PROMPT_CHARS, Template
from pipelines.nodes.text.templates.request_template import RequestTemplate

HELLO = [{"role": "user", "content": "Hello"}]


def render_processes(max_memory_bytes):
    return BoundedProcesses(
        "pipelines.nodes.text.templates.rendering", 2, max_memory_bytes, "render templates"
    )


@pytest.fixture(scope="module")
def processes():
    """Processes with less time and memory than those of a server, so that the tests are quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_template, "MAX_RENDER_S", 0.5)
        made = render_processes(384 << 20)
        patch.setattr(request_template, "PROCESSES", made)
        yield made
        made.close()


def render(source, messages=HELLO, tools=None, generate=True, go_on=False, special=None, **kwargs):
    return RequestTemplate(source, special or {}).render(messages, tools, generate, go_on, kwargs)


USUAL = {
    "messages": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
    "special tokens": "{{ bos_token }}{{ mood }}",
    "parts": "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
    "tools": "{{ tools | tojson(indent=2) }}",
    "unicode": "{{ messages[0].content }} é 😀 \\u2028",
}


@pytest.mark.parametrize("name", USUAL)
def test_a_usual_template_gives_what_it_gives_in_the_worker(name, processes):
    given = (HELLO, [{"type": "function"}], True, False, {"mood": "calm \ud800"})
    special = {"bos_token": "<s>"}
    wanted = Template(USUAL[name], special).render(*given)
    assert RequestTemplate(USUAL[name], special).render(*given) == wanted


def test_a_server_started_where_a_package_has_the_name_of_ours_renders(tmp_path, monkeypatch):
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("raise RuntimeError('not of Braid')")
    monkeypatch.chdir(tmp_path)
    made = render_processes(request_template.MAX_MEMORY_BYTES)
    monkeypatch.setattr(request_template, "PROCESSES", made)
    assert render("{{ messages[0].content }}") == "Hello"
    made.close()


def test_the_final_message_may_be_continued(processes):
    assert render("{{ messages[0].content }}<end>", go_on=True) == "Hello"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% if %}", "it does not compile"),
        ("{{ messages[0].content.__class__.__mro__ }}", "SecurityError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ raise_exception('x' * 100000) }}", "xxx"),
    ],
)
def test_what_is_wrong_is_told(source, text, processes):
    with pytest.raises(RequestError, match=text) as error:
        render(source)
    assert error.value.field == "chat_template"
    assert error.value.message.startswith("`chat_template`: ")


NESTED = "{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}"
DOUBLED = (
    "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}"
    "{% set ns.s = STEP %}{% endfor %}{{ ns.s|length }}"
)
BOMBS = {
    "loops": NESTED + "{% endfor %}" * 3,
    "loops that write": NESTED + "x" + "{% endfor %}" * 3,
    "loops of expressions": NESTED + "{% set a = i * j %}" + "{% endfor %}" * 3,
    "joined twice": DOUBLED.replace("STEP", "ns.s ~ ns.s"),
    "added twice": DOUBLED.replace("STEP", "ns.s + ns.s"),
    "formatted twice": DOUBLED.replace("STEP", "'%s%s' % (ns.s, ns.s)"),
    "formatted twice by a method": DOUBLED.replace("STEP", "'{0}{0}'.format(ns.s)"),
    "formatted twice by a filter": DOUBLED.replace("STEP", "'%s%s'|format(ns.s, ns.s)"),
    "joined by a filter": DOUBLED.replace("STEP", "[ns.s, ns.s]|join"),
    "joined by a method": DOUBLED.replace("STEP", "ns.s.join(['', ns.s, ''])"),
    "replaced": DOUBLED.replace("STEP", "ns.s.replace('a', 'aa')"),
    "replaced by a filter": DOUBLED.replace("STEP", "ns.s|replace('a', 'aa')"),
    "lists": DOUBLED.replace("'aaaaaaaaaaaaaaaa'", "[1]").replace("STEP", "ns.s + ns.s"),
    "nested lists": DOUBLED.replace("'aaaaaaaaaaaaaaaa'", "[1]").replace("STEP", "[ns.s, ns.s]")
    + "{{ ns.s }}",
    "escaped": DOUBLED.replace("aaaaaaaaaaaaaaaa", "&").replace("STEP", "(ns.s ~ ns.s)|forceescape"),
    "url": DOUBLED.replace("aaaaaaaaaaaaaaaa", "%").replace("STEP", "ns.s|urlencode"),
    "json": DOUBLED.replace("aaaaaaaaaaaaaaaa", '"').replace("STEP", "ns.s|tojson"),
    "expanded tabs": "{{ '\t'.expandtabs(10**9)|length }}",
    "%d": "{{ '%1000000000d' % 1 }}",
    "%d by a filter": "{{ '%1000000000d'|format(1) }}",
    "%*d": "{{ '%*d' % (10**9, 1) }}",
    "%s with precision": "{{ '%1000000000.1s' % 'a' }}",
    "format": "{{ '{:1000000000d}'.format(1)|length }}",
    "format of a variable width": "{{ '{:{}}'.format(1, 10**9)|length }}",
    "format_map": "{{ '{a:1000000000}'.format_map({'a': 1})|length }}",
    "center": "{{ 'a'.center(10**10) }}",
    "center by a filter": "{{ 'a'|center(10**9) }}",
    "ljust": "{{ 'a'.ljust(10**9)|length }}",
    "rjust": "{{ 'a'.rjust(10**9)|length }}",
    "zfill": "{{ '1'.zfill(10**9)|length }}",
    "indent": "{{ ('a\n' * 10000)|indent(10**6) }}",
    "indent by text": "{{ ('a\n' * 10000)|indent('b' * 1000000) }}",
    "json indent": "{{ [[[[1]] * 1000] * 100] | tojson(indent=100000) }}",
    "translate": "{{ ('a' * 1000000).translate({97: 'b' * 1000000})|length }}",
    "power": "{{ 10**10**10 }}",
    "powers": "{% set ns = namespace(n=7) %}{% for i in range(99) %}{% set ns.n = ns.n ** 2 %}{% endfor %}",
    "power of powers": "{{ 10**(10**10) }}",
    "shift": "{{ (1).__lshift__(10**10) }}",
    "to_bytes": "{{ (1).to_bytes(10**10, 'big')|length }}",
    "times": "{{ 'a' * 10**10 }}",
    "times a list": "{{ [0] * 10**10 }}",
    "times a tuple": "{{ (10**10) * (0,) }}",
    "range": "{{ range(10**10)|list|length }}",
    "range sum": "{{ range(99999)|map('string')|map('list')|list|length }}{{ range(10**12)|sum }}",
    "batch": "{{ [1]|batch(10**10, 'x')|list }}",
    "slice": "{{ [1]|slice(10**9, 'x')|list|length }}",
    "lipsum": "{{ lipsum(10**6) }}",
    "cycler": "{% set c = cycler(1, 2) %}" + NESTED + "{{ c.next() }}" + "{% endfor %}" * 3,
    "macros": "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "recursive macros": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "recursive loops": "{% for a in [[]] recursive %}{{ loop([a, a]) }}{% endfor %}",
    "calls": "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 40
    + "x"
    + "{% endcall %}" * 40,
    "blocks": "{% filter upper %}" * 500 + "x" + "{% endfilter %}" * 500,
    "deep": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "brackets": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "operators": "{{ 1" + " + 1" * 100_000 + " }}",
    "comparisons": "{{ 1" + " < 1" * 100_000 + " }}",
    "regular expression": "{{ ('a' * 40 ~ '!')|wordwrap(1)|striptags }}{{ ('<' * 1000000)|striptags|length }}",
    "urlize": "{{ ('http://' * 200000)|urlize }}",
    "word wrap": "{{ ('a' * 1000000)|wordwrap(1, wrapstring='b' * 1000) }}",
    "sort": "{{ range(99999)|list|sort(attribute='x.y')|length }}" * 50,
    "group": "{% for i in range(999) %}{{ range(99999)|groupby('real')|length }}{% endfor %}",
    "dictionaries": "{% for i in range(999) %}{% set d = dict(range(99999)|batch(2)) %}{% endfor %}",
    "pretty": "{{ range(99999)|list|pprint }}" * 100,
    "time": "{{ strftime_now('%c' * 10000000) }}",
    "from_json": "{{ ('[' * 1000000)|from_json }}",
    "from_json numbers": "{{ ('9' * 1000000)|from_json }}",
    "int": "{{ ('9' * 1000000)|int(base=36) }}",
    "random": NESTED + "{{ range(9)|random }}" + "{% endfor %}" * 3,
    "endless unique": "{{ range(99999)|map('list')|unique|list }}",
    "messages": "{% for i in range(999999) %}{% for m in messages %}{{ m.content * 1000 }}{% endfor %}{% endfor %}",
}
FATAL = (
    *("loops", "%d", "power of powers", "deep", "from_json"),
    *("joined twice", "%d by a filter", "center", "ljust", "zfill", "format"),
    *("replaced", "json indent", "range sum"),
)
"""Those that can only end in an error."""
OTHERS = [pytest.param(name, marks=pytest.mark.breadth) for name in BOMBS if name not in FATAL]


@pytest.mark.slow
@pytest.mark.parametrize("name", after(5, FATAL))
def test_a_bomb_ends_in_an_error(name, processes):
    with pytest.raises(RequestError) as error:
        render(BOMBS[name])
    assert error.value.field == "chat_template"
    assert len(error.value.message) < 8192


@pytest.mark.parametrize("name", OTHERS)
def test_a_bomb_ends(name, processes):
    with contextlib.suppress(RequestError):
        assert len(render(BOMBS[name])) < MAX_PROMPT_CHARS


@pytest.mark.slow
def test_after_a_bomb_the_next_template_renders(processes):
    with pytest.raises(RequestError, match="took longer than 0.5 s"):
        render(BOMBS["loops"])
    assert render("{{ messages[0].content }}") == "Hello"


def test_what_one_request_renders_has_one_time_limit(processes):
    template = RequestTemplate("{% for i in range(99999) %}{{ i }}{% endfor %}", {})

    def renders():
        for _ in range(1000):
            template.render(HELLO, None, True, False, {})

    with pytest.raises(RequestError, match="took longer than"):
        renders()


def test_processes_are_kept(processes):
    render("{{ 1 }}")
    kept = list(processes._idle)
    for _ in range(5):
        render("{{ 1 }}")
    assert processes._idle == kept
