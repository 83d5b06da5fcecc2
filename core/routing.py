"""Weights by the kind of a query: what an identifier needs of the legs is not what a question needs.

Owns the kinds, the rules that tell them apart, and what becomes of a variant's weights. Learns nothing: a classifier
that does is registered beside the rules. The rules, in order; the first that fits counts:

1. identifier  the query has a code (an error or article number, a version, a path, snake_case, a header's name, hex),
               few words around it, and is not worded as a question
2. quoted      it has text in double quotes, which is wanted as it stands
3. question    it is worded as a question: a question word or an auxiliary comes first, or a question mark ends it
4. keyword     it has at most three words, none of which points to a sentence: no pronoun, auxiliary or "not"
5. long        it has more than twelve words
6. other
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.errors import SpecError, UnknownName
from core.registry import Registry

KINDS = ("identifier", "quoted", "question", "keyword", "long", "other")
WORDS_AROUND_A_CODE = 8
KEYWORDS = 3
LONG = 12
LONGEST_CODE = 200  # characters

# -- codes: each matches one whole word, its punctuation taken off ----------------------------------------------------

CODES: Mapping[str, str] = {
    "letters and a number": r"[A-Z]{1,6}\d?-?\d{2,}[A-Z]?(?:[-/.]\w+)*",  # FL-4021, CR2477, H2-003217, FL-7010/2
    "letters, hyphen, digit": r"[A-Z]{2,6}-\d\w*(?:[-/.]\w+)*",  # UTF-8
    "the same in small letters": r"[a-z]{1,6}-?\d{3,}[a-z]?",  # cr2477
    "parts in capitals": r"[A-Z][A-Z\d]+(?:-[A-Z\d]{2,})+",  # TPL-VAX
    "a header's name": r"(?:(?:X|Content|Accept|If)-[A-Z]\w*|[A-Z][a-z]+-[A-Z][a-z]+-[A-Z]\w*)(?:-\w+)*",
    "snake_case": r"(?:_*[^\W_]+(?:_+[^\W_]+)+_*|__[^\W_]+__)(?:\(\))?",  # excursion_locked, RANKBOOK_DSN
    "camelCase or a call": r"[a-z]+(?:[A-Z][a-z\d]+){2,}(?:\(\))?|[A-Za-z]\w*(?:[.:]+\w+)*\(\)",
    "a version": r"v?\d+(?:\.\d+){2,}(?:[-+.]?\w+)*|v\d+(?:\.\d+)+",  # 4.2.1, v2.0
    "a path or address": r"[a-z][a-z\d+.-]*://\S+|(?:~|\.{1,2})?/[\w.-]+(?:/[\w.{}:-]*)*|[A-Z]:\\\S+",
    "a file": r"[\w-]+(?:\.[\w-]+)*\.(?:py|js|ts|c|h|cpp|java|go|rs|sql|sh|json|toml|ya?ml|xml|csv|conf|ini|log|pdf)",
    "hex": r"0[xX][\da-fA-F]+|(?=[a-f]*\d)(?=\d*[a-f])[\da-f]{7,64}|[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}",
    "a hardware address": r"[\da-fA-F]{2}(?:[:-][\da-fA-F]{2}){5}",
    "a long number": r"\d{5,}",
}
_CODE = re.compile("|".join(f"(?:{pattern})" for pattern in CODES.values()))
_PUNCTUATION = "\"'“”„«»‘’`,;:!?()[]<>.…"  # noqa: RUF001
# Quotes do not nest, so nothing is tried twice: a text of quotation marks alone must not take long.
_QUOTED = re.compile(r'"([^"]*+)"|“([^“”]*+)”|„([^„“”]*+)[“”]|«([^«»]*+)»')

# -- words of questions -----------------------------------------------------------------------------------------------

# By language, without those that are also words of another one that a query may well begin with: "come", "comment",
# "dove", "hoe", "chi". A question mark still tells such a question.
QUESTION_WORDS = frozenset(
    "who whom whose what which when where why how "  # noqa: SIM905
    "wer wem wen wessen wann wo woher wohin warum wieso weshalb wie wieviel wieviele welche welcher welches welchem "
    "welchen wobei wodurch wofür womit woran worauf woraus worin worüber wovon wozu "
    "qui que quoi quand où pourquoi combien quel quelle quels quelles "
    "qué quién quiénes cuándo dónde cómo cuánto cuánta cuántos cuántas cuál cuáles "
    "perché quando quanto quanti quante quale quali "
    "wat wanneer waar waarom welke "
    "quem onde quais porquê".split()
)
# These begin a question whatever follows ...
_INVERTED = frozenset("is are was were does did has isn't aren't wasn't weren't doesn't didn't".split())  # noqa: SIM905
# ... and these where a subject follows: "can I", "do the", and not "would like to", "do not", "can opener".
_MODAL = frozenset(
    "do have had can could may might must should shall will would am don't hasn't haven't can't couldn't "  # noqa: SIM905
    "shouldn't won't wouldn't".split()
)
_SUBJECTS = frozenset(
    "a an the this that these those any all some each every there anyone anybody someone somebody one "  # noqa: SIM905
    "i my we our you your he his she her it its they their".split()
)
AUXILIARIES = _INVERTED | _MODAL
_PREPOSITIONS = frozenset(
    "about after at before by during for from in into of on since through to under until up with within "  # noqa: SIM905
    "ab an auf aus bei bis durch für gegen in mit nach seit über um unter von vor während zu zur "
    "à avec dans de depuis en par pour sur con desde para por a".split()
)
_PRONOUNS = frozenset("i me my we us our you your he him his she her it its they them their".split())  # noqa: SIM905
_OF_SENTENCES = _PRONOUNS | AUXILIARIES - {"can", "may", "will"} | {"not", "be", "been", "being", "that", "because"}
_MARK = re.compile(r"[?？؟⁇][\"'”’»)\]\s]*$|^[\"'“‘«(\[\s]*¿")  # noqa: RUF001
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")  # noqa: RUF001


class Classifier(Protocol):
    """Tells kinds of queries apart. Made without arguments; `kinds` are all that `classify` can return."""

    kinds: ClassVar[tuple[str, ...]]

    def classify(self, query: str) -> str:
        """The query's kind, whatever the query is."""
        ...


