"""The file with SCRAM users: what it says, and how it is edited."""

import base64
import os
import stat
from pathlib import Path
from threading import Thread

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import TestCase

from mhub.auth.saslprep import saslprep
from mhub.auth.users import (
    UsersFileError,
    delete_user,
    make_verifier,
    parse_users,
    prepare_name,
    read_users,
    set_user,
)
from tests.helpers.splits import steady

VERIFIER = make_verifier("pencil", 4096, bytes(16))
LINE = f"alice:{VERIFIER.render()}"


MOSQUITTO = "bob:$7$101$AAAAAAAA$" + 86 * "A" + "=="


class ParseTests(TestCase):
    def test_file(self) -> None:
        secret = base64.b64encode(b"secret").decode()
        users = parse_users(f"# hi\n\n decoy-secret = {secret} \r\n{LINE}\r\n".encode(), "users")
        self.assertEqual(users.verifiers, {"alice": VERIFIER})
        self.assertEqual(users.secret, b"secret")
        self.assertEqual(users.usual, (4096, 16))

    def test_hashes(self) -> None:
        """A password file of Mosquitto is such a file, and a user may have a line of each kind."""
        other = MOSQUITTO.replace("bob", "alice").replace("101", "102")
        more = MOSQUITTO.replace("bob", "carol: x")
        text = f"# a comment\n{MOSQUITTO}\n\n{LINE}\n{other}\n{MOSQUITTO.replace('bob', 'null')}\n"
        users = parse_users(text.encode(), "users")
        self.assertEqual(list(users.hashes), ["bob", "alice", "null"])
        self.assertEqual(list(users.verifiers), ["alice"])
        self.assertEqual(users.usual_hash, users.hashes["bob"])
        self.assertRaises(UsersFileError, parse_users, more.encode(), "users")

    def test_empty(self) -> None:
        self.assertEqual(parse_users(b"", "users").verifiers, {})

    def test_name_with_colons(self) -> None:
        users = parse_users(f"a:b c:{VERIFIER.render()}".encode(), "users")
        self.assertEqual(list(users.verifiers), ["a:b c"])

    def test_mistakes(self) -> None:
        expected = "expected SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY"
        for text, problem in (
            ("alice", "users:1: expected NAME:HASH"),
            (":$7$101$AAAA$AAAA", "users:1: expected NAME:HASH"),
            ("alice:secret", "users:1: not a hash that is known here"),
            ("a\x07:$7$101$AAAA$AAAA", "users:1: a control character in the name"),
            (f"{MOSQUITTO}\n{MOSQUITTO}", 'users:2: there is a user "bob" already'),
            (LINE.replace("256$", "512$"), "users:1: not a hash that is known here"),
            (LINE.replace("$4096", "$x"), f"users:1: {expected}"),
            (f"\n{LINE}\n{LINE}", 'users:3: there is a user "alice" already'),
            (LINE.replace("4096", "4095"), "users:1: expected from 4096 to 10000000 iterations"),
            (
                LINE.replace("4096", "99999999"),
                "users:1: expected from 4096 to 10000000 iterations",
            ),
            (LINE.replace(":AAAA", ":AAA"), "users:1: AAAAAAAAAAAAAAAAAAAAA== is not base64"),
            (LINE[: LINE.rindex(":")] + ":AAAA", "users:1: expected keys of 32 bytes"),
            ("\u00aa" + LINE, "users:1: the name is not in the form of SASLprep;"),
            ("a\x07" + LINE, "users:1: U+0007 is not allowed"),
        ):
            error = self.assertRaises(UsersFileError, parse_users, text.encode(), "users")
            self.assertTrue(str(error).startswith(problem), f"{error} is not {problem}")

    @steady
    @given(st.binary())
    def test_any_bytes(self, data: bytes) -> None:
        """Any bytes are users or a UsersFileError."""
        try:
            parse_users(data, "users")
        except UsersFileError:
            pass

    @steady
    @given(st.text(min_size=1))
    def test_any_name(self, name: str) -> None:
        """A name that may be written can be read again."""
        try:
            prepared = prepare_name(name)
        except ValueError:
            return
        users = parse_users(f"{prepared}:{VERIFIER.render()}\n".encode(), "users")
        self.assertEqual(list(users.verifiers), [prepared])


