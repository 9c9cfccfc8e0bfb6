"""campaign.toml: what is read, and what is said about what cannot be."""

import contextlib
import datetime
import re
import string
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cobed.campaign import parts
from cobed.campaign.fields import table
from cobed.campaign.spec import CampaignSpec, parse_spec, read_spec
from cobed.campaign.template import template
from cobed.campaign.toml import as_key, as_toml, find_line
from cobed.errors import SpecError

GOOD = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
channel = { type = "categorical", levels = ["Web", "Phone"] }
new = "binary"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "visit"
likelihood = "bernoulli"
typical = 0.2
[constraints]
at_most = { "5%" = 10 }
[[constraints.forbid]]
action = "5%"
column = "channel"
values = ["Web"]
"""


def test_a_good_spec_is_read_with_its_defaults():
    spec = parse_spec(GOOD)
    assert spec.context["recency"].type == "numeric"
    assert spec.context["channel"].levels == ("Web", "Phone")
    assert spec.action.columns == ["offer"]
    assert spec.design.budget == "quick"
    assert spec.outcome.center == 0.2
    assert parse_spec(GOOD.replace("typical = 0.2\n", "")).outcome.center == 0.5


def test_how_many_units_a_round_takes_depends_on_the_model():
    free = GOOD.partition("[constraints]")[0]
    numbers = free.replace('options = ["none", "5%"]', "numbers = { price = { low = 1, high = 2 } }")
    normal = free.replace('"bernoulli"\ntypical = 0.2', '"normal"\ntypical = 50\nspread = 10')
    process = normal + '[model]\nfamily = "gp"\n'
    assert [parse_spec(text).max_units for text in (free, GOOD, numbers, process)] == [200_000, 5_000, 5_000, 500]


def test_every_field_is_documented():
    def check(model):
        assert model.__doc__
        for name, field in model.model_fields.items():
            inner = hasattr(field.annotation, "model_fields")
            assert field.description or inner or name == "context", f"{model.__name__}.{name}"
            if inner:
                check(field.annotation)

    check(CampaignSpec)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("likelihood", "liklihood", r"line 13, outcome\.liklihood: there is no such key\. Did you mean 'likelihood'\?"),
        ('"bernoulli"', '"gaussian"', r"line 13, outcome\.likelihood: There is no outcome law 'gaussian'\. Allowed"),
        (
            '"numeric"',
            '"number"',
            r"line 5, context\.recency: .number. is not allowed\. Did you mean 'numeric'\?",
        ),
        (
            "levels =",
            "level =",
            r"line 6, context\.channel: a categorical column has no 'level'\. Did you mean 'levels'\? Allowed here: type, levels",
        ),
        ('id = "customer"', "", r"units\.id: this key is missing\. The column that names a unit"),
        ('[units]\nid = "customer"', "", r"campaign\.toml, units: this key is missing"),
        ('"5%" = 10', '"6%" = 10', r"constraints\.at_most names '6%', which is no action; allowed: none, 5%"),
        ("= 10", "= -1", r"line 16, constraints\.at_most\.5%: -1 is not allowed: at least 0 is needed"),
        ('column = "channel"', 'column = "recency"', r"names the column 'recency'; allowed are .*: channel, new"),
        ('values = ["Web"]', 'values = ["Wbe"]', r"names 'Wbe', which is no level of 'channel': Web, Phone"),
        (
            'column = "channel"\nvalues = ["Web"]',
            'column = "new"\nvalues = ["maybe"]',
            r"names 'maybe' for the binary column 'new'; allowed: yes or no",
        ),
        ("[units]", "[units", r"not valid TOML: .*line 2"),
        ('"visit"', "7", r"line 12, outcome\.column: 7 is not allowed"),
        ('"visit"', '"offer"', r"the column 'offer' is used twice"),
        ("typical = 0.2", "typical = 20", r"outcome: typical is a share of units between 0 and 1 .* got 20"),
        (
            '"bernoulli"\ntypical = 0.2',
            '"normal"\n[prior]\naction = 1.0',
            r"normal outcomes need typical .* and spread",
        ),
        ('options = ["none", "5%"]', 'options = ["none"]', r"options need at least 2 different names"),
        ('options = ["none", "5%"]', "numbers.price = { low = 3, high = 1 }", r"low must be below high, got 3 and 1"),
        ('options = ["none", "5%"]', "", r"action: give either options"),
        ('name = "spring"', 'name = "spring"\nseed = "a"', r"line 2, seed: .a. is not allowed"),
        (
            "[constraints]",
            '[model]\nprogram = "x"\n[constraints]',
            r"model\.program: a program is written 'module:function'",
        ),
    ],
)
def test_an_error_names_file_line_key_value_and_what_is_allowed(old, new, message):
    assert old in GOOD
    with pytest.raises(SpecError, match=message) as error:
        parse_spec(GOOD.replace(old, new, 1))
    assert "campaign.toml" in str(error.value)


def test_deviations_by_hand_belong_to_laws_of_one_predictor():
    amounts = GOOD.replace('"bernoulli"\ntypical = 0.2', '"hurdle"\ntypical = 2\nspread = 3')
    assert parse_spec(amounts).outcome.law.parts == ("bernoulli", "gamma")
    with pytest.raises(
        SpecError, match=r"hurdle outcomes have two predictors.*leave it out, or use likelihood = .tweedie"
    ):
        parse_spec(amounts + "[prior]\naction = 0.5\n")


def test_all_errors_are_told_at_once():
    with pytest.raises(SpecError) as error:
        parse_spec(GOOD.replace("likelihood", "liklihood").replace('"numeric"', '"number"'))
    assert len(str(error.value).splitlines()) == 3


def test_a_missing_file_is_told_what_to_do(tmp_path):
    with pytest.raises(SpecError, match=r"does not exist\. `cobed init` writes one"):
        read_spec(tmp_path / "campaign.toml")


def test_the_template_is_a_valid_spec():
    assert parse_spec(template("spring")).action.options == ("A", "B")


def test_every_key_of_the_template_is_valid_where_it_is_no_comment_any_more():
    """All but [model] and the other way to say what the actions are, which exclude others."""
    text = template("spring").replace("# [", "[")
    keys = re.sub(r"(?m)^# (\w+ = (?!\.\.\.))", r"\1", text)
    for excluded in (r"numbers = .*", r"spread = .*", r"current = .*", r"\[model\]\n(?s:.*?)(?=\n\[prior\])"):
        keys, count = re.subn(rf"(?m)^{excluded}", "", keys)
        assert count == 1
    spec = parse_spec(keys)
    assert spec.constraints.at_most == {"B": 100}
    assert spec.constraints.forbid[0].column == "segment"
    assert spec.prior.interaction == 0.25


def test_the_documentation_has_every_field_as_it_is_defined():
    documented = (Path(__file__).parents[2] / "docs" / "campaign.md").read_text()
    assert table() in documented, "python -m cobed.campaign.fields prints the table for docs/campaign.md"


def test_the_line_of_a_key_is_found_in_dotted_and_quoted_keys():
    text = 'a = 1\n[b]\n"c d" = 2\ne.f = 3\n[[g.h]]\ni = 4\n[[g.h]]\ni = 5\n'
    assert find_line(text, ("b", "c d")) == 3
    assert find_line(text, ("b", "e", "f", "type")) == 4
    assert find_line(text, ("g", "h", 1, "i")) == 8
    assert find_line(text, ("nothing",)) is None


# Anything at all, in the places of a good spec: read, or told with the file's name. Never a traceback of another kind.

words = st.text(alphabet=string.ascii_letters + string.digits + ' _-=%"[]{}.,\n#é', max_size=12)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**12),
    st.floats(),
    words,
    st.sampled_from(["numeric", "binary", "normal"]),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=6
)


@contextlib.contextmanager
def told():
    """Allows an error of ours that names the file, and no other."""
    try:
        yield
    except SpecError as error:
        if "campaign.toml" not in str(error):
            raise RuntimeError(f"the file is not named: {error}") from error


def write(value):
    """TOML of a value, near enough: what TOML has no word for is told as invalid."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write(str(key))} = {write(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(write, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(value)


