"""The report's colours, in light and dark. The first ones are the legs', by the slot that each one's description names.

They are Okabe and Ito's (2008, Color Universal Design), darker on light ground, with three more. Colours that some eyes
take for each other (nearer than 10 in CIELAB as Machado et al. 2009 simulate colour blindness) have marks of different
shapes, so that 48 variants look different. A name is always beside the mark.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from core.legs import leg_descriptions
from evals.presentation.types import Output

STYLES = (
    ("#0072B2", "#56B4E9"),
    ("#B4500A", "#F0A45C"),
    ("#00805D", "#3CC9A0"),
    ("#A3487F", "#E79AC6"),
    ("#7A6A00", "#E5D44A"),
    ("#4A5563", "#B9C3CE"),
    ("#5B3FA8", "#B7A3FF"),
    ("#8C2D19", "#FF9C8A"),
)
SHAPES = ("circle", "square", "diamond")
FIRST = (0, 0, 1, 0, 2, 1, 2, 2)  # each colour's first shape
PAGE = {
    "paper": ("#FBFBF9", "#14171B"),
    "card": ("#FFFFFF", "#191D22"),
    "quiet": ("#F1F2EE", "#1D2127"),
    "text": ("#1E242B", "#E6E8EA"),
    "muted": ("#5A626B", "#A4ABB3"),
    "line": ("#DFE1DB", "#30363E"),
    "link": ("#2F5D8A", "#8DBBE8"),
    "primary": ("#33475F", "#A9BDD6"),
    "win": ("#0072B2", "#56B4E9"),
    "even": ("#C9CDD2", "#4A525C"),
    "loss": ("#B4500A", "#F0A45C"),
    "low": ("#EEF3F7", "#1B2733"),
    "high": ("#00609A", "#7CC6F2"),
    "cool": ("#F3F7FA", "#1B2733"),
    "warm": ("#86BBE2", "#2F78B4"),
    "band": ("#D5E6F2", "#22394B"),
    "caution": ("#8A5A00", "#F2C14E"),
}


def named() -> dict[str, tuple[str, str]]:
    """Every colour by the name under which style sheet and charts know it."""
    return {**PAGE, **{f"c{at}": pair for at, pair in enumerate(STYLES)}}


def styles(names: Iterable[str]) -> dict[str, int]:
    """The number of each name's colour and mark. It hangs on the names alone, and on no order in which they come.

    A leg has its own. Any other has the one that its name draws, or the next that nobody in view has: first among the
    colours that no leg has, then among all of them with other marks. So give all the names that are in view together.
    """
    given, slots = set(names), {kind: about.slot or 0 for kind, about in leg_descriptions().items()}
    found = {name: slots[name] for name in given & slots.keys()}
    for name in sorted(given - slots.keys()):
        drawn = int.from_bytes(blake2b(name.encode(errors="replace"), digest_size=8).digest(), "big")
        taken = set(found.values())
        colours = {style % len(STYLES) for style in taken}
        turn = range(min(max(slots.values()) + 1, len(STYLES) - 1), len(STYLES))
        while not (free := [style for style in turn if style not in taken]):
            turn = range(turn.stop, turn.stop + len(STYLES))
        order = {style: (style - turn[drawn % len(turn)]) % len(turn) for style in free}
        found[name] = min(free, key=lambda style: (style % len(STYLES) in colours, order[style]))
    return found


def styles_of(outputs: Iterable[Output | None]) -> dict[str, int]:
    """The styles of a notebook's variants, so that each has one colour and mark all over it."""
    return styles(name for output in outputs if output is not None for name in output.variant_names)


def colour(style: int) -> str:
    return f"c{style % len(STYLES)}"


def shape(style: int) -> str:
    """Another one each time the colours come round again, hollow after three times."""
    turn, at = divmod(style, len(STYLES))
    hollow = "-open" if turn // len(SHAPES) % 2 else ""
    return f"{SHAPES[(FIRST[at] + turn) % len(SHAPES)]}{hollow}"


def variables() -> str:
    """The colours for a style sheet."""
    return "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in named().items())
