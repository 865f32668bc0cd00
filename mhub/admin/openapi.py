"""The OpenAPI document, made from the endpoints: served at /admin/v1/openapi.json."""

from collections.abc import Iterable, Iterator
from types import NoneType
from typing import Any, Final

import msgspec

from mhub import __version__
from mhub.admin.endpoint import LINE, LONGEST_REASON, REASON_DOC, Endpoint
from mhub.admin.problem import CONTENT_TYPE as PROBLEM
from mhub.admin.problem import TITLES, Problem

ALWAYS: Final = (400, 405, 411, 413, 414, 415, 429, 500, 503)
NEEDS_LOGIN: Final = (401, 403)

REF: Final = "#/components/schemas/{name}"


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """All endpoints, by path and method."""
    endpoints = list(endpoints)
    types = [each.result for each in endpoints if each.result is not NoneType]
    structs = [each.query for each in endpoints]
    bodies = [each.body for each in endpoints if each.body is not None]
    schemas, components = msgspec.json.schema_components(
        [Problem, *types, *structs, *bodies], schema_hook=_anything, ref_template=REF
    )
    for schema in (*schemas, *components.values()):
        _simplify(schema)
    known = iter(schemas[1:])
    results = {each.name: next(known) for each in endpoints if each.result is not NoneType}
    queries = {each.name: _properties(next(known), components) for each in endpoints}
    of_bodies = {each.name: next(known) for each in endpoints if each.body is not None}
    hidden = {_name_of(schema) for schema in _struct_schemas(schemas, len(types), len(structs))}
    paths: dict[str, Any] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(
            each, results.get(each.name), queries[each.name], of_bodies.get(each.name)
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mhub",
            "version": __version__,
            "description": "The admin API of mhub, and MQTT over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {"session": []}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in hidden},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "mhub_8088"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _anything(kind: type) -> dict[str, Any]:
    """The schema of `object`: any JSON value."""
    if kind is object:
        return {"type": ["object", "array", "string", "number", "boolean", "null"]}
    raise NotImplementedError


def _simplify(schema: Any) -> None:
    """Pairs of texts as lists of two texts: not all tools know `prefixItems`."""
    if isinstance(schema, list):
        for each in schema:
            _simplify(each)
    elif isinstance(schema, dict):
        first = schema.get("prefixItems")
        if isinstance(first, list) and all(each == first[0] for each in first):
            schema["items"] = first[0]
            del schema["prefixItems"]
        for each in schema.values():
            _simplify(each)


def _struct_schemas(schemas: Any, types: int, structs: int) -> list[dict[str, Any]]:
    """Those of query parameters, which stand with each operation."""
    found: list[dict[str, Any]] = list(schemas[1 + types : 1 + types + structs])
    return found


def _name_of(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _properties(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """A schema itself, where it is a reference."""
    found: dict[str, Any] = components.get(_name_of(schema), schema)
    return found


def _operation(endpoint: Endpoint, result: Any, query: dict[str, Any], body: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [endpoint.resource or "general"],
        "parameters": [*_parameters(endpoint, query)],
        "responses": _responses(endpoint, result),
    }
    permission = (
        f"Needs `admin:{endpoint.verb}` on `{endpoint.resource}`." if endpoint.resource else ""
    )
    text = "\n\n".join(part for part in (endpoint.description, permission) if part)
    if text:
        made["description"] = text
    if endpoint.public == "open":
        made["security"] = []
    if endpoint.raw is not None:
        raw = endpoint.raw[1]
        made["requestBody"] = {
            "description": raw.doc,
            "required": raw.media_type != "*/*",  # an empty payload is one
            "content": {
                raw.media_type: {} if raw.media_type == "*/*" else {"schema": {"type": "string"}}
            },
        }
    elif endpoint.body is not None:
        made["requestBody"] = {
            "required": any(each.required for each in msgspec.structs.fields(endpoint.body)),
            "content": {"application/json": {"schema": body}},
        }
    return made


def _parameters(endpoint: Endpoint, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    required = query.get("required", ())
    for name, schema in query.get("properties", {}).items():
        schema = dict(schema)
        doc = schema.pop("description", "")
        yield {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": doc,
            "schema": schema,
        }
    if endpoint.changes:
        yield {
            "name": "reason",
            "in": "query",
            "required": False,
            "description": REASON_DOC,
            "schema": {"type": "string", "maxLength": LONGEST_REASON, "pattern": LINE},
        }


def _responses(endpoint: Endpoint, result: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if endpoint.stream:
        found["200"] = {
            "description": "A stream.",
            "content": {endpoint.stream: {"schema": {"type": "string"}}},
        }
    elif endpoint.result is NoneType:
        found["204"] = {"description": "Done."}
    elif endpoint.result is bytes:
        found["200"] = {
            "description": "The content.",
            "content": {"application/octet-stream": {"schema": {"type": "string"}}},
        }
    else:
        found["200"] = {
            "description": "Done.",
            "content": {"application/json": {"schema": result}},
        }
    codes = [*ALWAYS, *endpoint.codes]
    if endpoint.public != "open" or endpoint.name == "login":
        codes += NEEDS_LOGIN
    if endpoint.resource:
        codes += [404, 409]
        if endpoint.writes:
            codes.append(412)
    for code in sorted(set(codes)):
        found[str(code)] = {
            "description": TITLES[code] + ".",
            "content": {PROBLEM: {"schema": {"$ref": REF.format(name="Problem")}}},
        }
    return found
