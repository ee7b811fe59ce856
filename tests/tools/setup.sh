# What ./check and ./quickstart have in common; to be sourced. It gets the machine ready (Debian 12 or 13), builds into
# build-auto/, and sees to it that nothing is left running.
#
# Sets: top (the source folder), build, pg_config, major, bindir (the private installation's executables)

set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
build=$top/build-auto
progress=$build/log
packages_log=$progress/packages.out

say()  { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
# nothing may end without a sentence
set -E
trap 'printf "%s: line %s of %s failed: %s\n" "${0##*/}" "$LINENO" "${BASH_SOURCE[0]##*/}" "$BASH_COMMAND" >&2' ERR

# Servers refuse to run as root: "${as[@]}" COMMAND... runs it as the user that they run as.
as=()
if [[ $EUID -eq 0 ]]; then as=(setpriv --reuid=postgres --regid=postgres --init-groups --); fi

# as_root COMMAND...
as_root() {
	if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

is_installed() {
	[[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true) == installed ]]
}

# The major version to build against: that of $PG_CONFIG, else the newest that is here with its development files, else
# the newest that is here without them, else the one that Debian's package "postgresql" stands for.
choose_major() {
	local candidate dir
	if [[ -n ${PG_CONFIG:-} ]]; then
		"$PG_CONFIG" --version >/dev/null 2>&1 || fail "PG_CONFIG is $PG_CONFIG, which does not run"
		"$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/'
		return
	fi
	for candidate in 18 17 16 15; do
		dir=/usr/lib/postgresql/$candidate
		if [[ -x $dir/bin/postgres && -x $dir/bin/pg_config && -d /usr/include/postgresql/$candidate/server ]]; then
			echo $candidate; return
		fi
	done
	for candidate in 18 17 16 15; do
		if [[ -x /usr/lib/postgresql/$candidate/bin/postgres ]]; then echo $candidate; return; fi
	done
	{ apt-cache depends postgresql 2>/dev/null || true; } | sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p;T;q'
}

apt() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >>"$packages_log" 2>&1
}

# Debian's postgresql-NN makes and starts a cluster when it is first installed. Nobody asked for one here, so that is
# switched off meanwhile, in the way that Debian has for it.
without_cluster() {
	local conf=/etc/postgresql-common/createcluster.conf saved status=0
	apt install --no-install-recommends postgresql-common || return
	saved=$(cat $conf)
	{ grep -v '^ *create_main_cluster' <<<"$saved" || true; echo 'create_main_cluster = false'; } | as_root tee $conf >/dev/null
	"$@" || status=$?
	as_root tee $conf <<<"$saved" >/dev/null
	return $status
}

