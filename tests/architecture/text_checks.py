"""What no linter reads: documents and SQL. Each check takes a text and gives the offences found in it."""

import re
from pathlib import Path
from typing import Final

from tests.architecture.tree import Offence

_LINK: Final = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+\s+(?P<text>.+?)\s*$", re.MULTILINE)
_FENCE: Final = re.compile(r"^```.*?^```\s*$", re.MULTILINE | re.DOTALL)
_PYTHON: Final = re.compile(r"^```python\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_NAMED: Final = re.compile(r"# [\w/]+\.py\n")
_MACHINE: Final = re.compile(r"(?<![\w.~-])/(?:home|root|Users)/\w+|(?<![\w.-])[A-Z]:\\Users\\")


def find_broken_links(path: Path) -> list[Offence]:
    """Relative links that lead nowhere, to a file or to a heading in it."""
    text = _FENCE.sub("", path.read_text())
    targets = [found["target"] for found in _LINK.finditer(text)]
    return [
        Offence(str(path), f"the link to {target} leads nowhere")
        for target in targets
        if not re.match(r"[a-z]+:", target) and not _leads_somewhere(path, target)
    ]


def _leads_somewhere(path: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    found = path.parent / name if name else path
    return found.exists() and (not anchor or anchor in anchors(found.read_text()))


def anchors(text: str) -> set[str]:
    """The names under which the headings of a page can be linked."""
    headings = (found["text"] for found in _HEADING.finditer(_FENCE.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def find_machine_paths(file: str, text: str) -> list[Offence]:
    """Paths that exist on one person's machine only."""
    return [
        Offence(f"{file}:{text.count(chr(10), 0, found.start()) + 1}", f"{found[0]} is a path of somebody's machine")
        for found in _MACHINE.finditer(text)
    ]


def count_statements(sql: str) -> int:
    """How many statements a text holds: comments, strings and the bodies of triggers are looked through."""
    bare = re.sub(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)
    whole = re.sub(r"\bCREATE\s+TRIGGER\b.*?\bEND\b", "trigger", bare, flags=re.IGNORECASE | re.DOTALL)
    return sum(bool(part.strip()) for part in whole.split(";"))


def find_missing_sections(path: Path, sections: tuple[str, ...]) -> list[Offence]:
    headings = {found["text"] for found in _HEADING.finditer(path.read_text())}
    return [Offence(str(path), f"has no section {section!r}") for section in sections if section not in headings]


def find_undocumented(page: Path, names: set[str]) -> list[Offence]:
    """Names that a page of the reference does not show as code."""
    text = page.read_text()
    return [Offence(str(page), f"`{name}` is not documented") for name in sorted(names) if f"`{name}`" not in text]


def files_of(page: Path) -> dict[str, str]:
    """The Python of a page that begins with the name of a file, by that name."""
    found = [block["code"] for block in _PYTHON.finditer(page.read_text())]
    return {code[2 : code.index("\n")]: code for code in found if _NAMED.match(code)}


def python_of(page: Path) -> str:
    """The Python of a page, as one program; what begins with the name of a file is run as that where it is typed."""
    found = [block["code"] for block in _PYTHON.finditer(page.read_text())]
    return "\n".join(code for code in found if not _NAMED.match(code))
