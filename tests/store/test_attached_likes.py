"""Tables as LangChain, LlamaIndex and Haystack create them, statement by statement, and what is made of them."""

# mypy: disable-error-code="no-untyped-call"
# ruff: noqa: F401, F811, PLR0917 - fixtures are imported, and asked for by name

from __future__ import annotations

import uuid

import pytest

from core import bridge
from core.errors import StoreError, UnknownName
from core.legs.fulltext import FulltextLeg
from core.legs.trigram import TrigramLeg
from core.legs.vector import VectorLeg
from core.store import attached
from core.store.attached import table_templates, template_mapping, template_tables
from tests.store.test_attached import TEXTS, Server, attach, described, recall, server, take, used, vector_of


@pytest.fixture
def schema(server: Server) -> str:
    """A schema of this test alone, for libraries that fix their tables' names."""
    name = server.unique("library")
    server.run("CREATE SCHEMA {}", name)
    server.drop_later("SCHEMA", name)
    return name


# langchain-postgres 0.0.15 and before, PGVector: create_all() over its mapped classes
LANGCHAIN = """
CREATE TABLE {0}.langchain_pg_collection (
    uuid UUID NOT NULL, name VARCHAR NOT NULL, cmetadata JSON, PRIMARY KEY (uuid), UNIQUE (name)
);
CREATE TABLE {0}.langchain_pg_embedding (
    id VARCHAR NOT NULL, collection_id UUID, embedding VECTOR, document VARCHAR, cmetadata JSONB, PRIMARY KEY (id),
    FOREIGN KEY(collection_id) REFERENCES {0}.langchain_pg_collection (uuid) ON DELETE CASCADE
);
CREATE INDEX ix_cmetadata_gin ON {0}.langchain_pg_embedding USING gin (cmetadata jsonb_path_ops);
CREATE UNIQUE INDEX ix_langchain_pg_embedding_id ON {0}.langchain_pg_embedding (id)
"""
# langchain-community, PGVector
OLD_LANGCHAIN = """
CREATE TABLE {0}.langchain_pg_collection (name VARCHAR, cmetadata JSON, uuid UUID NOT NULL, PRIMARY KEY (uuid));
CREATE TABLE {0}.langchain_pg_embedding (
    collection_id UUID, embedding VECTOR, document VARCHAR, cmetadata JSON, custom_id VARCHAR, uuid UUID NOT NULL,
    PRIMARY KEY (uuid),
    FOREIGN KEY(collection_id) REFERENCES {0}.langchain_pg_collection (uuid) ON DELETE CASCADE
)
"""
# langchain-postgres, PGVectorStore: PGEngine.init_vectorstore_table
LANGCHAIN_STORE = """
CREATE TABLE {0}."my_store"(
    "langchain_id" UUID PRIMARY KEY, "content" TEXT NOT NULL, "embedding" vector(16) NOT NULL
    ,"content_tsv" TSVECTOR NOT NULL, "langchain_metadata" JSON
)
"""
# llama-index-vector-stores-postgres, PGVectorStore(table_name="docs"), without and with hybrid_search
LLAMAINDEX = """
CREATE TABLE {0}.data_docs (
    id BIGSERIAL NOT NULL, text VARCHAR NOT NULL, metadata_ JSON, node_id VARCHAR, embedding VECTOR(16),
    PRIMARY KEY (id)
);
CREATE INDEX docs_idx_1 ON {0}.data_docs USING btree ((metadata_ ->> 'ref_doc_id'));
CREATE INDEX data_docs_embedding_idx ON {0}.data_docs USING hnsw (embedding vector_cosine_ops)
WITH (m = 16, ef_construction = 64)
"""
LLAMAINDEX_HYBRID = """
CREATE TABLE {0}.data_docs (
    id BIGSERIAL NOT NULL, text VARCHAR NOT NULL, metadata_ JSONB, node_id VARCHAR, embedding HALFVEC(16),
    text_search_tsv TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', text)) STORED, PRIMARY KEY (id)
);
CREATE INDEX docs_idx ON {0}.data_docs USING gin (text_search_tsv);
CREATE INDEX docs_idx_1 ON {0}.data_docs USING btree ((metadata_ ->> 'ref_doc_id'))
"""
# pgvector-haystack, PgvectorDocumentStore(search_strategy="hnsw")
HAYSTACK = """
CREATE TABLE {0}.haystack_documents (
id VARCHAR(128) PRIMARY KEY, embedding VECTOR(16), content TEXT, blob_data BYTEA, blob_meta JSONB,
blob_mime_type VARCHAR(255), meta JSONB);
CREATE INDEX haystack_keyword_index ON {0}.haystack_documents USING GIN (to_tsvector('english', content));
CREATE INDEX haystack_hnsw_index ON {0}.haystack_documents USING hnsw (embedding vector_cosine_ops)
"""


