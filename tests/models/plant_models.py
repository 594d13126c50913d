"""How many wrong ops verification finds in the models of the zoo: see `ci/models --help`.

For each model: a recording (made now, or one that `ci/models record --keep` left), and `plant_errors` (tests/plant) on
it: one op at a time is made wrong by a thousandth, and the replay judged. Where the recorded iterations are not the
same ops, one iteration is recorded alone. Exit code 1 when of some model less than nine in ten are found.
"""

import os
import subprocess
import sys
import tempfile

from record_models import arguments_of, parser_of, record


def main():
    parser = parser_of("plant", __doc__, "recordings")
    parser.add_argument("--ops", type=int, default=40,
                        help="as many ops of each model, evenly spread (default: 40; 0: all)")
    parser.add_argument("--closely", action="store_true",
                        help="judge as `crucible replay --verify --closely`: all chosen ops are wrong at once")
    arguments = arguments_of(parser)
    crucible = arguments.crucible
    plant = [
        os.path.join(os.path.dirname(crucible), "plant_errors"), "--list",
        *(["--ops", str(arguments.ops)] if arguments.ops else []), *(["--closely"] if arguments.closely else [])
    ]
    failed = False
    with tempfile.TemporaryDirectory(prefix="crucible-models-") as temporary:
        for name in arguments.names:
            path = os.path.join(arguments.recordings or temporary, f"{name}.crtrace")
            for iterations in (None, 1):
                if not arguments.recordings or iterations:
                    path = os.path.join(temporary, f"{name}.crtrace")
                    if os.path.exists(path):
                        os.remove(path)
                    record(crucible, temporary, name, **({"iterations": iterations} if iterations else {}))
                done = subprocess.run([*plant, path], text=True, stdout=subprocess.PIPE)
                if done.returncode != 2 or iterations:
                    break
            print(done.stdout, end="", flush=True)
            failed |= done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
