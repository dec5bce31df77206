"""Which plugins the settings name, and what they are."""

from ganger.core import names
from ganger.core.errors import BadInput


def read_plugins(text: str) -> dict[str, str]:
    """Plugins by name, each with what it is: an import path or a program, or its own name."""
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, place = (part.strip() for part in item.partition("="))
        if equals and not place:
            raise BadInput(f"the plugin {name!r:.80} is nothing; write {name[:80]}=module:Class", field="plugins")
        found[names.check("plugin", name)] = place or name
    return found