def create(server: Server, schema: str, statements: str) -> None:
    for statement in statements.split(";\n"):
        server.run(statement, schema)


def langchain(server, schema, vector_of, *, old=False, custom=True):
    """Two collections whose vectors differ in size, as the library allows: they share a table without a dimension."""
    create(server, schema, OLD_LANGCHAIN if old else LANGCHAIN)
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())
    rows = "INSERT INTO {}.langchain_pg_collection (uuid, name) VALUES (%s, 'my docs'), (%s, 'other')"
    server.run(rows, schema, values=(mine, other))
    key = "uuid, custom_id" if old else "id, cmetadata"
    columns = f"{key}, collection_id, embedding, document"
    insert = f"INSERT INTO {{}}.langchain_pg_embedding ({columns}) VALUES (%s, %s, %s, %s, %s)"
    for number, words in enumerate(TEXTS):
        keys = (str(uuid.uuid4()), f"c{number}" if custom else None) if old else (f"id{number}", '{"source": "a"}')
        server.run(insert, schema, values=(*keys, mine, vector_of(words), words))
    keys = (str(uuid.uuid4()), None) if old else ("foreign", None)
    server.run(insert, schema, values=(*keys, other, "[1,2,3]", "a dog of another collection"))
    return mine


def test_langchain_as_it_is_today(store, server, schema, embedder, vector_of, attach, recall):
    mine = langchain(server, schema, vector_of)
    mapping = bridge.run(template_mapping("langchain", store, "my docs", embedder.model, namespace=schema))
    assert (mapping.id, mapping.where, mapping.metadata) == ("id", {"collection_id": mine}, "cmetadata")
    view = attach(mapping)
    facts = attached.Attachment.of(view).facts
    assert (facts.fixed, facts.dimension) == (False, 16)
    assert recall(view, VectorLeg(), TEXTS[2])[0] == "id2"
    assert sorted(recall(view, FulltextLeg(), "dog")) == ["id0", "id1"]
    assert recall(view, TrigramLeg(threshold=0.6), "foxes")[0] == "id2"


@pytest.mark.usefixtures("trigrams")
def test_vectors_of_a_shared_table_can_be_indexed_per_collection(
    store, server, schema, embedder, vector_of, attach, used
):
    mine = langchain(server, schema, vector_of)
    view = attach(bridge.run(template_mapping("langchain", store, mine, embedder.model, namespace=schema)))
    first, *_ = bridge.run(attached.advice(store, view))
    assert first.statement == (
        f'CREATE INDEX CONCURRENTLY ON "{schema}"."langchain_pg_embedding" USING hnsw (("embedding"::vector(16)) '
        f"vector_cosine_ops) WHERE \"collection_id\" = '{mine}';"
    )
    take(server, [first])
    assert "langchain_pg_embedding_embedding_idx" in used(view, VectorLeg(), "enable_sort")
    assert [each.subject for each in bridge.run(attached.advice(store, view))] == ["fulltext", "trigram"]


@pytest.mark.parametrize("custom", [True, False])
def test_langchain_as_it_was(store, server, schema, embedder, vector_of, attach, recall, custom):
    langchain(server, schema, vector_of, old=True, custom=custom)
    mapping = bridge.run(template_mapping("langchain", store, "my docs", embedder.model, namespace=schema))
    assert mapping.id == ("custom_id" if custom else "uuid")
    assert len(recall(attach(mapping), FulltextLeg(), "dog")) == 2


def test_an_ambiguous_collection_is_asked_by_uuid(store, server, schema):
    create(server, schema, OLD_LANGCHAIN)
    for _ in range(2):
        server.run("INSERT INTO {}.langchain_pg_collection (uuid, name) VALUES (gen_random_uuid(), 'same')", schema)
    with pytest.raises(StoreError, match="Give the uuid"):
        bridge.run(template_mapping("langchain", store, "same", "m", namespace=schema))


def test_langchains_newer_store_has_a_table_of_its_own(store, server, schema, embedder, vector_of, attach, recall):
    create(server, schema, LANGCHAIN_STORE)
    for words in TEXTS:
        server.run(
            "INSERT INTO {}.my_store VALUES (%s, %s, %s, to_tsvector(%s), %s)",
            schema,
            values=(str(uuid.uuid4()), words, vector_of(words), words, '{"a": 1}'),
        )
    mapping = bridge.run(template_mapping("langchain", store, "my_store", embedder.model, namespace=schema))
    assert (mapping.tsv, mapping.metadata) == ("content_tsv", "langchain_metadata")
    assert len(recall(attach(mapping), FulltextLeg(), "dog")) == 2


