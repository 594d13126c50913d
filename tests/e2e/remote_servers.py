"""What the tests of remote stores need: stores written from docs/store.md alone, nginx, moto, and a bucket that computes
every signature itself.

Environment: CRUCIBLE_NGINX the nginx program, CRUCIBLE_MOTO a Python that has moto (ci/setup.sh sets both); without one
its tests are skipped.
"""

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
import unittest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "store.md"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port, process):
    for _ in range(1200):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server did not come up")


def end(process):
    process.terminate()
    process.wait()


# ---- a store, byte by byte


def field(name, kind, value):
    name = name.encode()
    return struct.pack("<I", len(name)) + name + bytes([kind]) + struct.pack("<I", len(value)) + value


def key_bytes(number):
    parts = b"crucible action key" + struct.pack("<II", 1, 7)
    for name, kind, value in [("kind", 1, b"kernel"), ("region", 2, hashlib.sha256(b"region").digest()),
                              ("target", 1, b"x86-64-v4"), ("numerics", 1, b"fast"), ("toolchain", 1, b"clang 19"),
                              ("options", 8, struct.pack("<I", 0)),
                              ("specialisation", 8, struct.pack("<I", 1) + field("n", 3, struct.pack("<I", number)))]:
        parts += field(name, kind, value)
    return parts


def blob(number):
    """The fifth has 3 MiB: above what is sent without asking whether it may be."""
    return hashlib.sha256(str(number).encode()).digest() * (98304 if number == 4 else number + 1)


def zstd_frame(content):
    """Raw blocks: a frame that says its size in 8 bytes."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + struct.pack("<Q", len(content))
    blocks = [content[at:at + 100_000] for at in range(0, len(content), 100_000)]
    for at, block in enumerate(blocks):
        frame += struct.pack("<I", len(block) << 3 | (at == len(blocks) - 1))[:3] + block
    return frame


def write_in(folder, name, content):
    path = folder / name[:2] / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def make_store(folder, count):
    """Unsigned entries 0 to `count`; returns their keys."""
    (folder / "cas").mkdir(parents=True)
    (folder / "ac").mkdir()
    (folder / "format").write_text("crucible store 1\n")
    keys = []
    for number in range(count):
        content, fields = blob(number), key_bytes(number)
        name, key = hashlib.sha256(content).hexdigest(), hashlib.sha256(fields).hexdigest()
        statement = {
            "version": 1, "key": key, "kind": "kernel", "fields": base64.b64encode(fields).decode(),
            "outputs": [{"name": "kernel.o", "sha256": name, "size_bytes": len(content)}], "maker": "a test",
            "made_ns": 5, "evidence": {}
        }
        envelope = {
            "payloadType": "application/vnd.crucible.action+json",
            "payload": base64.b64encode(json.dumps(statement).encode()).decode(), "signatures": []
        }
        write_in(folder / "cas", name, zstd_frame(content))
        write_in(folder / "ac", key, json.dumps(envelope).encode())
        keys.append(key)
    return keys


def make_key(folder, name):
    """As docs/store.md says: the secret key's path; the public one's has .pub behind it."""
    secret = folder / name
    for line in (["genpkey", "-algorithm", "ed25519", "-out", secret], ["pkey", "-in", secret, "-pubout", "-out",
                                                                         f"{secret}.pub"]):
        subprocess.run(["openssl", *map(str, line)], check=True, capture_output=True)
        secret.chmod(0o600)
    return secret


# ---- servers


class Nginx:
    """The example of docs/store.md, on a free port, over a folder of its own; with `tls`, over TLS with a certificate
    that only `certificate` vouches for; `is_open` to writers without a password; `more` are
    locations beside the example's."""

    def __init__(self, folder, tls=False, may_write=True, is_open=False, more=""):
        program = os.environ.get("CRUCIBLE_NGINX") or shutil.which("nginx")
        if not program:
            raise unittest.SkipTest("CRUCIBLE_NGINX names no nginx: ci/setup.sh installs one")
        self.folder, self.data, port = folder, folder / "data", free_port()
        self.data.mkdir(parents=True)
        example = re.search(r"```nginx\n(.*?)```", DOCS.read_text(), re.S).group(1)
        listen, certificate = f"listen 127.0.0.1:{port};", ""
        if tls:
            self.certificate = folder / "certificate.pem"
            subprocess.run([
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/tls.pem", "-out",
                str(self.certificate), "-days", "2", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=IP:127.0.0.1,DNS:localhost"
            ], check=True, capture_output=True)
            listen = listen.replace(";", " ssl http2;")
            certificate = f"ssl_certificate {self.certificate}; ssl_certificate_key {folder}/tls.pem;"
        server, replaced = re.subn(r"listen [^;]*;", listen + certificate, example)
        server = server.replace("/etc/nginx/crucible-passwords", str(folder / "passwords"))
        assert replaced == 1 and "root /srv/crucible;" in server, "the example of docs/store.md has changed"
        server = server.replace("root /srv/crucible;", f"root {self.data};")
        server = server.replace("/srv/crucible/tmp", str(folder / "client_body"))
        if not may_write:
            server = re.sub(r"dav_methods [^;]*;", "", server)
        server = server.replace("  location / {", f"  {more}\n  location / {{")
        if is_open:
            server = re.sub(r"limit_except [^}]*}", "", server)
        (folder / "passwords").write_text("ada:{PLAIN}hunter2\n")
        kept = "".join(f"{kind}_temp_path {folder}/{kind};\n"
                       for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;\n"
            f"events {{}}\nhttp {{ access_log {folder}/access;\n{kept}{server}\n}}\n")
        self.process = subprocess.Popen([program, "-p", str(folder), "-e", f"{folder}/errors", "-c",
                                         f"{folder}/nginx.conf"], stderr=subprocess.DEVNULL)
        wait_for(port, self.process)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"

    def log(self):
        return (self.folder / "access").read_text().splitlines()

    def end(self):
        end(self.process)


