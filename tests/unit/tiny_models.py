"""Models made on the spot, a cross-encoder and an embedder: two layers of random weights, the same ones each time."""

from __future__ import annotations

from pathlib import Path


def tiny_cross_encoder(folder: Path, labels: int = 1) -> Path:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(words), encoding="utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = BertForSequenceClassification(
            BertConfig(
                vocab_size=len(words),
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=16,
                max_position_embeddings=64,
                initializer_range=0.7,
                id2label={index: str(index) for index in range(labels)},
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

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz0123456789"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
    base = folder / "base"
    base.mkdir(parents=True)
    (base / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = BertModel(
            BertConfig(
                vocab_size=len(words),
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=16,
                max_position_embeddings=128,
                initializer_range=0.7,
            )
        )
    model.save_pretrained(base)
    BertTokenizer(vocab=str(base / "vocab.txt"), model_max_length=128).save_pretrained(base)
    whole = folder / "tiny"
    SentenceTransformer(modules=[Transformer(str(base)), Pooling(16)], device="cpu").save(str(whole))
    return whole