classifiers: Registry[type[Classifier]] = Registry("classifier")


@classifiers.register("rules")
class RuleClassifier:
    """The rules at the top of this module, in their order."""

    kinds: ClassVar[tuple[str, ...]] = KINDS

    def classify(self, query: str) -> str:
        return classify(query)


def classify(query: str) -> str:
    """The query's kind by the rules above."""
    parts, words = query.split(), [word.replace("’", "'") for word in _WORD.findall(query.lower())]  # noqa: RUF001
    worded = _worded_as_question(words)
    marked = bool(_MARK.search(query[-200:]) or _MARK.search(query[:200]))
    if not worded and len(parts) <= WORDS_AROUND_A_CODE and any(map(is_code, parts)):
        return "identifier"
    if any(_WORD.search(found[0]) for found in _QUOTED.finditer(query)):
        return "quoted"
    if words and (worded or marked):
        return "question"
    if 0 < len(words) <= KEYWORDS and _OF_SENTENCES.isdisjoint(words):
        return "keyword"
    return "long" if len(parts) > LONG else "other"


def is_code(word: str) -> bool:
    """Whether the word is one that somebody assigned, and nobody inflects or misspells on purpose."""
    bare = word.strip(_PUNCTUATION)
    called = word.rstrip("\"'`,;:!?.…")
    if max(len(bare), len(called)) > LONGEST_CODE:
        return False
    return any(_CODE.fullmatch(each) for each in (bare, called))


def _worded_as_question(words: list[str]) -> bool:
    first, second = ([*words, "", ""])[:2]
    if first.removesuffix("'s").removesuffix("'re") in QUESTION_WORDS:
        return len(words) > 1  # "who" alone is a name as well
    if first in _PREPOSITIONS and second in QUESTION_WORDS:
        return True
    return len(words) > 2 and (first in _INVERTED or (first in _MODAL and second in _SUBJECTS))


Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Routing(BaseModel):
    """Weights of legs by the kind of the query. A kind that is not named here keeps the variant's own weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    classifier: str = Field("rules", description="What tells the kinds apart: the name of a classifier.")
    weights: Mapping[str, Mapping[str, Weight]] = Field(
        default_factory=dict, description="By kind, the weights of legs by name; a leg left out keeps its own."
    )

    @model_validator(mode="after")
    def _of_known_kinds(self) -> Routing:
        known = classifiers[self.classifier].kinds
        for kind in self.weights:
            if kind not in known:
                raise UnknownName(f"query kind of the classifier {self.classifier!r}", kind, known)
        return self

    def check(self, own_weights: Mapping[str, float]) -> None:
        """Refuses weights of legs that the variant has not got, and kinds for which no leg would count."""
        for kind, weights in self.weights.items():
            for leg in weights:
                if leg not in own_weights:
                    raise UnknownName(f"leg of this variant (routing, kind {kind!r})", leg, own_weights)
            if own_weights and not any(weights.get(leg, own) for leg, own in own_weights.items()):
                raise SpecError(
                    f"Routing gives every leg the weight 0 for queries of the kind {kind!r}, so they would find "
                    "nothing. Give one of them a weight, or leave the kind out to keep the variant's own."
                )

    def weights_for(self, query: str, own_weights: Mapping[str, float]) -> tuple[str, Mapping[str, float]]:
        """The query's kind, and each leg's weight for it."""
        kind = classifiers[self.classifier]().classify(query)
        routed = self.weights.get(kind, {})
        return kind, {leg: routed.get(leg, own) for leg, own in own_weights.items()}
