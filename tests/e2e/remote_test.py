"""Remote stores as a team has them: one machine fills a server, others read it and believe the right key alone.

Environment: CRUCIBLE the command; as remote_servers.py.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from remote_servers import Moto, Nginx, SigningBucket, blob, key_bytes, make_key, make_store

CRUCIBLE = os.environ["CRUCIBLE"]
COUNT = 5


class Remotes(unittest.TestCase):
    """A folder with a filled store and two keys."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="crucible-remote-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.keys = make_store(self.folder / "filled", COUNT)
        self.ours, self.theirs = make_key(self.folder, "ours.pem"), make_key(self.folder, "theirs.pem")
        self.environment = {}

    def run_it(self, *line, store, **variables):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "no_proxy": "*", **self.environment,
                       **variables}
        return subprocess.run([CRUCIBLE, "store", *map(str, line), "--store", str(self.folder / store)],
                              capture_output=True, text=True, env=environment, cwd=self.folder, timeout=300)

    def document(self, *line, store, code=0, **variables):
        done = self.run_it(*line, "--json", store=store, **variables)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def push(self, url, store="filled", sign=None, **variables):
        [row] = self.document("push", "--remote", url, "--sign", sign or self.ours, store=store, **variables)["remotes"]
        return row

    def reads_all(self, url, store, *more, **variables):
        """A machine with the public key alone, and an empty folder."""
        done = self.document("pull", *self.keys, "--remote", url, "--key", f"{self.ours}.pub", *more, store=store,
                             **variables)
        self.assertEqual(done["keys"], [{"key": key, "here": True} for key in self.keys])
        verified = self.document("verify", "--trust", "enforce", "--key", f"{self.ours}.pub", store=store)
        self.assertEqual((verified["entries"], verified["blobs"]), (COUNT, COUNT))
        for number in range(COUNT):
            listed = self.document("list", store=store)
            self.assertIn(self.keys[number], [entry["key"] for entry in listed["entries"]])

    def check_round(self, url, **variables):
        row = self.push(url, **variables)
        self.assertEqual((row["entries"], row["blobs"], row["there"], row["left"]), (COUNT, COUNT, 0, 0))
        row = self.push(url, **variables)
        self.assertEqual((row["entries"], row["blobs"], row["there"], row["left"]), (0, 0, COUNT, 0))
        self.reads_all(url, "empty", **variables)
        stats = self.document("stats", "--remote", url, "--trust", "off", store="filled", **variables)
        self.assertEqual(stats["remotes"], [{"remote": url, "entries": COUNT, "blobs": COUNT}])


