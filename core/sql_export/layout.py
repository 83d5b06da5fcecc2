"""Where lines of SQL begin and end. Changes blanks outside quotes, and nothing else."""

from __future__ import annotations

from typing import Final

MARGIN: Final = 4  # blanks before every line
LONG: Final = 88  # characters, after which a line ends at the next comma of its own list
STEP: Final = 2


def laid_out(text: str) -> str:
    """The text with each line indented by the brackets it stands in, and long lists broken at their commas."""
    lines, line = [], _Line(0)
    for letter in text:
        ended = line.take(letter)
        if ended:
            if line.text.strip():
                lines.append(line.text.rstrip(" "))
            line = _Line(line.depth, line.own if ended == "," else None)
    lines.append(line.text.rstrip(" "))
    return "\n".join(each for each in lines if each.strip())


class _Line:
    """A line as it is being written. `depth` counts brackets; `own` is the depth of the list that the line is of."""

    def __init__(self, depth: int, own: int | None = None) -> None:
        self.text = " " * (MARGIN + STEP * depth + (STEP if own is not None else 0))
        self.depth, self.own, self.quote, self.begun = depth, depth if own is None else own, "", False

    def take(self, letter: str) -> str:
        """Add a letter; what ended the line, if it did."""
        if not self.quote and letter == "\n":
            return letter
        if not self.begun and letter == " ":
            return ""
        self._count(letter)
        self.text += letter
        broken = letter == "," and not self.quote and self.depth == self.own and len(self.text) > LONG
        return letter if broken else ""

    def _count(self, letter: str) -> None:
        if self.quote:
            self.quote = "" if letter == self.quote else self.quote
        elif letter in "'\"":
            self.quote = letter
        self.depth += 0 if self.quote else {"(": 1, ")": -1}.get(letter, 0)
        if not self.begun and letter == "(":
            self.own = self.depth
        else:
            self.begun = True
