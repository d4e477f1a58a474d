"""What names a stage in a document's revision, so that a changed stage reads the document again (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import cast

from ragstone.errors import InvalidStage


def stages_identity(stages: Sequence[object]) -> str:
    """The identities of `stages` in order; "" of none.

    Raises:
        InvalidStage: a stage has none: a lambda, a closure, a partial or an object that neither is a
            dataclass nor has an attribute `revision` or `identity`.
    """
    found = [(stage, stage_identity(stage)) for stage in stages]
    for stage, identity in found:
        if not identity:
            raise InvalidStage("ingest.no_revision", stage=_described(stage))
    return " ".join(identity for _, identity in found)


def stage_identity(stage: object) -> str:
    """A text that is the same in every process and changes with what the stage does; "" without one.

    It is the attribute `revision` or `identity`, of a dataclass its name and values, of a function
    that needs nothing else its name. Modules are not part of it: code may be moved.
    """
    for name in ("revision", "identity"):
        named = getattr(stage, name, None)
        if isinstance(named, str):
            return named
    if is_dataclass(stage) and not isinstance(stage, type):
        values = [_value(getattr(stage, item.name)) for item in fields(stage) if item.init]
        return f"{type(stage).__name__}({','.join(values)})" if all(values) else ""
    if isinstance(stage, FunctionType) and stage.__closure__ is None and stage.__name__ != "<lambda>":
        return stage.__name__
    return ""


def _value(value: object) -> str:
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return repr(value)
        case Mapping():
            pairs = cast("Mapping[object, object]", value)
            return _joined("{}", [part for pair in pairs.items() for part in map(_value, pair)])
        case Set():
            return _joined("{}", sorted(map(_value, cast("Set[object]", value))))
        case Sequence():
            return _joined("()", list(map(_value, cast("Sequence[object]", value))))
        case _:
            return stage_identity(value)


def _joined(marks: str, values: list[str]) -> str:
    return f"{marks[0]}{','.join(values)}{marks[1]}" if all(values) else ""


def _described(stage: object) -> str:
    return str(getattr(stage, "__qualname__", type(stage).__name__))
