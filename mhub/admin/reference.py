"""The reference of all endpoints, in Markdown, made from the OpenAPI document.

`docs/admin-api.md` holds it between two marks; `python -m mhub.admin --write FILE` makes it anew,
and a test compares the two.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

BEGIN: Final = "<!-- reference: made by `python -m mhub.admin --write docs/admin-api.md` -->\n"
END: Final = "<!-- end of the reference -->\n"


def reference(document: Mapping[str, Any]) -> str:
    parts = [*_lines(document), "## What answers are made of", "", *_schemas(document)]
    return "\n".join(parts).rstrip("\n") + "\n"


def update(text: str, document: Mapping[str, Any]) -> str:
    """`text` with what is between the marks made anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{reference(document)}\n{END}{rest.split(END)[1]}"


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for tag, operations in by_tag.items():
        yield from [f"## {tag}", ""]
        for method, path, operation in operations:
            yield from _operation(method, path, operation, schemas)


def _operation(
    method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Iterator[str]:
    yield from [f"### `{method} {path}`", "", f"{operation['summary']}."]
    if operation.get("description"):
        yield from ["", operation["description"]]
    rows = [
        (each["name"], "query", _type(each["schema"]), each["required"], each["description"])
        for each in operation["parameters"]
    ]
    body = operation.get("requestBody")
    if body is not None:
        rows += _body_rows(body, schemas)
    if rows:
        yield from ["", "| name | in | type | | |", "| --- | --- | --- | --- | --- |"]
        for name, where, kind, required, doc in rows:
            text = doc.replace("|", "\\|").replace("\n", " ")
            yield f"| `{name}` | {where} | {kind} | {'required' if required else ''} | {text} |"
    answer = operation["responses"].get("200")
    if answer is not None:
        media_type, content = next(iter(answer["content"].items()))
        name = _reference(content["schema"])
        if name:
            yield from ["", f"Answer: [`{name}`](#{name.lower()})"]
        elif media_type != "application/json":
            yield from ["", f"Answer: `{media_type}`"]
    yield ""


def _body_rows(
    body: Mapping[str, Any], schemas: Mapping[str, Any]
) -> list[tuple[str, str, str, bool, str]]:
    media_type, content = next(iter(body["content"].items()))
    if media_type != "application/json":
        return [("body", media_type, "text", True, body["description"])]
    schema = schemas.get(_reference(content["schema"]), content["schema"])
    required = schema.get("required", ())
    return [
        (name, "body", _type(each), name in required, each.get("description", ""))
        for name, each in schema.get("properties", {}).items()
    ]


def _schemas(document: Mapping[str, Any]) -> Iterator[str]:
    used = document["components"]["schemas"]
    for name, schema in sorted(used.items()):
        if name.endswith("Body"):
            continue
        yield from [f"### {name}", "", "| field | type |", "| --- | --- |"]
        for field, each in schema.get("properties", {}).items():
            yield f"| `{field}` | {_type(each)} |"
        yield ""


def _reference(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _type(schema: Mapping[str, Any]) -> str:
    name = _reference(schema)
    if name:
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"] if each not in ("", None))
    if schema.get("type") == "array":
        item = schema.get("items") or {}
        return f"list of {_type(item)}" if item else "list"
    given = schema.get("type")
    kind = given if isinstance(given, str) else "any"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{kind}, {low} to {high}"
    return kind