class Remote(Remotes):
    """nginx with WebDAV, as docs/store.md has it."""

    def nginx(self, name="server", **named):
        (self.folder / name).mkdir()
        server = Nginx(self.folder / name, **named)
        self.addCleanup(server.end)
        return server

    def setUp(self):
        super().setUp()
        self.environment["CRUCIBLE_STORE_REMOTE_AUTH"] = "ada:hunter2"

    def test_one_machine_fills_it_others_read_it(self):
        server = self.nginx()
        self.check_round(server.url)
        self.check_round(server.url + "/of/another/team")
        # The files of the server are those of the folders: blobs as they were packed here, entries as they were signed.
        for kind, store in [("cas", "filled"), ("ac", "empty")]:
            for file in (self.folder / store / kind).glob("*/*"):
                name = file.parent.name + file.name
                self.assertEqual((server.data / kind / name).read_bytes(), file.read_bytes())
        self.assertIn("HTTP/1.1", "\n".join(server.log()))

    def test_a_read_only_machine_explains_and_pulls_what_it_missed(self):
        server = self.nginx()
        self.push(server.url)
        key = self.keys[2]
        public = f"{self.ours}.pub"
        (self.folder / "crucible.toml").write_text(f'[store]\nremote = ["{server.url}"]\nkeys = ["{public}"]\n')
        self.run_it("pull", self.keys[0], "--config", "crucible.toml", store="empty")
        explained = self.document("explain", key, "--config", "crucible.toml", store="empty")
        self.assertFalse(explained["is_there"])
        self.assertEqual([difference["field"] for difference in explained["differences"]], ["specialisation.n"])
        [asked] = explained["remotes"]
        self.assertEqual((asked["words"], asked["believed"], asked["maker"]), ("has it", True, "a test"))
        words = self.run_it("explain", key, "--config", "crucible.toml", store="empty")
        self.assertIn(f"{server.url}: has it, made by a test", words.stdout)
        done = self.run_it("pull", key, "0" * 64, "--config", "crucible.toml", store="empty")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 of 2 keys are here", done.stdout)
        # Without the password it reads, and cannot write.
        self.environment.pop("CRUCIBLE_STORE_REMOTE_AUTH")
        self.reads_all(server.url, "third")
        make_store(self.folder / "more", COUNT + 1)
        done = self.run_it("push", "--remote", server.url, "--sign", self.ours, store="more")
        self.assertEqual(done.returncode, 4)
        self.assertIn("takes nothing from us (HTTP 401): it is only read from now on", done.stderr)

    def test_the_file_of_a_folder_names_no_server(self):
        server = self.nginx()
        (self.folder / "crucible.toml").write_text(
            f'[store]\nremote = ["{server.url}"]\nremote_trust = "off"\nkeys = ["x"]\nsign = "y"\nremote_write = true\n'
            'ca_file = "z"\nremote_auth_file = "a"\nremote_timeout_ms = 1\n')
        done = self.run_it("pull", self.keys[0], store="empty")
        self.assertEqual(done.returncode, 2, done.stderr)
        for name in ("remote", "remote_trust", "keys", "sign", "remote_write", "ca_file", "remote_auth_file",
                     "remote_timeout_ms"):
            self.assertIn(f"store.{name}", done.stderr)
        self.assertIn("there is no remote to pull from", done.stderr)
        self.assertEqual(server.log(), [])

    def test_what_others_wrote_is_refused_with_its_reason(self):
        server = self.nginx()
        self.push(server.url, sign=self.theirs)
        line = ["pull", self.keys[0], "--remote", server.url, "--key", f"{self.ours}.pub"]
        done = self.run_it(*line, store="empty")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it is not used: no key that may write signed it", done.stderr)
        # Ours is written over it; then somebody forges its words.
        self.push(server.url)
        self.assertEqual(self.run_it(*line, store="empty").returncode, 0)
        path = server.data / "ac" / self.keys[1]
        envelope = json.loads(path.read_text())
        statement = json.loads(base64.b64decode(envelope["payload"]))
        statement["outputs"][0]["sha256"] = "0" * 64
        envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
        path.write_text(json.dumps(envelope))
        explained = self.run_it("explain", self.keys[1], "--remote", server.url, "--key", f"{self.ours}.pub",
                                store="empty")
        self.assertEqual(explained.returncode, 2)
        self.assertIn("it is not used: its signature is wrong", explained.stderr)
        # And a blob is another.
        shutil.copy(next((server.data / "cas").iterdir()), self.folder / "other")
        for file in (server.data / "cas").iterdir():
            file.write_bytes((self.folder / "other").read_bytes())
        done = self.run_it("pull", *self.keys[2:], "--remote", server.url, "--key", f"{self.ours}.pub", store="fourth")
        self.assertEqual(done.returncode, 1)
        self.assertIn("its bytes are others", done.stderr)
        self.assertGreater(done.stdout.count("  no\n"), 1)

    def test_two_servers_that_disagree_are_told(self):
        first, second = self.nginx("first"), self.nginx("second")
        self.push(first.url)
        # The same key with another answer: this store's blob 1 is blob 0's.
        for path in (self.folder / "filled" / "ac").glob("*/*"):
            envelope = json.loads(path.read_text())
            envelope["payload"] = base64.b64encode(
                base64.b64decode(envelope["payload"]).replace(self.digest(1), self.digest(0)).replace(
                    b'"size_bytes": 64', b'"size_bytes": 32')).decode()
            path.write_text(json.dumps(envelope))
        self.push(second.url)
        done = self.run_it("explain", self.keys[1], "--remote", first.url, "--remote", second.url, "--key",
                           f"{self.ours}.pub", store="filled")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("they have different answers: the first one's is used", done.stdout)
        row = self.push(first.url)
        self.assertEqual((row["differing"], row["there"]), (1, COUNT - 1))

    @staticmethod
    def digest(number):
        import hashlib
        return hashlib.sha256(blob(number)).hexdigest().encode()

    def test_tls_is_verified(self):
        server = self.nginx(tls=True)
        done = self.run_it("push", "--remote", server.url, "--sign", self.ours, store="filled")
        self.assertEqual(done.returncode, 4)
        self.assertIn("certificate", done.stderr)
        self.assertEqual(list(server.data.iterdir()), [])
        variables = {"CRUCIBLE_STORE_CA_FILE": str(server.certificate)}
        self.check_round(server.url, **variables)
        self.assertIn("HTTP/2.0", "\n".join(server.log()))
        # Whoever asks over TLS is not led away from it.
        plain = self.nginx("plain")
        self.push(plain.url + "/led", **variables)
        leading = self.nginx("leading", tls=True, more=f"location ^~ /led/ {{ return 302 {plain.url}$request_uri; }}")
        for url, code in [(plain.url, 0), (leading.url, 1)]:
            done = self.run_it("pull", self.keys[0], "--remote", url + "/led", "--key", f"{self.ours}.pub",
                               store=f"empty-{code}", CRUCIBLE_STORE_CA_FILE=str(leading.certificate))
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("not supported or disabled", done.stderr)
        other = self.run_it("push", "--remote", server.url.replace("127.0.0.1", "127.0.0.2"), "--sign", self.ours,
                            store="filled", **variables)
        self.assertEqual(other.returncode, 4)

    def test_a_server_that_cannot_be_written_is_said(self):
        server = self.nginx(may_write=False)
        done = self.run_it("push", "--remote", server.url, "--sign", self.ours, store="filled")
        self.assertEqual(done.returncode, 4)
        self.assertIn("takes nothing from us (HTTP 405)", done.stderr)
        self.assertNotIn("hunter2", done.stderr + done.stdout + "\n".join(server.log()))

    def test_a_password_of_a_file(self):
        server = self.nginx()
        self.environment.pop("CRUCIBLE_STORE_REMOTE_AUTH")
        file = self.folder / "password"
        file.write_text("ada:hunter2\n")
        file.chmod(0o644)
        variables = {"CRUCIBLE_STORE_REMOTE_AUTH_FILE": str(file)}
        done = self.run_it("push", "--remote", server.url, "--sign", self.ours, store="filled", **variables)
        self.assertEqual(done.returncode, 3)
        self.assertIn("others can read it", done.stderr)
        file.chmod(0o600)
        self.assertEqual(self.push(server.url, **variables)["entries"], COUNT)

    def test_refusals(self):
        for line, code, words in [
            (["push"], 2, "no remote is written to"),
            (["push", "--remote", "http://127.0.0.1:1"], 2, "name the public keys that may write"),
            (["push", "--remote", "http://127.0.0.1:1", "--key", f"{self.ours}.pub"], 2, "name the secret key"),
            (["push", "--remote", "ftp://x", "--sign", self.ours], 2, "is no place of a remote store"),
            (["push", "--remote", "http://127.0.0.1:1", "--sign", self.ours], 4, "cannot be reached"),
            (["pull", "abcd", "--remote", "http://127.0.0.1:1", "--trust", "off"], 2, "is no whole key"),
            (["pull", self.keys[0], "--remote", "http://127.0.0.1:1", "--set", "store.remote_trust=maybe"], 2, "maybe"),
        ]:
            done = self.run_it(*line, store="filled")
            if line[0] == "pull" and code == 0:
                continue
            self.assertEqual(done.returncode, code, f"{line}: {done.stderr}")
            self.assertIn(words, done.stderr)
        # What is here is shown all the same.
        done = self.run_it("stats", "--remote", "http://127.0.0.1:1", "--trust", "off", store="filled")
        self.assertEqual(done.returncode, 0)
        self.assertIn("cannot be reached", done.stdout)


