"""What a value is made of, as a hash that is the same in every process: no memory address, no file name, no line number.

Arrays count by dtype, shape and numbers; modules and objects by their class and fields; functions by their compiled code,
constants, defaults, closed-over values and the globals they use, whatever wraps them (partial, jit, a bound method). Code of
installed packages counts by its name and the package's version. Comments and docstrings do not count.
"""

import dataclasses
import dis
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed import __version__

# Methods by which an object can do something; other names of this kind are made by Python or describe the class.
SPECIAL_METHODS = {"__call__", "__getitem__", "__getattr__", "__len__", "__iter__", "__array__", "__jax_array__"}
PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, type(Ellipsis), range)
INSTALLED = {Path(path).resolve() for name, path in sysconfig.get_paths().items() if name in ("purelib", "platlib")}


def digest(value: Any) -> str:
    """The hash of a value: equal for what is made in the same way in another process."""
    return _Reader().digest(value)


def parts_of(**values: Any) -> dict[str, str]:
    """A hash for each value by its name, and for each field of a module by `name.field`; what it was stands beside the hash.

    Beside them the versions that compiled code and numbers depend on.
    """
    digests = {
        "versions": f"cobed {__version__}, jax {jax.__version__}, Python {sys.version_info[0]}.{sys.version_info[1]}"
    }
    for name, value in values.items():
        digests |= {path: f"{digest(leaf)} {_described(leaf)}".strip() for path, leaf in _leaves(name, value)}
    return digests


def joined(parts: Mapping[str, str]) -> str:
    """One hash for all parts."""
    return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The parts that are not the same, in words."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    # A part with parts of its own is told by those.
    return [_told(name, before.get(name), now.get(name)) for name in names if not _inner_differs(name, names)]


def _inner_differs(name: str, names: list[str]) -> bool:
    return any(other.startswith(f"{name}.") for other in names)


def _told(name: str, before: str | None, now: str | None) -> str:
    if name == "versions":
        return f"versions ({before}, now {now})"
    labels = [text.partition(" ")[2] for text in (before, now) if text is not None]
    what = next(filter(None, reversed(labels)), "")
    if len(set(labels)) == 2 and all(labels):
        what = f"{labels[0]}, now {labels[1]}"
    return f"{name} ({what})" if what else name


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The value, or what each field of a module holds, by path."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield name, type(value)
        for field in dataclasses.fields(value):
            yield from _leaves(f"{name}.{field.name}", getattr(value, field.name, None))
    else:
        yield name, value


