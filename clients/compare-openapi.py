#!/usr/bin/env python3
"""Compares two OpenAPI documents as a generated client sees them.

    cargo run -p service-api --example openapi > after.json
    python3 clients/compare-openapi.py before.json after.json

Texts for people (descriptions, summaries, titles) and the names of components are left out: every $ref is replaced by what
it refers to. Prints each difference and exits with 1 if there is any.
"""

import json
import sys

TEXTS = {"description", "summary", "title", "tags"}
# Lists in which the order has no meaning.
SETS = {"required", "enum", "parameters", "security", "anyOf", "allOf"}


def resolve(document, part, inside=()):
    """The part with every reference replaced and every text for people removed."""
    if isinstance(part, list):
        return [resolve(document, item, inside) for item in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    if isinstance(reference, str):
        if reference in inside:
            return {"recursive": len(inside) - inside.index(reference)}
        target = document
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]
        beside = {key: value for key, value in part.items() if key != "$ref"}
        return resolve(document, {**target, **beside}, (*inside, reference))
    resolved = {}
    for key, value in part.items():
        # A property may have the name of a text.
        if key in TEXTS and not isinstance(value, dict):
            continue
        value = resolve(document, value, inside)
        if key in SETS and isinstance(value, list):
            value = sorted(value, key=lambda item: json.dumps(item, sort_keys=True))
        resolved[key] = value
    return resolved


def differences(before, after, path=""):
    """One line for each place where the two differ."""
    if type(before) is not type(after):
        yield f"{path}: {json.dumps(before)} became {json.dumps(after)}"
    elif isinstance(before, dict):
        for key in sorted(before.keys() | after.keys()):
            here = f"{path}/{key}"
            if key not in after:
                yield f"{here}: removed"
            elif key not in before:
                yield f"{here}: added"
            else:
                yield from differences(before[key], after[key], here)
    elif isinstance(before, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after)):
            yield from differences(one, other, f"{path}/{index}")
    elif before != after:
        yield f"{path}: {json.dumps(before)} became {json.dumps(after)}"


def read(path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    resolved = resolve(document, document)
    # Components count where they are used.
    resolved["components"].pop("schemas")
    return resolved


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = list(differences(read(sys.argv[1]), read(sys.argv[2])))
    for difference in found:
        print(difference)
    print(f"{len(found)} differences")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
