# Sourced by the scripts of this folder: installs what a build needs and sets CRUCIBLE_PYTHON. Nothing is written into
# the clone: packages go to the system, torch to $CRUCIBLE_CACHE (default: ~/.cache/crucible), which is reused.

torch_version=2.11.0
torchvision_version=0.26.0
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${CRUCIBLE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/crucible}
venv=$cache/venv-torch-$torch_version

packages=(
  build-essential ccache cmake ninja-build pkg-config git
  clang-19 libclang-rt-19-dev lld-19 python3
  libboost-dev
  libbenchmark-dev libcli11-dev libdnnl-dev libfmt-dev libgtest-dev libgmock-dev
  libcurl4-openssl-dev libseccomp-dev libsqlite3-dev libssl-dev openssl libxxhash-dev libz3-dev libzstd-dev nlohmann-json3-dev libtomlplusplus-dev
  opencl-headers ocl-icd-libopencl1 pocl-opencl-icd spirv-tools libze1 libze-dev
)

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# step TITLE COMMAND...: runs quietly with the elapsed time; on failure shows the end of what it printed.
step() {
  local title=$1 log start=$SECONDS status=0
  shift
  log=$(mktemp)
  [ -t 2 ] && printf '  %-52s ...' "$title" >&2
  "$@" >"$log" 2>&1 </dev/null || status=$?
  [ -t 2 ] && printf '\r' >&2
  if [ "$status" -eq 0 ]; then
    printf '  %-52s %4d s\n' "$title" "$((SECONDS - start))" >&2
    rm -f "$log"
    return 0
  fi
  printf '  %-52s failed after %d s\n' "$title" "$((SECONDS - start))" >&2
  tail -n 30 "$log" >&2
  say "(the whole output is in $log)"
  return "$status"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian; crucible needs what these Debian packages hold: ${packages[*]}"
    say "going on with what is here"
    return 0
  fi
  [ "$python" = /usr/bin/python3 ] && packages+=(python3-dev python3-venv)
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! grep -q 'VERSION_ID="12"' /etc/os-release 2>/dev/null; then
    say "this is not Debian 12 (bookworm), on which crucible is tested; missing packages: ${missing[*]}"
  fi
  say "about to install ${#missing[@]} Debian packages: ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null ||
    fail "installing them needs root: run 'apt-get install ${missing[*]}' as root, then this again"
  step "reading the package lists" as_root apt-get update ||
    fail "the package lists cannot be read: is there a network? (needed: ${missing[*]})"
  step "installing Debian packages" as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" ||
    fail "the Debian packages could not be installed: ${missing[*]}"
}

# The first interpreter of version 3.11 or newer; Debian's own is preferred over others only where it is the first found.
find_python() {
  local candidate path
  for candidate in "${CRUCIBLE_BASE_PYTHON:-}" python3.11 python3 /usr/bin/python3; do
    [ -n "$candidate" ] || continue
    path=$(command -v "$candidate") || continue
    path=$("$path" -c 'import sys; print(sys.executable if sys.version_info[:2] == (3, 11) else "")' 2>/dev/null) || continue
    [ -n "$path" ] && { python=$path; [ "$(readlink -f "$path")" = /usr/bin/python3.11 ] && python=/usr/bin/python3; return 0; }
  done
  fail "Python 3.11 was not found: install it (Debian 12: apt-get install python3), or set CRUCIBLE_BASE_PYTHON"
}

install_torch() {
  local free
  if "$venv/bin/python" -c "import torch, torchvision, numpy; assert torch.__version__.split('+')[0] == '$torch_version'" 2>/dev/null; then
    return 0
  fi
  mkdir -p "$cache" || fail "the folder $cache cannot be made: set CRUCIBLE_CACHE to one that can"
  free=$(df -Pk "$cache" | awk 'NR == 2 { print int($4 / 1048576) }')
  [ "$free" -ge 12 ] || fail "torch needs 12 GiB in $cache while it is installed, and $free GiB are free: set CRUCIBLE_CACHE to a larger disk"
  say "about to install torch $torch_version and torchvision $torchvision_version from PyPI into $venv (5 GB)"
  step "making the virtual environment" "$python" -m venv --clear "$venv" ||
    fail "the virtual environment $venv could not be made with $python"
  step "installing torch" "$venv/bin/python" -m pip install --disable-pip-version-check \
    "torch==$torch_version" "torchvision==$torchvision_version" numpy setuptools ||
    fail "torch could not be installed from PyPI: is there a network?"
}

