"""What a store has, for tests that look into it and damage it."""

import base64
import json
import pathlib

from e2e_test import crucible


def entries(store, kind=""):
    """The entries of a kind, each as `crucible store list --json` shows it."""
    done = crucible("store", "list", "--json", "--limit", 0, "--store", store, *(["--kind", kind] if kind else []))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["entries"]


def file_of(store, key):
    return pathlib.Path(store) / "ac" / key[:2] / key[2:]


def files_in(folder):
    return sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())


def change_evidence(store, kind, change):
    """Rewrites the unsigned entries of a kind: `change` gets and gives the dictionary of their evidence."""
    for entry in entries(store, kind):
        path = file_of(store, entry["key"])
        envelope = json.loads(path.read_text())
        payload = json.loads(base64.b64decode(envelope["payload"]))
        payload["evidence"] = change(payload["evidence"])
        envelope["payload"] = base64.b64encode(json.dumps(payload, separators=(",", ":")).encode()).decode()
        path.write_text(json.dumps(envelope))