KEYS = [
    ("name",), ("seed",), ("units",), ("units", "id"), ("context",), ("context", "recency"), ("context", "channel"),
    ("action",), ("action", "column"), ("action", "options"), ("action", "numbers"), ("outcome",), ("outcome", "column"),
    ("outcome", "likelihood"), ("outcome", "typical"), ("outcome", "spread"), ("model",), ("model", "program"),
    ("prior",), ("prior", "action"), ("design",), ("design", "budget"), ("design", "max_targets"), ("constraints",),
    ("constraints", "at_most"), ("constraints", "cost"), ("constraints", "max_cost"), ("constraints", "forbid"),
]  # fmt: skip
# Inside the values of others.
INNER = [
    ("context", "channel", "levels"), ("context", "channel", "type"), ("action", "numbers", "price"),
    ("action", "numbers", "price", "low"), ("model", "lengths"), ("model", "lengths", "recency"), ("model", "fit"),
    ("constraints", "at_most", "5%"), ("constraints", "cost", "5%"), ("units", "exact_ids"),
]  # fmt: skip
SHAPES = [
    1, -1.5, True, "word", "", [], ["A", "B"], [1, 2], [["a"], 3], [{"a": 1}], {}, {"a": 1}, {"a": {"b": 1}}, {"type": "x"},
    float("nan"), datetime.date(2026, 1, 2),
]  # fmt: skip
# Of pydantic and of Python, which an analyst does not speak.
FOREIGN = r"dictionary|instance|tuple|[Ii]nput|Spec|None|True|False|valid string|datetime|validation"