install_valgrind() {
  command -v valgrind >/dev/null && return 0
  say "about to install Debian's valgrind"
  [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || fail "installing it needs root: run 'apt-get install valgrind' as root, then this again"
  step "installing valgrind" as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends valgrind ||
    fail "valgrind could not be installed: is there a network?"
}

# Intel's OpenCL driver for processors: a second device for the tests of that backend, in an environment of its own because it
# wants the tbb of its own release.
intel_packages=(intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0 umf==1.2.0 tcmlib==1.6.0)
intel_venv=$cache/venv-intel-opencl-2026.2.0

install_intel_opencl() {
  local stamp=$intel_venv/installed
  if ! { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "${intel_packages[*]}" ]; }; then
    say "about to install ${intel_packages[*]} from PyPI into $intel_venv (0.8 GB)"
    step "making the environment of Intel's OpenCL driver" "$python" -m venv --clear "$intel_venv" ||
      fail "the virtual environment $intel_venv could not be made"
    step "installing Intel's OpenCL driver" "$intel_venv/bin/python" -m pip install --disable-pip-version-check --no-deps \
      "${intel_packages[@]}" || fail "Intel's OpenCL driver could not be installed from PyPI: is there a network?"
    printf '%s\n' "${intel_packages[*]}" >"$stamp"
  fi
  export CRUCIBLE_INTEL_OPENCL=$intel_venv/lib/libintelocl.so
}

# Servers for the tests of remote stores. nginx as its package has it, unpacked and not installed, so that no service starts; and an emulation of S3.
nginx_folder=$cache/nginx
moto_venv=$cache/venv-moto-5.2.5
moto_packages=(moto==5.2.5 boto3==1.44.8 flask==3.1.3 flask-cors==6.0.5 py-partiql-parser==0.6.3 PyYAML==6.0.4)

unpack_nginx() {
  local folder
  folder=$(mktemp -d) || return 1
  (cd "$folder" && chmod 755 . && { apt-get download nginx || { as_root apt-get update && apt-get download nginx; }; } && dpkg-deb -x nginx_*.deb unpacked) &&
    rm -rf "$nginx_folder" && mv "$folder/unpacked" "$nginx_folder"
  local status=$?
  rm -rf "$folder"
  return "$status"
}

install_servers() {
  local stamp=$moto_venv/installed
  mkdir -p "$cache"
  CRUCIBLE_NGINX=$(command -v nginx || true)
  if [ -z "$CRUCIBLE_NGINX" ] && command -v dpkg-deb >/dev/null; then
    [ -x "$nginx_folder/usr/sbin/nginx" ] || step "unpacking nginx for tests" unpack_nginx || fail "nginx could not be fetched: is there a network?"
    CRUCIBLE_NGINX=$nginx_folder/usr/sbin/nginx
  fi
  if ! { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "${moto_packages[*]}" ]; }; then
    say "about to install ${moto_packages[*]} from PyPI into $moto_venv (140 MB)"
    step "making the environment of the S3 emulation" "$python" -m venv --clear "$moto_venv" ||
      fail "the virtual environment $moto_venv could not be made"
    step "installing the S3 emulation" "$moto_venv/bin/python" -m pip install --disable-pip-version-check "${moto_packages[@]}" ||
      fail "moto could not be installed from PyPI: is there a network?"
    printf '%s\n' "${moto_packages[*]}" >"$stamp"
  fi
  export CRUCIBLE_NGINX CRUCIBLE_MOTO=$moto_venv/bin/python
}

set_up() {
  find_python
  install_packages
  install_torch
  export CRUCIBLE_PYTHON=$venv/bin/python
}

# What records models needs transformers and others: an environment of its own, beside the torch above.
models_venv=$cache/venv-models-torch-$torch_version
model_packages=(timm==1.0.31 transformers==5.23.0 diffusers==0.42.1 scipy==1.17.1)

# The environment sees torch through a .pth file, so that its 5 GB are there once.
install_models() {
  local stamp=$models_venv/installed
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "${model_packages[*]}" ] && return 0
  say "about to install ${model_packages[*]} from PyPI into $models_venv (400 MB)"
  step "making the models' environment" "$venv/bin/python" -m venv --clear "$models_venv" ||
    fail "the virtual environment $models_venv could not be made"
  echo "$venv/lib/python3.11/site-packages" >"$models_venv/lib/python3.11/site-packages/torch.pth"
  step "installing the models' libraries" "$models_venv/bin/python" -m pip install --disable-pip-version-check \
    "torch==$torch_version" "torchvision==$torchvision_version" "${model_packages[@]}" ||
    fail "the models' libraries could not be installed from PyPI: is there a network?"
  printf '%s\n' "${model_packages[*]}" >"$stamp"
}

# Compiled objects are kept beside torch, by content: another clone of the same sources compiles next to nothing.
# What a file depends on is taken from the compiler, which saves preprocessing it once more (a tenth of a first build).
use_compiler_cache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache} CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
  export CCACHE_DIR=${CCACHE_DIR:-$cache/ccache} CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-5G} CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$clone} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=${CCACHE_DEPEND-1}
}

# build PRESET [TARGET...]: configures and builds, everything or the targets. The number of jobs is bounded by memory too (3 GiB a job: torch's headers are large).
build() {
  local preset=$1 jobs memory
  shift
  jobs=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 3145728) }' /proc/meminfo)
  [ "$memory" -lt "$jobs" ] && jobs=$((memory > 0 ? memory : 1))
  use_compiler_cache
  step "configuring $preset" cmake --preset "$preset" || return 1
  step "building $preset" cmake --build --preset "$preset" -j "$jobs" ${*:+--target "$@"}
}
