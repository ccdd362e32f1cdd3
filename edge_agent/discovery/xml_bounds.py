"""What is let through to an XML library: no declarations, no depth or number that no camera needs."""

from xml.parsers import expat

DEEPEST = 32
# A recorder with sixteen channels takes some thousands.
MOST_ELEMENTS = 20_000


class XmlBoundsError(Exception):
    """The document is not what a camera sends."""


def check_xml(text: str) -> None:
    """Raise XmlBoundsError for a document that could cost much; one that is malformed is left to the library.

    Searching a document takes time by its depth times its elements; entities would multiply both. It is text,
    the very same that the library parses: of bytes each could make another document, by another encoding.
    """
    depth = elements = 0

    def start(_name: str, _attributes: object) -> None:
        nonlocal depth, elements
        depth += 1
        elements += 1
        if depth > DEEPEST:
            raise XmlBoundsError(f"found XML deeper than {DEEPEST} elements")
        if elements > MOST_ELEMENTS:
            raise XmlBoundsError(f"found XML of more than {MOST_ELEMENTS} elements")

    def end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    def declaration(*_: object) -> None:
        raise XmlBoundsError("found XML with a document type, expected none")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = declaration
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError, LookupError):
        return