install_packages() {
	local wanted=(g++ meson ninja-build pkg-config python3 perl binutils diffutils util-linux
		libgtest-dev nlohmann-json3-dev libpq-dev libipc-run-perl)
	local missing=() p
	mkdir -p "$progress" 2>/dev/null && [[ -w $progress ]] ||
		fail "$build cannot be written to; remove it, or copy this folder to where you may write"
	: >"$packages_log"

	if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
		for p in g++ meson ninja python3 perl "${PG_CONFIG:-pg_config}"; do
			command -v "$p" >/dev/null || fail "this is not a Debian system and $p is missing; install it and start again"
		done
		major=$(PG_CONFIG=${PG_CONFIG:-pg_config} choose_major)
		return
	fi

	major=$(choose_major)
	if [[ -z $major ]]; then
		say "reading the package lists"
		become_root_or_fail "no PostgreSQL is here and the package lists must be read"
		apt update || fail_with_log "apt-get update failed"
		major=$(choose_major)
		[[ -n $major ]] || fail "apt knows no package postgresql; is there a Debian mirror in /etc/apt?"
	fi
	((major >= 15 && major <= 19)) || fail "PostgreSQL $major is not supported, 15 to 19 are"
	[[ -n ${PG_CONFIG:-} ]] || wanted+=("postgresql-$major" "postgresql-server-dev-$major")

	for p in "${wanted[@]}"; do
		is_installed "$p" || missing+=("$p")
	done
	if ((${#missing[@]})); then
		say "installing ${missing[*]}"
		become_root_or_fail "these packages are missing: ${missing[*]}"
		apt update || fail_with_log "apt-get update failed"
		if [[ " ${missing[*]} " == *" postgresql-$major "* ]]; then
			without_cluster apt install --no-install-recommends "${missing[@]}" || fail_with_log "apt-get install failed"
		else
			apt install --no-install-recommends "${missing[@]}" || fail_with_log "apt-get install failed"
		fi
	fi
}

become_root_or_fail() {
	[[ $EUID -eq 0 ]] && return
	if command -v sudo >/dev/null; then
		if sudo -n true 2>/dev/null; then return; fi
		if [[ -t 0 ]] && sudo -v; then return; fi
	fi
	fail "$1, and installing needs root or sudo"
}

fail_with_log() {
	tail -15 "$packages_log" >&2
	fail "$1; what it said last is above, all of it is in $packages_log"
}

# Root's servers run as user postgres, who may be unable to enter this folder (/root, say). Then everything is done in a
# copy that is removed at the end.
work_where_servers_can_read() {
	local copy status=0
	if "${as[@]}" test -r "$top/meson.build" -a -x "$top"; then return; fi
	say "user postgres cannot read $top; working in a copy of it"
	copy=$(mktemp -d /tmp/schemasync.XXXXXX)
	trap 'rm -rf "$copy"' EXIT
	chmod 755 "$copy"
	tar -C "$top" --exclude=.git --exclude='./build*' -cf - . | tar -C "$copy" -xf -
	"$copy/${0##*/}" "$@" || status=$?
	exit $status
}

# Ends the servers whose data directories lie in the folder given.
end_servers() {
	local file pid tries
	[[ -d $1 ]] || return 0
	for tries in 1 2 3 4 5 6 7 8 9 10; do
		local found=0
		while IFS= read -r file; do
			pid=$(head -1 "$file" 2>/dev/null) || continue
			[[ $pid =~ ^[0-9]+$ && $(readlink "/proc/$pid/cwd" 2>/dev/null) == "${file%/postmaster.pid}" ]] || continue
			found=1
			kill -QUIT "$pid" 2>/dev/null || true
		done < <(find "$1" -name postmaster.pid 2>/dev/null)
		((found)) || return 0
		sleep 0.5
	done
}

# build_targets TARGET...: builds them into build-auto and makes the private installation; warnings are counted in $warnings.
build_targets() {
	local pg
	pg=${PG_CONFIG:-/usr/lib/postgresql/$major/bin/pg_config}
	[[ -n ${PG_CONFIG:-} || -x $pg ]] || pg=pg_config
	say "building against $("$pg" --version)"
	# what another machine or an older checkout left may not be fit to go on with
	if ! { [[ -f $build/build.ninja ]] && meson setup --reconfigure "$build" "$top" -Dpg_config="$pg" -Dsanitize=true >/dev/null 2>&1; }; then
		find "$build" -mindepth 1 -maxdepth 1 ! -path "$progress" -exec rm -rf {} +
		if ! meson setup "$build" "$top" -Dpg_config="$pg" -Dsanitize=true >"$progress/setup.out" 2>&1; then
			tail -15 "$progress/setup.out" >&2
			fail "the build could not be configured; what meson said last is above"
		fi
	fi
	if ! ninja -C "$build" tests/temp_install.stamp "$@" >"$progress/build.out" 2>&1; then
		grep -E -A8 'FAILED|error:' "$progress/build.out" | head -60 >&2
		fail "the build failed; the whole output is in $progress/build.out"
	fi
	warnings=$(grep -c 'warning:' "$progress/build.out" || true)
	bindir=$build/tests/root$("$pg" --bindir)
	[[ -x $bindir/postgres ]] || fail "the private installation in $build/tests/root is incomplete"
}