def read_or_told(place, value):
    document = tomllib.loads(GOOD)
    section = document
    for key in place[:-1]:
        section = section.setdefault(key, {})
    section[place[-1]] = value
    text = "\n".join(f"{write(key)} = {write(inner)}" for key, inner in document.items())
    with told():
        parse_spec(text)


def sentence_about(text):
    """What is told about a spec; nothing where it is fine."""
    try:
        parse_spec(text)
    except SpecError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("place", [*KEYS, *INNER], ids=".".join)
def test_a_value_of_the_wrong_shape_is_told_in_the_words_of_the_file(place):
    for value in SHAPES:
        document = tomllib.loads(GOOD)
        if "numbers" in place:
            document["action"] = {}
            document["constraints"] = {}
        section = document
        for key in place[:-1]:
            inner = section.setdefault(key, {})
            section[key] = section = inner if isinstance(inner, dict) else {"type": inner}
        section[place[-1]] = value
        said = sentence_about("\n".join(f"{as_key(key)} = {as_toml(inner)}" for key, inner in document.items()))
        assert not re.search(FOREIGN, said), said
        assert not said or re.search(r"campaign\.toml, line \d+", said), said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('recency = ["A", "B"]', r'a list is not allowed\. Give the kind .* { type = "categorical", levels ='),
        (
            'channel = { type = "categorical", levels = "A" }',
            r'levels: "A" is not allowed: a list in brackets is needed',
        ),
        ("new = true", r"context\.new: true is not allowed\. Allowed types of a column: binary"),
        ("[design]\nmax_targets = 1.5", r"1\.5 is not allowed: a whole number is needed, without quotes"),
        ("[prior]\naction = '1'", r'"1" is not allowed: a number without quotes is needed'),
        ("[model]\nlengths = { channel = 1.0 }", r'campaign\.toml, line 23: model\.lengths belongs to family = "gp"'),
    ],
)
def test_what_is_needed_is_said_as_it_is_written(line, message):
    key = line.split(" = ")[0]
    text = re.sub(rf"(?m)^{key} = .*$", line, GOOD) if not key.startswith("[") else f"{GOOD}\n{line}\n"
    with pytest.raises(SpecError, match=message):
        parse_spec(text)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('[design]\ndesigner = "Thomson"', r"line 22, design\.designer: there is no .*mean 'Thompson'\? Allowed: CO-BED, R"),
        ('[design]\nobjective = "Value"', r"objective: there is no objective 'Value'\. Did you mean 'value'\? Allowed: auto, v"),
        ('[model]\ninference = "gibs"', r"model\.inference: there is no sampler 'gibs'\..* Allowed: auto, conjugate"),
    ],
)  # fmt: skip
def test_a_part_that_is_not_there_is_told_when_the_spec_is_read(section, message):
    with pytest.raises(SpecError, match=message):
        parse_spec(f"{GOOD}{section}\n")


@pytest.mark.parametrize("kind", parts.DEFAULTS)
def test_the_parts_that_are_known_without_jax_are_those_of_cobed_itself(kind):
    assert set(parts.WITHOUT_JAX[kind]) == {*parts.registry_of(kind).items()}


@pytest.mark.parametrize("number", ["1" * 5000, "0x" + "f" * 5000])
def test_a_number_that_cannot_be_printed_is_told(number):
    with pytest.raises(SpecError, match=r"campaign\.toml holds a whole number of thousands of digits"):
        parse_spec(f"seed = {number}\n{GOOD}")


changes = given(st.sampled_from(KEYS) | st.tuples(words, words), values)
quiet = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}


@settings(max_examples=100, derandomize=True, **quiet)
@example(("context",), {})
@example(("action", "numbers"), {})
@changes
def test_any_value_in_any_place_is_read_or_told(place, value):
    read_or_told(place, value)


@pytest.mark.slow
@settings(max_examples=3000, derandomize=True, **quiet)
@changes
def test_thousands_of_values_are_read_or_told(place, value):
    read_or_told(place, value)


@settings(max_examples=100, derandomize=True, **quiet)
@example('"\ud800" = 1\n', 0)
@given(st.text(max_size=80), st.integers(0, len(GOOD)))
def test_any_text_is_read_or_told(text, at):
    with told():
        parse_spec(GOOD[:at] + text + GOOD[at:])


@pytest.mark.parametrize(
    "number", ["typical = 1e300", "typical = -1e16", "spread = 1e300", "spread = 1e-300", "spread = 0.0"]
)
def test_numbers_that_single_precision_cannot_hold_are_told(number):
    key = number.split(" = ")[0]
    text = """name = "s"
units.id = "c"
context.new = "binary"
action = { column = "offer", options = ["a", "b"] }
outcome = { column = "y", likelihood = "normal", typical = 1.0, spread = 2.0 }
"""
    text = text.replace("typical = 1.0" if key == "typical" else "spread = 2.0", number)
    with pytest.raises(SpecError, match=f"outcome.{key}: .* is not allowed: (at least|at most) "):
        parse_spec(text)