class Moto:
    """Others' emulation of S3."""

    def __init__(self, bucket):
        python = os.environ.get("CRUCIBLE_MOTO")
        if not python:
            raise unittest.SkipTest("CRUCIBLE_MOTO names no Python with moto: ci/setup.sh installs one")
        port = free_port()
        self.process = subprocess.Popen([python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(port, self.process)
        self.url = f"http://127.0.0.1:{port}"
        curl = http.client.HTTPConnection("127.0.0.1", port)
        curl.request("PUT", f"/{bucket}")
        assert curl.getresponse().status == 200

    def end(self):
        end(self.process)


class SigningBucket(http.server.ThreadingHTTPServer):
    """A bucket that computes the signature of each request as Amazon's description of version 4 has it, and denies what
    is signed otherwise. `denied` has why."""
    daemon_threads = True
    ID, SECRET, TOKEN, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token+1==", "mars-1"

    def __init__(self):
        super().__init__(("127.0.0.1", 0), SigningHandler)
        self.kept, self.asked, self.denied = {}, [], []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()

    def fault_of(self, method, path, headers, body):
        """"" or why the request is denied."""
        said = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?"
            r"Signature=([0-9a-f]{64})", headers.get("Authorization", ""))
        if not said:
            return "AccessDenied"
        identity, day, region, signed, signature = said.groups()
        if identity != self.ID:
            return "InvalidAccessKeyId"
        if region != self.REGION:
            return "AuthorizationHeaderMalformed"
        names = signed.split(";")
        if names != sorted(names) or not {"host", "x-amz-content-sha256", "x-amz-date"} <= set(names):
            return "SignedHeaders"
        if headers.get("x-amz-security-token") != self.TOKEN or "x-amz-security-token" not in names:
            return "InvalidToken"
        if headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return "XAmzContentSHA256Mismatch"
        canonical = "\n".join([method, path, ""] + [f"{each}:{' '.join(headers[each].split())}" for each in names] +
                              ["", signed, headers["x-amz-content-sha256"]])
        scope = f"{day}/{region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope,
                          hashlib.sha256(canonical.encode()).hexdigest()])
        key = b"AWS4" + self.SECRET.encode()
        for part in (day, region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return "" if hmac.new(key, text.encode(), "sha256").hexdigest() == signature else "SignatureDoesNotMatch"


class SigningHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        bucket = self.server
        bucket.asked.append(f"{self.command} {self.path}")
        fault = bucket.fault_of(self.command, self.path, self.headers, body)
        if fault:
            bucket.denied.append(fault)
            self.answer(403, f"<Error><Code>{fault}</Code></Error>".encode())
        elif self.command == "PUT":
            bucket.kept[self.path] = body
            self.answer(200)
        elif self.path in bucket.kept:
            self.answer(200, bucket.kept[self.path])
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_GET = do_HEAD = do_PUT = handle_one