def test_an_unknown_langchain_collection_names_those_there_are(store, server, schema, vector_of):
    langchain(server, schema, vector_of)
    with pytest.raises(UnknownName, match="Did you mean 'my docs'"):
        bridge.run(template_mapping("langchain", store, "my doc", "m", namespace=schema))


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
def test_llamaindex(store, server, schema, embedder, vector_of, attach, recall, hybrid, repeated):
    create(server, schema, LLAMAINDEX_HYBRID if hybrid else LLAMAINDEX)
    insert = "INSERT INTO {}.data_docs (text, metadata_, node_id, embedding) VALUES (%s, %s, %s, %s)"
    for number, words in enumerate(TEXTS, start=1):
        node = "n1" if repeated else f"n{number}"
        server.run(insert, schema, values=(words, '{"_node_type": "TextNode"}', node, vector_of(words)))
    mapping = bridge.run(template_mapping("llamaindex", store, "Docs", embedder.model, namespace=schema))
    assert (mapping.table, mapping.tsv) == ("data_docs", "text_search_tsv" if hybrid else None)
    view = attach(mapping)
    prefix = "" if repeated else "n"
    assert recall(view, VectorLeg(), TEXTS[2])[0] == f"{prefix}3"
    assert sorted(recall(view, FulltextLeg(), "dog")) == [f"{prefix}1", f"{prefix}2"]
    subjects = [each.subject for each in bridge.run(attached.advice(store, view))]
    assert ("vector" in subjects, "fulltext" in subjects) == (hybrid, not hybrid)


@pytest.mark.usefixtures("trigrams")
def test_haystack(store, server, schema, embedder, vector_of, attach, recall, used):
    create(server, schema, HAYSTACK)
    insert = "INSERT INTO {}.haystack_documents (id, embedding, content, meta) VALUES (%s, %s, %s, %s)"
    for number, words in enumerate(TEXTS):
        server.run(insert, schema, values=(f"{number:064x}", vector_of(words), words, '{"page": 1}'))
    server.run("INSERT INTO {}.haystack_documents (id, content) VALUES ('blob', NULL)", schema)
    view = attach(
        bridge.run(template_mapping("haystack", store, "haystack_documents", embedder.model, namespace=schema))
    )
    assert "haystack_hnsw_index" in used(view, VectorLeg())
    assert "haystack_keyword_index" in used(view, FulltextLeg())
    assert recall(view, VectorLeg(), TEXTS[2])[0] == f"{2:064x}"
    assert len(recall(view, FulltextLeg(), "dog")) == 2
    assert [each.subject for each in bridge.run(attached.advice(store, view))] == ["trigram", "filter"]


@pytest.mark.parametrize("name", list(table_templates))
def test_what_a_library_did_not_make_is_refused(store, schema, name):
    with pytest.raises(UnknownName):
        bridge.run(template_mapping(name, store, "nothing", "m", namespace=schema))


def test_an_unknown_library_names_the_nearest(store):
    with pytest.raises(UnknownName, match="Did you mean 'langchain'"):
        bridge.run(template_mapping("langchian", store, "x", "m"))


# -- documents of which rows are parts -----------------------------------------------------------------------------


def parent_of(store, library, which, schema):
    return bridge.run(template_mapping(library, store, which, "m", namespace=schema)).parent


@pytest.mark.parametrize(("key", "parent"), [("source", ("cmetadata", "source")), ("page", None)])
def test_langchains_rows_are_parts_of_their_source_where_some_row_names_one(store, server, schema, key, parent):
    create(server, schema, LANGCHAIN)
    mine = str(uuid.uuid4())
    server.run("INSERT INTO {}.langchain_pg_collection (uuid, name) VALUES (%s, 'mine')", schema, values=(mine,))
    insert = "INSERT INTO {}.langchain_pg_embedding (id, collection_id, document, cmetadata) VALUES (%s, %s, 'x', %s)"
    server.run(insert, schema, values=("1", mine, "{}"))
    server.run(insert, schema, values=("2", mine, f'{{"{key}": "a.pdf"}}'))
    assert parent_of(store, "langchain", "mine", schema) == parent
    other = str(uuid.uuid4())
    server.run("INSERT INTO {}.langchain_pg_collection (uuid, name) VALUES (%s, 'other')", schema, values=(other,))
    server.run(insert, schema, values=("3", other, '{"doc_id": "b"}'))
    assert parent_of(store, "langchain", "mine", schema) == parent
    assert parent_of(store, "langchain", "other", schema) == ("cmetadata", "doc_id")


