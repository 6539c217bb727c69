# Sourced by the other scripts: the project's root, the packages it needs, the compiler cache.
# bash only.

project_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$project_root"
jobs="$(nproc)"

# Precompiled headers and ccache go together only with these.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"

build_packages=(g++ cmake ninja-build ccache libfmt-dev libdnnl-dev libtbb-dev libhwy-dev libmimalloc-dev
                nlohmann-json3-dev libcli11-dev libzip-dev libxxhash-dev zlib1g-dev
                liblapack-dev libblas-dev libopenmpi-dev openmpi-bin)
test_packages=(catch2 librapidcheck-dev)
# The digits that train_resnet learns; what tests/conformance compares with, beside NumPy and SciPy.
data_packages=(python3-sklearn python3-mpmath)
reference_packages=(doxygen python3)
sanitizer_packages=(clang-14 libclang-rt-14-dev llvm-14 lld-14)
format_packages=(clang-format-14)

# Prints those of the packages named that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null |
      grep -qx installed || echo "$package"
  done
}

# Installs what is missing; needs no rights where nothing is.
install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" -eq 0 ]; then return; fi
  if ! command -v apt-get >/dev/null; then
    echo "Missing packages (Debian names): ${missing[*]}; install them and run this again." >&2
    exit 2
  fi
  echo "Installing ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# configure_and_build PRESET [TARGET...]: all targets where none is named.
configure_and_build() {
  local preset="$1"
  shift
  cmake --preset "$preset" >"/dev/null"
  if [ "$#" -eq 0 ]; then set -- all; fi
  cmake --build --preset "$preset" -j "$jobs" --target "$@"
}
