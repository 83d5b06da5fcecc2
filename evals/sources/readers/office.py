"""Word, PDF and Jupyter's notebooks through markitdown, which is installed by the extra `documents`.

Its converters are called one by one, on bytes; its type guessing, plug-ins and downloads are never used.
"""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from typing import Any, ClassVar

from core.errors import InputError
from evals.sources.files import ArchiveLimits, check_entries
from evals.sources.readers.base import ReadDocument, Reader, readers, title_and_metadata
from evals.sources.readers.markdown import first_title

EXTRA = "documents"
_LIMITS = ArchiveLimits(entries=5000, total_bytes=256 * 2**20)  # of a Word file, which is a zip


class _MarkItDown(Reader):
    """One of markitdown's converters."""

    extra = EXTRA
    isolated = True
    needs: ClassVar[tuple[str, ...]] = ("markitdown",)
    what: ClassVar[str]  # the kind of document, as sentences name it
    hint: ClassVar[str] = ""

    @classmethod
    def available(cls) -> bool:
        return all(find_spec(name) is not None for name in cls.needs)

    def read(self, raw: bytes) -> ReadDocument:
        self.require_kind(raw)
        from markitdown import StreamInfo

        converter = self.converter()
        try:
            converted = converter.convert(io.BytesIO(raw), StreamInfo(extension=self.suffixes[0]))
        except MemoryError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(f"This is not a readable {self.what} ({reason}). It was left out.") from error
        text = self.trimmed(converted.markdown or "")
        title, _ = title_and_metadata({"title": converted.title or ""}, first_title(text))
        empty = () if text.strip() else (f"The {self.what} holds no text. {self.hint}".strip(),)
        return ReadDocument(text, title, {}, empty)

    def require_kind(self, raw: bytes) -> None:
        """Refuse bytes that are of another kind, before the converter sees them."""

    def converter(self) -> Any:
        raise NotImplementedError

    def trimmed(self, text: str) -> str:
        return text.strip()


@readers.register("word")
class WordReader(_MarkItDown):
    """Word documents (.docx)."""

    suffixes = (".docx",)
    needs = ("markitdown", "mammoth")
    what = "Word document"

    def require_kind(self, raw: bytes) -> None:
        try:
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                names = {entry.filename for entry in check_entries(archive, len(raw), "the document", _LIMITS)}
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
            raise InputError(f"This is not a Word document ({error}). It was left out.") from error
        if "word/document.xml" not in names:
            raise InputError("This is not a Word document: it holds no word/document.xml. It was left out.")

    def converter(self) -> Any:
        from markitdown.converters import DocxConverter

        return DocxConverter()  # type: ignore[no-untyped-call, unused-ignore]


@readers.register("pdf")
class PdfReader(_MarkItDown):
    """PDF files; a form feed ends a page, where the converter keeps pages apart."""

    suffixes = (".pdf",)
    needs = ("markitdown", "pdfminer", "pdfplumber")
    what = "PDF"
    hint = "A scan has to go through text recognition first."

    def require_kind(self, raw: bytes) -> None:
        if b"%PDF-" not in raw[:1024]:
            raise InputError("This is not a PDF: it does not begin as one. It was left out.")

    def converter(self) -> Any:
        from markitdown.converters import PdfConverter

        return PdfConverter()

    def trimmed(self, text: str) -> str:
        return text.strip(" \t\r\n").rstrip("\f")


@readers.register("notebook")
class NotebookReader(_MarkItDown):
    """Jupyter's notebooks: their prose and code, without outputs."""

    suffixes = (".ipynb",)
    what = "notebook"

    def converter(self) -> Any:
        from markitdown.converters import IpynbConverter

        return IpynbConverter()
