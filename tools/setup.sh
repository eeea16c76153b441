# Brings a clone to the point where its own code can run. Sourced by tools/dev; says nothing when nothing is to do.
#
#   setup node   npm packages and a Node 24, left in $NODE
#   setup run    and what a sandbox needs: an OCI runtime, uidmap, ext4 tools, Go to build the runner and the launcher
#   setup test   and what the tests compare with and drive
#   setup guest  and what makes a guest with systemd

NODE_MAJOR=24
# The Go programs are static, and building them needs no C compiler.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH CGO_ENABLED=0

setup() {
  open_cache
  exec 9>"$CACHE/setup.lock"
  flock -n 9 || { say 'waiting for another setup to finish'; flock 9; }
  npm_packages
  pick_node
  if [ "$1" != node ]; then
    system_packages "$1"
    build_programs
  fi
  # Whoever has QEMU can have virtual machines.
  if [ "$1" = test ] || { [ "$1" = run ] && command -v "qemu-system-$(uname -m)" >/dev/null; }; then guest_kernel; fi
  if [ "$1" = test ]; then full_kernel && gvisor; fi
  exec 9>&-
}

# Another user's clone is fine as long as nothing has to be written into it.
open_cache() {
  CACHE=$PWD/.cache
  mkdir -p "$CACHE" 2>/dev/null && [ -w "$CACHE" ] && return
  CACHE=${TMPDIR:-/tmp}/sandglass-dev-$(id -u)
  mkdir -p -m 700 "$CACHE" && [ -O "$CACHE" ] || die "cannot write to .cache or $CACHE"
}

# The copy of the lock file is written last, so an interrupted install is done again. An install by hand counts: npm writes
# its hidden lock file when it is done.
npm_packages() {
  local stamp=node_modules/.sandglass-lock
  cmp -s package-lock.json $stamp && return
  if [ ! -e $stamp ] && [ node_modules/.package-lock.json -nt package-lock.json ]; then
    cp package-lock.json $stamp && return
  fi
  command -v npm >/dev/null || die 'npm is missing: install Node.js 20 or newer with npm'
  step 'npm packages' npm ci --no-audit --no-fund --loglevel=error || die "npm ci failed; see $LOG"
  cp package-lock.json $stamp
}

pick_node() {
  local own bundled=node_modules/.bin/node
  own=$(command -v node || true)
  if [ -n "$own" ] && [ "$(major "$own")" -ge $NODE_MAJOR ]; then
    NODE=$own
  elif [ -x $bundled ] && [ "$(major $bundled)" -ge $NODE_MAJOR ]; then
    NODE=$PWD/$bundled
  else
    die "needs Node $NODE_MAJOR: npm brought none for $(uname -m), and the machine's own is ${own:-missing} $([ -z "$own" ] || "$own" -v)"
  fi
  # Node would keep its compile cache in the temporary folder, where it would stay.
  export NODE NODE_COMPILE_CACHE="$CACHE/compile"
}

major() {
  local version
  version=$("$1" -v 2>/dev/null) || version=v0
  version=${version#v}
  echo "${version%%.*}"
}

# Each line: what to look for in PATH or as a folder, the package that has it.
RUN_PACKAGES='crun|runc crun
go golang-go
newuidmap uidmap
mkfs.ext4 e2fsprogs
unshare util-linux
mount mount'
TEST_PACKAGES='crun crun
runc runc
tmux tmux
zsh zsh
fish fish
mandoc mandoc
script bsdutils
tar tar
curl curl
wget wget
mitmdump mitmproxy
mariadb mariadb-client-core
busybox busybox-static
dockerd docker.io
debootstrap debootstrap
docker-registry docker-registry
htpasswd apache2-utils
openssl openssl
qemu-img qemu-utils
mksquashfs squashfs-tools
ip iproute2
git git
xz xz-utils
sqlite3 sqlite3
mariadbd mariadb-server-core
javac default-jdk-headless
fincore util-linux-extra
chromium chromium'
# Sandboxes see /usr alone, and these are often elsewhere.
TEST_PACKAGES+='
/usr/bin/python3|/usr/local/bin/python3 python3
/usr/bin/node|/usr/local/bin/node nodejs
/usr/bin/go|/usr/local/bin/go golang-go
/usr/bin/gcc|/usr/local/bin/gcc gcc libc6-dev
/usr/bin/npm|/usr/local/bin/npm npm
/usr/bin/pip3|/usr/local/bin/pip3 python3-pip
/usr/lib/python3/dist-packages/requests python3-requests
/usr/lib/python3/dist-packages/aiohttp python3-aiohttp
/usr/lib/python3/dist-packages/grpc python3-grpcio
/usr/lib/python3/dist-packages/websockets python3-websockets'
case $(uname -m) in
  aarch64) TEST_PACKAGES+=$'\nqemu-system-aarch64 qemu-system-arm' ;;
  *) TEST_PACKAGES+=$'\nqemu-system-x86_64 qemu-system-x86' ;;
