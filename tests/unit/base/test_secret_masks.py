"""What a line of another program's text may show: no secret, nothing invisible, no more than asked for."""

import random
import string

import pytest

from orchestrator.base.secret_masks import masked, one_line, shown_text

S = "Zx9kQ2vB7nM4tR8w"  # what no line may show
LONG = S + "p3L6sD1fG5hJ0"

SECRETS = [
    f"API_KEY={S} make deploy",
    f"export GITHUB_TOKEN='{S}' && gh pr list",
    f'DB_PASSWORD="{S} with blanks" psql',
    f"PGPASSWORD={S} psql -h db",
    f"aws_secret_access_key = {LONG}",
    f"curl -H 'Authorization: Bearer {LONG}' https://x.example",
    f'curl -H "authorization: token {LONG}" https://x.example',
    f"curl -H 'Authorization: Basic {LONG}==' x",
    f"curl -H 'X-Api-Key: {S}' x",
    f"curl --header 'Cookie: session={S}; other={S}' x",
    f"curl -u ada:{S} https://x.example",
    f"curl --user 'ada:{S}' https://x.example",
    f"git clone https://ada:{S}@git.example/x.git",
    f"git clone https://{LONG}@git.example/x.git",
    f"psql postgres://ada:{S}@db:5432/shop",
    f"redis-cli -u redis://:{S}@cache",
    f"mysql -u root -p{S} shop",
    f"sshpass -p {S} ssh host",
    f"tool --password {S} --verbose",
    f"tool --api-key={S}",
    f"tool --client-secret '{S}'",
    f'{{"password": "{S}", "user": "ada"}}',
    f'{{\\"api_key\\": \\"{S}\\"}}',
    f"dbPassword: {S}",
    f"the token is {LONG}",
    f"bearer {LONG}",
    f"sk-{LONG}",
    f"echo sk-ant-api03-{LONG}",
    f"ghp_{LONG}{S}",
    f"github_pat_{LONG}",
    f"glpat-{LONG}",
    f"hf_{LONG}{S}",
    f"npm_{LONG}{S}",
    f"xoxb-123-{LONG}",
    f"AIza{(LONG + LONG)[:35]}",
    f"eyJhbGciOiJIUzI1NiJ9.{LONG}.{S}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{LONG}\n{LONG}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{LONG}\n{LONG}",
    f"python -c 'x' <<EOF\nSECRET={S}\nEOF",
    f"TOKEN={S};rm -rf x",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_masked(text):
    assert S not in masked(text) and "…" in masked(text)
    assert S not in one_line(text, 200) and S not in one_line("x" * 150 + " " + text, 200)


@pytest.mark.parametrize("word", [
    "passphrase", "password", "passwd", "passcode", "pwd", "secret", "token", "api_key", "apikey", "access-key",
    "private_key", "encryption_key", "signing-key", "account_key", "credential", "credentials", "client_secret",
    "auth_key", "pa\u017f\u017fword", "\u017fecret", "to\u212aen", "api-\u212aey",
])  # fmt: skip
def test_what_any_name_of_a_secret_is_given_is_masked_in_any_case(word):
    for name in (word, word.upper(), word.title()):
        assert S not in masked(f"set {name}={S} and go on")
        assert LONG not in masked(f"the {name} is {LONG}")


def test_an_access_key_is_masked():
    assert "AKIA" not in masked("aws configure set aws_access_key_id AKIAIOSFODNN7EXAMPLE")


PLAIN = [
    "touch a && echo one",
    "git commit -m 'Add the token parser'",
    "pytest tests/unit/test_tokenizer.py -k password",
    "model.generate(max_tokens=100, tokenizer=bert)",
    "cat token.txt secrets.yaml",
    "cd $(pwd) && ls -p src",
    'curl -H "X-Trace: 1" https://x.example/a?b=c',
    'TOKEN="$GITHUB_TOKEN" make',
    "TOKEN=${GITHUB_TOKEN} make",
    "git checkout 3f786850e387550fdab836ed7e6dc881de23001b",
    "git clone git@git.example:ada/x.git",
    "/home/ada/project/src/secret_masks.py",
    "docker run -p 8080:80 nginx",
    "ssh ada@host.example",
    "basic usage of the parser",
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_is_shown(text):
    assert masked(text) == text


def test_the_name_of_a_secret_and_what_follows_it_stay_readable():
    assert masked(f"API_KEY={S} make deploy") == "API_KEY=… make deploy"
    assert masked(f'{{"password": "{S}", "user": "ada"}}') == '{"password": "…", "user": "ada"}'
    assert masked(f"https://ada:{S}@git.example/x") == "https://ada:…@git.example/x"
    assert masked(f"curl -H 'Authorization: Bearer {LONG}' x") == "curl -H 'Authorization: Bearer …' x"


def test_a_line_is_one_line_that_shows_what_is_invisible():
    assert one_line("a\n\n  b\tc\r\nd", 200) == "a ⏎ b c ⏎ d"
    assert one_line("rm \u202etxt.exe\x1b[2J\u200b\x07", 200) == "rm \\u202etxt.exe\\x1b[2J\\u200b\\x07"
    assert one_line("\ud800x", 200).isprintable()
    assert one_line("日本 für", 200) == "日本 für"
    assert one_line("", 200) == ""


def test_a_long_line_is_cut_and_says_so():
    line = one_line("word " * 100, 200)
    assert len(line) <= 200 and line.endswith("…")
    assert one_line("x" * 200, 200) == "x" * 200


def test_a_secret_that_is_cut_in_half_is_not_shown():
    for length in (190, 2990, 5000):
        assert S[:8] not in one_line("-----BEGIN PRIVATE KEY-----" + "\n" * length + " TOKEN=" + LONG, 200)
        assert S[:8] not in one_line("y" * length + f" API_KEY={LONG}", 200)


def test_private_keys_one_after_the_other_are_masked_whether_they_end_or_not():
    begin, end = "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----"
    assert S[:8] not in masked(f"a {begin}{S}{begin}{S}{end} b")
    assert masked(f"a {begin}{S}\n{end} b") == "a … b"


def test_hostile_text_does_not_hang():
    chance = random.Random(3)
    for piece in ("password", "token=", "-p", "://", "a:", "Authorization:", "eyJ", "--token ", "mysql ", '"', "-"):
        text = piece * 3000
        one_line(text, 200)
        masked(text[:3000])
    # A text as long as a CLI may hand over: each of these once took half a minute.
    for piece in ("-", "-" * 64 + "token ", "-----BEGIN RSA PRIVATE KEY-----"):
        shown_text(piece * (300_000 // len(piece)))
    for _ in range(200):
        assert "\n" not in one_line("".join(chance.choice(string.printable) for _ in range(400)), 200)
