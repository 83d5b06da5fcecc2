"""Models made on the spot, a cross-encoder and an embedder: two layers of random weights, the same ones each time."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any

SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "initializer_range": 0.7,
}


def _words(folder: Path, letters: str) -> tuple[list[str], Path]:
    """A vocabulary of single letters, and the file that it is written to."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(words), encoding="utf-8")
    return words, vocabulary


def tiny_cross_encoder(folder: Path, labels: int = 1) -> Path:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    words, vocabulary = _words(folder, ascii_lowercase)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = BertForSequenceClassification(
            BertConfig(
                vocab_size=len(words),
                max_position_embeddings=64,
                id2label={index: str(index) for index in range(labels)},
                **SHAPE,
            )
        )
    model.save_pretrained(folder)
    BertTokenizer(vocab=str(vocabulary), model_max_length=64).save_pretrained(folder)
    return folder


def tiny_embedder(folder: Path) -> Path:
    """An embedding model of two small layers, in the form in which sentence-transformers keeps one."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    base = folder / "base"
    base.mkdir(parents=True)
    words, vocabulary = _words(base, ascii_lowercase + digits)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=128, **SHAPE))
    model.save_pretrained(base)
    BertTokenizer(vocab=str(vocabulary), model_max_length=128).save_pretrained(base)
    whole = folder / "tiny"
    SentenceTransformer(modules=[Transformer(str(base)), Pooling(16)], device="cpu").save(str(whole))
    return whole