esac

GUEST_PACKAGES='mmdebstrap mmdebstrap'

system_packages() {
  local missing
  missing=$(missing_packages "$1")
  [ -z "$missing" ] && return
  if ! command -v apt-get >/dev/null; then
    say "missing, and there is no apt-get here: install $missing"
  elif [ "$(id -u)" = 0 ]; then
    apt_install '' $missing
  elif sudo -n true 2>/dev/null; then
    apt_install 'sudo -n' $missing
  else
    say "missing; run this once:  sudo apt-get install -y $missing"
  fi
}

missing_packages() {
  local table=$RUN_PACKAGES commands package name found missing=''
  [ "$1" = run ] || table+=$'\n'$TEST_PACKAGES
  [ "$1" = guest ] && table+=$'\n'$GUEST_PACKAGES
  while read -r commands package; do
    found=''
    for name in ${commands//|/ }; do
      if command -v "$name" >/dev/null || [[ $name = /* && -d $name ]]; then found=yes; fi
    done
    if [ -z "$found" ] && [[ " $missing " != *" $package "* ]]; then missing="$missing $package"; fi
  done <<<"$table"
  echo "${missing# }"
}

# apt_install SUDO PACKAGE…: the lists are brought up to date only when they are absent or turn out stale.
apt_install() {
  local sudo=$1
  shift
  local install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $*"
  if compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null && step "system packages: $*" no_services "$sudo" $install; then return; fi
  step 'package lists' $sudo apt-get -o DPkg::Lock::Timeout=300 update || say "apt-get update failed; see $LOG"
  step "system packages: $*" no_services "$sudo" $install || say "could not install $*; see $LOG"
}

# no_services SUDO COMMAND…: some packages start an engine or a server for the whole machine, which nobody asked for. policy-rc.d forbids it.
no_services() (
  policy=/usr/sbin/policy-rc.d sudo=$1
  shift
  [ -e $policy ] && exec "$@"
  trap '$sudo rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null && $sudo chmod 755 $policy
  "$@"
)

# Builds runner/bin/runner and runner/bin/launcher. Builds again when a source, the compiler or a build flag has changed.
build_programs() {
  local want
  [ -f runner/go.mod ] || return 0
  want=$(programs_digest)
  [ -x runner/bin/runner ] && [ -x runner/bin/launcher ] && [ "$(cat runner/bin/.digest 2>/dev/null)" = "$want" ] && return
  if ! command -v go >/dev/null; then
    [ -x runner/bin/launcher ] && say 'the runner is older than its source: Go is missing' || say 'cannot build the runner: Go is missing'
    return
  fi
  open_cache
  step 'runner and launcher' compile_programs bin || die "go build failed; see $LOG"
  echo "$want" >runner/bin/.digest
}

# A kernel for virtual machines, where the machine has none that can be used. It is unpacked and not installed.
guest_kernel() {
  compgen -G 'runner/bin/kernel/boot/vmlinuz-*' >/dev/null && return
  # One that is installed will do where this user may read it.
  [ -r "$(compgen -G '/boot/vmlinuz-*' | head -n 1)" ] && return
  command -v apt-get >/dev/null || { say 'no kernel for virtual machines: put one into /boot'; return; }
  open_cache
  mkdir -p runner/bin
  step 'guest kernel' fetch_kernel linux-image-cloud runner/bin/kernel || say "could not fetch a kernel for virtual machines; see $LOG"
}

# One with every driver, which tests name by its path: the one for virtual machines has no 9p.
full_kernel() {
  compgen -G '.cache/full-kernel/boot/vmlinuz-*' >/dev/null && return
  command -v apt-get >/dev/null || return 0
  open_cache
  step 'full kernel' fetch_kernel linux-image "$CACHE/full-kernel" || say "could not fetch a kernel with every driver; see $LOG"
}

# fetch_kernel FLAVOUR FOLDER: unpacked to FOLDER, which is there only when it is whole.
fetch_kernel() {
  local package folder=$CACHE/kernel
  package=$(apt-cache depends "$1-$(dpkg --print-architecture)" | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -n 1)
  [ -n "$package" ] || return 1
  rm -rf "$folder" && mkdir -p "$folder/download" &&
    (cd "$folder/download" && apt-get download "$package") &&
    dpkg -x "$folder"/download/*.deb "$folder/unpacked" &&
    mkdir "$folder/kernel" && mv "$folder/unpacked/boot" "$folder/unpacked/lib" "$folder/kernel/" &&
    rm -rf "$2" && mv "$folder/kernel" "$2" && rm -rf "$folder"
}

# Tests use it by its path, as root. What Debian 12 has is too old, so it comes from the release after.
gvisor() {
  [ -x .cache/gvisor/runsc ] && return
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
  step 'gVisor' fetch_gvisor || say "could not fetch gVisor, and nothing is tested with it; see $LOG"
}

# Signed lists of the later release, kept apart from the machine's own, from where those come.
fetch_gvisor() {
  local site folder=$CACHE/gvisor.new apt
  site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' | head -n 1)
  [ -n "$site" ] && rm -rf "$folder" && mkdir -p "$folder/lists/partial" || return 1
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site trixie main" >"$folder/sources"
  apt="apt-get -o Dir::Etc::sourcelist=$folder/sources -o Dir::Etc::sourceparts=- -o Dir::State::lists=$folder/lists -o Dir::Cache=$folder/cache"
  (cd "$folder" && $apt update && $apt download runsc && dpkg -x runsc_*.deb unpacked) &&
    mkdir -p .cache/gvisor && mv "$folder/unpacked/usr/bin/runsc" .cache/gvisor/runsc && rm -rf "$folder"
}

# For packages: a folder with both programs per architecture, under the name that Node has for it.
build_packed_programs() {
  local name
  command -v go >/dev/null || die 'cannot build the runner: Go is missing'
  open_cache
  for name in linux-x64 linux-arm64; do [ ! -f "runner/bin/$name" ] || rm "runner/bin/$name"; done
  step 'runner and launcher for x64' compile_programs bin/linux-x64 amd64 || die "go build failed; see $LOG"
  step 'runner and launcher for arm64' compile_programs bin/linux-arm64 arm64 || die "go build failed; see $LOG"
}

programs_digest() {
  local sources
  sources=(tools/setup.sh $(find runner \( -name bin -o -name testdata \) -prune -o -type f ! -name '*_test.go' ! -name '*.md' -print | sort))
  sha256sum "${sources[@]}" | sha256sum | cut -c1-32
}

# compile_programs FOLDER [GOARCH]: the rename keeps a program that is being executed intact.
compile_programs() {
  (
    cd runner && mkdir -p "$1"
    export GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOCACHE="${GOCACHE:-$OLDPWD/.cache/go}" GOARCH=${2:-$(go env GOARCH)}
    for name in runner launcher; do
      go build -buildvcs=false -trimpath -ldflags='-s -w' -o "$1/$name.$$" "./cmd/$name" && mv "$1/$name.$$" "$1/$name" || exit 1
    done
  )
}

# step NAME COMMAND…: a line before and a line with the seconds after; output goes to a log of that name.
step() {
  local name=$1 start=$EPOCHREALTIME
  shift
  LOG=${name%%:*}.log
  LOG=$CACHE/${LOG// /-}
  say "$name …"
  if "$@" >"$LOG" 2>&1 9>&-; then
    say "$name ($(elapsed "$start") s)"
  else
    say "$name failed ($(elapsed "$start") s)"
    tail -n 15 "$LOG" >&2
    return 1
  fi
}

elapsed() {
  local now=$EPOCHREALTIME
  local tenths=$(((${now/[.,]/} - ${1/[.,]/}) / 100000))
  echo "$((tenths / 10)).$((tenths % 10))"
}

say() { printf 'setup: %s\n' "$1" >&2; }
die() { say "$1" && exit 1; }
