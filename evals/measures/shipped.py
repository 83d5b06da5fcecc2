"""The measures that come along."""

from __future__ import annotations

import numpy as np

from evals.measures.base import Measure, register
from evals.measures.ranks import average_precision, ndcg, reciprocal_rank
from evals.measures.unjudged import highest_average_precision, highest_bpref, highest_ndcg, highest_r_precision

DCG = "DCG, the sum of gain / log2(rank + 1)"
LINEAR = "gain = the grade (linear)"
EXPONENTIAL = "gain = 2^grade - 1 (exponential)"

register(
    "ndcg",
    Measure(
        f"{DCG}, divided by the DCG of the best possible order; {LINEAR}.",
        ranx="ndcg",
        graded=True,
        of_ranks=ndcg(lambda grades: grades),
        highest=highest_ndcg(lambda grade: grade),
    ),
)
register(
    "ndcg_exp",
    Measure(
        f"{DCG}, divided by the DCG of the best possible order; {EXPONENTIAL}.",
        ranx="ndcg_burges",
        graded=True,
        of_ranks=ndcg(lambda grades: 2.0**grades - 1),
        highest=highest_ndcg(lambda grade: 2**grade - 1),
    ),
)
register("dcg", Measure(f"{DCG}; {LINEAR}.", ranx="dcg", graded=True, most=None))
register("dcg_exp", Measure(f"{DCG}; {EXPONENTIAL}.", ranx="dcg_burges", graded=True, most=None))
register(
    "map",
    Measure(
        "Average precision: the sum of precision at each relevant hit / all relevant.",
        ranx="average_precision",
        of_ranks=average_precision,
        highest=highest_average_precision,
    ),
)
register(
    "mrr",
    Measure("Reciprocal rank: 1 / rank of the first relevant hit.", ranx="reciprocal_rank", of_ranks=reciprocal_rank),
)
register(
    "recall",
    Measure("Relevant hits / all relevant.", ranx="recall", of_ranks=lambda ranked: ranked.hits * ranked.share),
)
register(
    "precision",
    Measure(
        "Relevant hits / the cut-off, or / all hits where there is no cut-off.",
        ranx="precision",
        of_ranks=lambda ranked: ranked.hits / ranked.cut,
    ),
)
register("f1", Measure("2 x precision x recall / (precision + recall).", ranx="f1"))
register("hits", Measure("The number of relevant hits.", ranx="hits", most=None, of_ranks=lambda ranked: ranked.hits))
register(
    "hit_rate",
    Measure(
        "1 where there is a relevant hit, else 0.",
        ranx="hit_rate",
        of_ranks=lambda ranked: (ranked.hits > 0).astype(np.float64),
    ),
)
register(
    "r-precision",
    Measure(
        "Relevant hits among the first R / R; R = all relevant.",
        ranx="r_precision",
        obeys_cutoff=False,
        highest=highest_r_precision,
    ),
)
register(
    "bpref",
    Measure(
        "Over relevant hits, the sum of 1 - min(n, R) / min(N, R), / R; R, N = all judged relevant, not relevant, and "
        "n = those judged not relevant above the hit. Unjudged hits are passed over.",
        ranx="bpref",
        obeys_cutoff=False,
        highest=highest_bpref,
    ),
)
register(
    "rbp",
    Measure(
        "Rank-biased precision: (1 - p) x the sum of p^(rank - 1) over relevant hits; p = the persistence.",
        ranx="rank_biased_precision",
        obeys_cutoff=False,
    ),
)
register(
    "span_recall",
    Measure(
        "Characters of the answers that some returned chunk holds / characters of the answers.",
        of_spans=lambda held: held.recall,
    ),
)
register(
    "span_precision",
    Measure(
        "Characters of the answers that are held / characters of all returned chunks.",
        of_spans=lambda held: held.precision,
    ),
)
register(
    "span_iou",
    Measure(
        "Characters of the answers that are held / those of answers and chunks together.",
        of_spans=lambda held: held.iou,
    ),
)
