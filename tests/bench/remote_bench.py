"""Runs remote_bench against nginx on this machine, as docs/store.md sets it up but open to writers: HTTP/1.1, then HTTP/2
over TLS.

Environment: CRUCIBLE_NGINX, as ci/setup.sh sets it.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import remote_servers  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="build/release/remote_bench")
    program = parser.parse_args().program
    for tls in (False, True):
        protocol = "HTTP/2 over TLS" if tls else "HTTP/1.1"
        print(f"== a server behind a store: nginx on this machine, {protocol}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            server = remote_servers.Nginx(pathlib.Path(folder), tls=tls, is_open=True)
            try:
                subprocess.run([program, server.url, *([str(server.certificate)] if tls else [])], check=True)
            finally:
                server.end()


if __name__ == "__main__":
    main()
