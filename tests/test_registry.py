"""Parts by name, and the parts of other packages, which are imported when one is first asked for."""

import sys

import pytest

from cobed.errors import ModelError
from cobed.registry import Registry

PART = "from test_registry_kinds import KINDS\nKINDS.add({name!r}, {name!r})\n"


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Installs, for one test, a package whose entry points name the given modules, and returns an empty registry."""

    def make(**modules: str) -> Registry[str]:
        info = tmp_path / "elsewhere-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
        points = "\n".join(f"{name} = elsewhere_{name}" for name in modules)
        (info / "entry_points.txt").write_text(f"[cobed.tests]\n{points}\n")
        for name, text in modules.items():
            (tmp_path / f"elsewhere_{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, f"elsewhere_{name}", raising=False)
        kinds = Registry("kind of test", "cobed.tests", ModelError)
        monkeypatch.setitem(sys.modules, "test_registry_kinds", type(sys)("test_registry_kinds"))
        sys.modules["test_registry_kinds"].KINDS = kinds  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.syspath_prepend(str(tmp_path))
        return kinds

    return make


def test_parts_keep_their_order_and_those_of_other_packages_come_last(offer):
    kinds = offer(third=PART.format(name="third"))
    kinds.add("second", "second")
    kinds.add("first", "first")
    assert "elsewhere_third" not in sys.modules
    assert list(kinds) == ["second", "first", "third"]
    assert kinds.named("third") == "third"
    assert list(kinds.items()) == ["second", "first", "third"]


def test_a_name_is_taken_once_and_unknown_names_are_answered_with_the_known(offer):
    kinds = offer()
    kinds.add("first", "first")
    for name in ("first", ""):
        with pytest.raises(ModelError, match=f"Each kind of test needs a name of its own; got '{name}'.*taken: first"):
            kinds.add(name, "another")
    with pytest.raises(ModelError, match=r"There is no kind of test 'frist'\. Allowed: first\."):
        kinds.named("frist")


def test_a_package_that_cannot_be_imported_is_named_each_time(offer):
    kinds = offer(broken="import there_is_no_such_module")
    for _ in range(2):
        with pytest.raises(
            ModelError, match=r"elsewhere offers the kind of test 'broken' in 'elsewhere_broken'.*Repair"
        ):
            list(kinds)
