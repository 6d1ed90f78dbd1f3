#!/bin/sh
# Prepares this directory: .venv with the packages of requirements.lock, and tmux. Idempotent, quick the second
# time, never asks anything. `setup.sh venv [DIRECTORY]` makes the environment alone, there; `setup.sh browser` adds
# Chromium. `setup.sh postgres` installs the database server of the fleet's tests, `setup.sh sshd` puts an sshd for them
# into .venv, `setup.sh tmux-build` installs what tmux is built with, and nothing else. PYTHON=... chooses the interpreter. On CI strace is installed too, for the tests that
# make system calls fail; they are skipped where there is none.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
[ "${1:-}" != venv ] || venv=${2:-.venv}

fail() {
    echo "setup: $1" >&2
    exit 1
}

# Whether this may install Debian packages without a password; sets what to begin such a command with.
may_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then
        as_root="env"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo -n env"
    else
        return 1
    fi
}

# Installs Debian packages where that needs no password; fails quietly where it may not.
apt_install() {
    may_install || return 1
    echo "setup: installing $* with apt-get"
    $as_root DEBIAN_FRONTEND=noninteractive apt-get -qq update </dev/null >&2 || true
    $as_root DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" </dev/null >&2
}

is_recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if command -v "$candidate" >/dev/null 2>&1 && is_recent "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    [ -w . ] || fail "cannot write to $(pwd); set it up as the user who owns it"
    python=$(find_python) || fail "needs Python 3.11 or newer; install it, or name it: PYTHON=/path/to/python3 make setup"
    echo "setup: making $venv with $("$python" --version 2>&1)"
    rm -rf "$venv"
    if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
        rm -rf "$venv"
        version=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        apt_install "$version" || apt_install python3-venv ||
            fail "$python cannot make virtual environments; install its venv module (Debian: apt-get install $version)"
        "$python" -m venv "$venv" || fail "$python cannot make a virtual environment"
    fi
}

install_packages() {
    # The path belongs to it: scripts of a moved environment point to the old place.
    wanted=$({ pwd; cat requirements.lock pyproject.toml; } | cksum)
    if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/setup-stamp" 2>/dev/null)" = "$wanted" ] &&
        is_recent "$venv/bin/python"; then
        return
    fi
    make_venv
    echo "setup: installing the locked packages"
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0
    "$venv/bin/python" -m pip install --quiet --require-hashes -r requirements.lock </dev/null ||
        fail "the packages of requirements.lock could not be installed; see pip's message above"
    "$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation -e . </dev/null ||
        fail "the project could not be installed into $venv; see pip's message above"
    # As pip does for every other package: with PYTHONDONTWRITEBYTECODE each daemon would compile ours for half a second.
    "$venv/bin/python" -m compileall -q orchestrator || true
    echo "$wanted" >"$venv/setup-stamp"
}

has_tmux() {
    command -v tmux >/dev/null 2>&1 || return 1
    number=$(tmux -V | sed 's/^[^0-9]*//')
    major=${number%%.*}
    minor=${number#*.}
    minor=${minor%%[!0-9]*}
    case $major in '' | *[!0-9]*) return 0 ;; esac # built from source: "tmux master"
    [ "$major" -gt 3 ] || { [ "$major" -eq 3 ] && [ "${minor:-0}" -ge 3 ]; }
}

can_build_tmux() {
    for program in cc make autoconf automake bison pkg-config; do
        command -v "$program" >/dev/null 2>&1 || return 1
    done
    pkg-config --exists libevent ncursesw
}

# A server of PostgreSQL 15 or newer, with the program that makes a cluster beside it.
has_postgres() {
    for server in "$(command -v postgres || true)" /usr/lib/postgresql/*/bin/postgres; do
        [ -x "$server" ] && [ -x "$(dirname "$(readlink -f "$server")")/initdb" ] || continue
        version=$("$server" --version 2>/dev/null | sed 's/^[^0-9]*//; s/[^0-9].*//')
        [ "${version:-0}" -ge 15 ] && return 0
    done
    return 1
}

# Debian's package starts a cluster on port 5432 when it is installed, unless this file is there by then.
install_postgres() {
    may_install || return 1
    switch=/etc/postgresql-common/createcluster.d/orchestrator.conf
    $as_root mkdir -p "${switch%/*}"
    echo "create_main_cluster = false" | $as_root tee "$switch" >/dev/null
    installed=0
    apt_install postgresql || installed=$?
    $as_root rm -f "$switch"
    return "$installed"
}

# An sshd that starts: 127 is a program that is missing, or whose libraries are.
has_sshd() {
    found=$(PATH="$PATH:/usr/sbin:/usr/local/sbin:$(pwd)/$venv/sshd/usr/sbin" command -v sshd) || return 1
    started=0
    LD_LIBRARY_PATH=$(echo "$venv"/sshd/usr/lib/*-linux-gnu*) "$found" -? >/dev/null 2>&1 || started=$?
    [ "$started" -ne 127 ]
}

# Only unpacked, for installed it would be a service of this machine. Needs no root. libwrap is the one library of it
# that a machine without services may lack.
unpack_sshd() {
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || return 1
    place=$(mktemp -d)
    unpacked=1
    for _ in 1 2; do
        if (cd "$place" && apt-get -qq download openssh-server libwrap0 </dev/null >&2) &&
            dpkg-deb -x "$place"/openssh-server_*.deb "$venv/sshd" &&
            dpkg-deb -x "$place"/libwrap0_*.deb "$venv/sshd"; then
            unpacked=0
            break
        fi
        may_install && $as_root apt-get -qq update </dev/null >&2 || break
    done
    rm -rf "$place"
    return "$unpacked"
}

if [ "${1:-}" = sshd ]; then
    has_sshd || { unpack_sshd && has_sshd; } || fail "needs sshd; install it (Debian: apt-get install openssh-server)"
    exit 0
fi
if [ "${1:-}" = postgres ]; then
    has_postgres || { install_postgres && has_postgres; } ||
        fail "needs the server of PostgreSQL 15 or newer; install it (Debian: apt-get install postgresql; macOS: brew install postgresql@17)"
    exit 0
fi
if [ "${1:-}" = tmux-build ]; then
    needed="build-essential autoconf automake bison pkg-config libevent-dev libncurses-dev"
    # shellcheck disable=SC2086  # words
    can_build_tmux || apt_install $needed || fail "to build tmux, install what Debian names: $needed"
    exit 0
fi
install_packages
if [ "${1:-}" = browser ]; then
    command -v chromium >/dev/null 2>&1 || apt_install chromium ||
        echo "setup: no chromium; the tests of the web pages fail without it" >&2
    exit 0
fi
if [ "${1:-}" != venv ] && ! has_tmux; then
    if ! { apt_install tmux && has_tmux; }; then
        fail "needs tmux 3.3 or newer; install it with the system's package manager (Debian: apt-get install tmux; macOS: brew install tmux)"
    fi
fi
if [ "${1:-}" != venv ] && [ -n "${CI:-}" ] && ! command -v strace >/dev/null 2>&1; then
    apt_install strace || echo "setup: no strace; the tests that need it are skipped"
fi
