"""Office formulas (OMML) on one line, as they are typed: `x = (-b ± √(b^2 - 4ac))/(2a)`."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ragstone.parse.package import attribute, child, local

# Operands in order, each with the sign in front of it.
_JOINED = {
    "f": (("", "num"), ("/", "den")),
    "sSup": (("", "e"), ("^", "sup")),
    "sSub": (("", "e"), ("_", "sub")),
    "sSubSup": (("", "e"), ("_", "sub"), ("^", "sup")),
}


def formula(element: Element | None) -> str:
    """The formula below `element` in linear form; an element that is not there is empty."""
    if element is None:
        return ""
    if parts := _JOINED.get(local(element)):
        return "".join(sign + _part(element, operand) for sign, operand in parts)
    match local(element):
        case "t":
            return element.text or ""
        case "rad":
            return f"{formula(child(element, 'deg'))}√{_part(element, 'e')}"
        case "nary":
            return _sum(element)
        case "d":
            return _fenced(element)
        case "mr":
            return ", ".join(formula(item) for item in element) + "; "
        case _:
            return "".join(formula(item) for item in element)


def _part(element: Element, name: str) -> str:
    """One operand, in parentheses where it is more than one sign."""
    text = formula(child(element, name)).strip()
    return text if len(text) < 2 or text.isdecimal() else f"({text})"


def _sum(element: Element) -> str:
    sign = attribute(child(element, "naryPr", "chr"), "val") or "∫"
    below, above = formula(child(element, "sub")), formula(child(element, "sup"))
    limits = (f"_({below})" if below else "") + (f"^({above})" if above else "")
    return f"{sign}{limits} {formula(child(element, 'e'))}"


def _fenced(element: Element) -> str:
    begin = child(element, "dPr", "begChr")
    end = child(element, "dPr", "endChr")
    inside = ", ".join(formula(item) for item in element if local(item) == "e")
    opened = "(" if begin is None else attribute(begin, "val")
    closed = ")" if end is None else attribute(end, "val")
    return f"{opened}{inside}{closed}"