def test_a_pgvectorstores_metadata_column_or_its_json_names_the_document(store, server, schema):
    create(server, schema, LANGCHAIN_STORE)
    assert parent_of(store, "langchain", "my_store", schema) is None
    server.run(
        "INSERT INTO {}.my_store VALUES (gen_random_uuid(), 'x', array_fill(1, ARRAY[16])::vector, '', %s)",
        schema,
        values=('{"source": "a.pdf"}',),
    )
    assert parent_of(store, "langchain", "my_store", schema) == ("langchain_metadata", "source")
    server.run('ALTER TABLE {}.my_store ADD COLUMN "source" text', schema)
    assert parent_of(store, "langchain", "my_store", schema) == "source"


@pytest.mark.parametrize("hybrid", [False, True])
def test_llamaindexs_nodes_are_parts_of_their_ref_doc_and_the_word_none_names_no_document(
    store, server, schema, attach, hybrid
):
    create(server, schema, LLAMAINDEX_HYBRID if hybrid else LLAMAINDEX)
    insert = "INSERT INTO {}.data_docs (text, metadata_, node_id) VALUES (%s, %s, %s)"
    server.run(insert, schema, values=("dog", '{"ref_doc_id": "None", "doc_id": "None"}', "n1"))
    assert parent_of(store, "llamaindex", "docs", schema) is None
    for number, document in enumerate(("d", "d", "None"), start=2):
        server.run(insert, schema, values=("dog", f'{{"ref_doc_id": "{document}"}}', f"n{number}"))
    mapping = bridge.run(template_mapping("llamaindex", store, "docs", "m", namespace=schema))
    assert mapping.parent == ("metadata_", "ref_doc_id")
    rows = described(store, attach(mapping), "n1", "n2", "n3", "n4")
    assert [row.item_id for row in rows] == ["n1", "d", "d", "n4"]


@pytest.mark.parametrize("key", ["source_id", "file_path"])
def test_haystacks_splits_are_parts_of_their_source(store, server, schema, key):
    create(server, schema, HAYSTACK)
    insert = "INSERT INTO {}.haystack_documents (id, content, meta) VALUES ('1', 'x', %s)"
    server.run(insert, schema, values=(f'{{"{key}": "d"}}',))
    assert parent_of(store, "haystack", "haystack_documents", schema) == ("meta", key)


# -- every table of theirs -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_that_a_library_made_is_listed_whatever_its_tables_are_called(store, server, schema, vector_of):
    langchain(server, schema, vector_of)
    create(server, schema, LANGCHAIN_STORE)
    create(server, schema, LANGCHAIN_STORE.replace("my_store", "Odd.name"))
    create(server, schema, LLAMAINDEX)
    create(server, schema, LLAMAINDEX.replace("data_docs", "data_llamaindex").replace("docs_idx", "other_idx"))
    create(server, schema, HAYSTACK)
    create(server, schema, HAYSTACK.replace("haystack_", "team_"))
    server.run("CREATE TABLE {}.data_of_sales (id int, text text)", schema)

    def listed(library: str) -> list[str]:
        return [
            each.removeprefix(f"{schema}.") for each in bridge.run(template_tables(library, store)) if schema in each
        ]

    assert listed("langchain") == ["my docs", "other", '"Odd.name"', "my_store"]
    assert listed("llamaindex") == ["data_docs", "data_llamaindex"]
    assert listed("haystack") == ["haystack_documents", "team_documents"]
    for library in table_templates:
        for which in bridge.run(template_tables(library, store)):
            if schema in which:
                assert bridge.run(template_mapping(library, store, which, "m")).namespace == schema


def test_a_collection_of_langchains_may_have_a_dot_in_its_name(store, server, schema):
    create(server, schema, LANGCHAIN)
    server.run("INSERT INTO {}.langchain_pg_collection (uuid, name) VALUES (gen_random_uuid(), 'public.faq')", schema)
    mapping = bridge.run(template_mapping("langchain", store, "public.faq", "m", namespace=schema))
    assert mapping.namespace == schema


@pytest.mark.parametrize(
    ("library", "which", "says"),
    [("llamaindex", "dokcs", "Did you mean 'data_docs'"), ("haystack", "haystack", "haystack_documents")],
)
def test_an_unknown_table_names_those_that_the_library_made(store, server, schema, library, which, says):
    create(server, schema, LLAMAINDEX if library == "llamaindex" else HAYSTACK)
    server.run("CREATE TABLE {}.dokcs_of_ours (id int)", schema)
    with pytest.raises(UnknownName, match=says) as refused:
        bridge.run(template_mapping(library, store, which, "m", namespace=schema))
    assert "of_ours" not in str(refused.value)