class EditTests(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.path = str(self.folder / "users")

    def test_life_of_a_user(self) -> None:
        self.assertTrue(set_user(self.path, "alice", VERIFIER))
        self.assertTrue(set_user(self.path, "bob", VERIFIER))
        other = make_verifier("other", 4096)
        self.assertFalse(set_user(self.path, "alice", other))
        self.assertFalse(set_user(self.path, "alice", other))
        self.assertEqual(read_users(self.path).verifiers, {"alice": other, "bob": VERIFIER})
        self.assertTrue(delete_user(self.path, "alice"))
        self.assertFalse(delete_user(self.path, "alice"))
        self.assertEqual(read_users(self.path).verifiers, {"bob": VERIFIER})

    def test_nothing_to_delete(self) -> None:
        self.assertFalse(delete_user(self.path, "alice"))
        self.assertFalse(os.path.exists(self.path))

    def test_new_file(self) -> None:
        """It is its owner's alone, has a secret, and nothing is left beside it."""
        set_user(self.path, "alice", VERIFIER)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.assertEqual(len(read_users(self.path).secret or b""), 32)
        self.assertEqual(os.listdir(self.folder), ["users"])

    def test_comments_and_secret_stay(self) -> None:
        Path(self.path).write_text(f"# mine\ndecoy-secret = AAAA\n{LINE}\n# end")
        set_user(self.path, "bob", VERIFIER)
        self.assertEqual(
            Path(self.path).read_text(),
            f"# mine\ndecoy-secret = AAAA\n{LINE}\n# end\nbob:{VERIFIER.render()}\n",
        )

    def test_mode_is_tightened(self) -> None:
        Path(self.path).write_text(LINE)
        os.chmod(self.path, 0o644)
        set_user(self.path, "bob", VERIFIER)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)

    def test_link_stays_a_link(self) -> None:
        (self.folder / "elsewhere").mkdir()
        os.symlink("elsewhere/users", self.path)
        set_user(self.path, "alice", VERIFIER)
        self.assertTrue(os.path.islink(self.path))
        self.assertIn("alice", read_users(str(self.folder / "elsewhere" / "users")).verifiers)

    def test_broken_file_is_left_alone(self) -> None:
        Path(self.path).write_text("nonsense")
        self.assertRaises(UsersFileError, set_user, self.path, "alice", VERIFIER)
        self.assertEqual(Path(self.path).read_text(), "nonsense")

    def test_no_folder(self) -> None:
        path = str(self.folder / "none" / "users")
        error = self.assertRaises(UsersFileError, set_user, path, "alice", VERIFIER)
        self.assertEqual(str(error), f"cannot change {path}: No such file or directory")

    def test_bad_names(self) -> None:
        for name in ("", "#a", " a", "a ", "a\nb", "\u00ad", 1025 * "a"):
            self.assertRaises(ValueError, set_user, self.path, name, VERIFIER)

    def test_at_the_same_time(self) -> None:
        """Edits wait for each other: none is lost."""
        names = [f"user-{number}" for number in range(16)]
        threads = [Thread(target=set_user, args=(self.path, name, VERIFIER)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(read_users(self.path).verifiers), set(names))


class PasswordTests(TestCase):
    def test_refused(self) -> None:
        for password in ("", "\u00ad", "a\x00b"):
            self.assertRaises(ValueError, make_verifier, password, 4096)

    def test_salts_differ(self) -> None:
        self.assertNotEqual(make_verifier("x", 4096).salt, make_verifier("x", 4096).salt)

    def test_saslprep(self) -> None:
        """The examples of RFC 4013, section 3."""
        for text, prepared in (
            ("I\u00adX", "IX"),
            ("user", "user"),
            ("USER", "USER"),
            ("\u00aa", "a"),
            ("\u2168", "IX"),
            ("a\u00a0b", "a b"),
        ):
            self.assertEqual(saslprep(text), prepared)
        for text in ("\x07", "\u06271"):
            self.assertRaises(ValueError, saslprep, text)
