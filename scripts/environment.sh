# Sourced by the other scripts: makes .venv in the checkout and installs the project into it.
# `make_environment [dev,docs]` also installs what tests and documentation need; without it, what flights need.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
unset PYTHONDONTWRITEBYTECODE # where it is set, every process compiles all modules that it imports again

make_environment() {
  local python=""
  for candidate in python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python=$candidate
      break
    fi
  done
  if [ -z "$python" ] && [ ! -x .venv/bin/pip ]; then
    echo "Python 3.11 or newer is needed and none was found on PATH" >&2
    exit 1
  fi
  # Without ensurepip (Debian: python3-venv) this fails and leaves a Python without pip.
  [ -x .venv/bin/pip ] || "$python" -m venv .venv || exit 1
  # Install again only when what is to be installed has changed, or the checkout has been moved.
  local extras=${1:-} wanted
  wanted="$(cksum <pyproject.toml) $PWD"
  case "$(cat .venv/installed 2>/dev/null) " in
    "$wanted "*"$extras"*) return ;;
  esac
  echo "installing into .venv; this takes half a minute or more"
  # Half the time of an installation is the compiling of modules, most of which are never imported.
  local pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile)
  # uv takes a third of pip's time for the same.  Where it cannot be had, or does not reach what pip is set up
  # to reach, pip does it.
  local uv
  uv=$(command -v uv) || { "${pip[@]}" --target .venv/uv uv >/dev/null 2>&1 && uv=.venv/uv/bin/uv; }
  if [ -z "$uv" ] || ! "$uv" pip install --quiet --python .venv/bin/python -e ".$extras" 2>.venv/uv.log; then
    "${pip[@]}" -e ".$extras" || exit 1
  fi
  rm -rf .venv/uv
  echo "$wanted $extras" >.venv/installed
}