def _described(value: Any) -> str:
    """A few words for a message."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, PLAIN) and len(text := repr(value)) <= 40:
        return text
    inner = _unwrapped(value)
    return f"function {inner.__name__!r}" if isinstance(inner, types.FunctionType) else ""


def _unwrapped(value: Any) -> Any:
    """The function under partial, jit and bound methods."""
    while True:
        inner = getattr(value, "func", None) or getattr(value, "__func__", None) or getattr(value, "__wrapped__", None)
        if inner is None or isinstance(value, types.FunctionType):
            return value
        value = inner


class _Reader:
    """Walks a value once. Inside itself an object counts by how deep it stands, so that circles end."""

    def __init__(self):
        self._seen: dict[int, str] = {}
        self._alive: list[Any] = []
        self._depth = 0

    def digest(self, value: Any) -> str:
        if isinstance(value, PLAIN):
            return _hash(type(value).__name__, repr(value))
        if id(value) in self._seen:
            return self._seen[id(value)]
        # It stays alive, so that its id stays its own.
        self._alive.append(value)
        self._seen[id(value)] = f"circle {self._depth}"
        self._depth += 1
        self._seen[id(value)] = result = _hash(*self._pieces(value))
        self._depth -= 1
        return result

    def _pieces(self, value: Any) -> Iterator[str]:
        """What a value consists of, as text. The kind comes first."""
        match value:
            case jax.Array() | np.ndarray() | np.generic():
                yield from self._of_array(value)
            case types.FunctionType():
                yield from self._of_function(value)
            case types.CodeType():
                yield from self._of_code(value, None)
            case type():
                yield from self._of_class(value)
            case types.ModuleType():
                yield from ("module", _versioned(value.__name__))
            case set() | frozenset():
                yield from ("set", *sorted(self.digest(entry) for entry in value))
            case list() | tuple():
                yield from (self.digest(type(value)), *(self.digest(entry) for entry in value))
            case Mapping():
                yield self.digest(type(value))
                for name, entry in value.items():
                    yield from (self.digest(name), self.digest(entry))
            case types.CellType():
                yield from ("cell", "empty" if _is_empty(value) else self.digest(value.cell_contents))
            case _:
                yield from self._of_object(value)

    def _of_array(self, value: Any) -> Iterator[str]:
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            yield from ("key", str(jr.key_impl(value)))
            value = jr.key_data(value)
        array = np.asarray(value)
        yield from ("array", str(array.dtype), str(array.shape))
        yield self.digest(array.tolist()) if array.dtype.hasobject else hashlib.sha256(array.tobytes()).hexdigest()

    def _of_function(self, function: types.FunctionType) -> Iterator[str]:
        yield from ("function", function.__qualname__)
        yield from (self.digest(function.__defaults__), self.digest(function.__kwdefaults__))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            yield from (name, self.digest(cell))
        if _is_installed(function.__module__):
            yield _versioned(function.__module__)
            return
        yield from self._of_code(function.__code__, function.__doc__)
        for name in sorted(set(_names(function.__code__, ("LOAD_GLOBAL", "LOAD_NAME")))):
            if name in function.__globals__:
                value = function.__globals__[name]
                yield from (name, self.digest(value))
                if isinstance(value, types.ModuleType) and not _is_installed(value.__name__):
                    yield from self._of_module(value, function.__code__)

    def _of_code(self, code: types.CodeType, doc: str | None) -> Iterator[str]:
        constants = [None if doc is not None and entry == doc else entry for entry in code.co_consts]
        yield from ("code", code.co_code.hex(), self.digest(constants), code.co_exceptiontable.hex())
        yield from (repr(code.co_names), repr(code.co_varnames), repr(code.co_freevars), repr(code.co_cellvars))
        yield repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags))

    def _of_module(self, module: types.ModuleType, code: types.CodeType) -> Iterator[str]:
        """What the code may take from a module that is not installed, so that it may be edited."""
        for name in sorted(set(_names(code, ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")))):
            if name in vars(module):
                yield from (name, self.digest(vars(module)[name]))

    def _of_class(self, kind: type) -> Iterator[str]:
        yield from ("class", kind.__qualname__)
        if _is_installed(kind.__module__):
            yield _versioned(kind.__module__)
            return
        for base in kind.__bases__:
            yield self.digest(base)
        for name, member in vars(kind).items():
            hidden = name.startswith(("__", "_abc_"))
            if name in SPECIAL_METHODS or not hidden:
                yield from (name, self.digest(member))

    def _of_object(self, value: Any) -> Iterator[str]:
        yield self.digest(type(value))
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            # A jitted function: what it holds beside the function are its compiled programs.
            yield self.digest(wrapped)
            return
        if isinstance(value, types.MethodType):
            yield from (self.digest(value.__func__), self.digest(value.__self__))
            return
        if isinstance(value, functools.partial):
            yield from (self.digest(value.func), self.digest(value.args), self.digest(value.keywords))
            return
        if isinstance(value, types.BuiltinFunctionType):
            yield from (value.__name__, self.digest(getattr(value, "__self__", None)))
            return
        if value is np.random.mtrand._rand:  # NumPy's own state, which every process seeds anew
            return
        state = _state(value)
        if state is not None:
            yield self.digest(state)
        elif " at 0x" not in (text := repr(value)):
            yield text


def _state(value: Any) -> Any:
    """What an object holds: its fields, or what it would be copied from; None where it does not tell."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    if hasattr(value, "__dict__") or slots:
        return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}
    try:
        _, arguments, *state = value.__reduce_ex__(4)
    except Exception:  # whatever a foreign object does when it is asked
        return None
    return arguments, [entry for entry in state if isinstance(entry, tuple | dict | list)]


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _names(code: types.CodeType, operations: tuple[str, ...]) -> Iterator[str]:
    """What these instructions of the code, and of the functions inside it, refer to."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in operations:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant, operations)


def _is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Whether code of this module changes with a version only: the standard library, this package, installed ones."""
    root = (module or "builtins").partition(".")[0]
    if root == "__main__":
        return False
    if root in sys.stdlib_module_names or root == "cobed":
        return True
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is not None and any(folder in Path(file).resolve().parents for folder in INSTALLED)


def _versioned(module: str | None) -> str:
    """A module with the version of its package."""
    root = (module or "builtins").partition(".")[0]
    return f"{module} {getattr(sys.modules.get(root), '__version__', '')}"


def _hash(*pieces: str) -> str:
    """Of pieces, not of their sequence of letters: each is preceded by its length."""
    return hashlib.sha256(
        "".join(f"{len(piece)}:{piece}" for piece in pieces).encode("utf-8", "surrogatepass")
    ).hexdigest()
