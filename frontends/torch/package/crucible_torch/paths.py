"""Which folders paths in a recording are relative to, where it is not to say whose machine it was made on
(--no-paths)."""

import os
import sys


def user_name():
    """The part of the home folder's path that names somebody, or what the environment says; "" where nothing does."""
    home = os.path.expanduser("~")
    return os.path.basename(home.rstrip("/")) if home.startswith("/") else os.environ.get("USER", "")


def known_folders():
    """(folders, last folders, user) as core/trace/path_shortener.hpp has them: where packages lie and the working
    folder; then the script's own. Relative to a folder above the home folder, a path would begin with its owner."""
    home = os.path.expanduser("~").rstrip("/") + "/"
    working = os.getcwd()
    script = os.path.dirname(os.path.abspath(sys.argv[0])) if sys.argv and sys.argv[0] else working
    folders = [os.path.abspath(entry) for entry in sys.path if entry and os.path.abspath(entry) != script] + [working]
    below = [
        folder for folder in folders
        if folder != "/" and not home.startswith(folder.rstrip("/") + "/") or folder + "/" == home
    ]
    return sorted(set(below), key=len, reverse=True), [script], user_name()