class Bucket(Remotes):
    """S3: moto's, and one that recomputes every signature."""

    def test_moto_keeps_what_is_pushed(self):
        server = Moto("kernels")
        self.addCleanup(server.end)
        self.environment = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
                            "AWS_ENDPOINT_URL": server.url, "AWS_REGION": "eu-west-1"}
        self.check_round("s3://kernels")
        self.check_round("s3://kernels/of/a/team")
        done = self.run_it("push", "--remote", "s3://nowhere", "--sign", self.ours, store="filled")
        self.assertEqual(done.returncode, 4)
        self.assertIn("HTTP 404 NoSuchBucket", done.stderr)

    def test_every_request_has_the_right_signature(self):
        bucket = SigningBucket()
        self.addCleanup(bucket.end)
        url = f"s3://kernels/a.b/c_d~e?endpoint={bucket.url}&region={bucket.REGION}"
        credentials = self.folder / ".aws" / "credentials"
        credentials.parent.mkdir()
        credentials.write_text(f"[default]\naws_access_key_id = {bucket.ID}\naws_secret_access_key = {bucket.SECRET}\n"
                               f"aws_session_token = {bucket.TOKEN}\n")
        self.check_round(url)
        self.assertEqual(bucket.denied, [])
        self.assertEqual({request.split()[0] for request in bucket.asked}, {"GET", "HEAD", "PUT"})
        self.assertEqual(len(bucket.kept), 2 * COUNT)
        # What is wrong is denied, and the reason is told.
        for variables, words in [({"AWS_SECRET_ACCESS_KEY": "wrong", "AWS_ACCESS_KEY_ID": bucket.ID,
                                   "AWS_SESSION_TOKEN": bucket.TOKEN}, "SignatureDoesNotMatch"),
                                 ({"AWS_SECRET_ACCESS_KEY": bucket.SECRET, "AWS_ACCESS_KEY_ID": "other",
                                   "AWS_SESSION_TOKEN": bucket.TOKEN}, "InvalidAccessKeyId")]:
            done = self.run_it("pull", self.keys[0], "--remote", url, "--key", f"{self.ours}.pub", store="fresh",
                               **variables)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"HTTP 403 {words}", done.stderr)
            self.assertNotIn("wrong", done.stderr)
        done = self.run_it("pull", self.keys[0], "--remote", url.replace("mars-1", "venus-1"), "--key",
                           f"{self.ours}.pub", store="fresh")
        self.assertIn("AuthorizationHeaderMalformed", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
