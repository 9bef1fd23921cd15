#!/usr/bin/env bash
# Compares the packages that docs/api.md lists with those of the newest release, its own commit left
# out. An incompatible change is an error, unless the first section of CHANGELOG.md has a paragraph
# "**Changes of the Go API**", which says what to do.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
module=$(go list -m)
if ! tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' --exclude "$(git tag --points-at HEAD | head -1)" 2> /dev/null); then
  echo "api: there is no release to compare with"
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/old" && git archive "$tag" | tar -x -C "$work/old"
apidiff() { go run golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4 "$@" 2> "$work/log" || { cat "$work/log" >&2; exit 1; }; }
(cd "$work/old" && apidiff -m -w "$work/api" "$module")
apidiff -m -incompatible "$work/api" "$module" > "$work/changes"
awk -F'|' '/^\| `/ {print $2}' "$work/old/docs/api.md" | grep -o '`[a-z/]*`' | tr -d '`' > "$work/kept"
changes=$(sed -E "s#^- package $module/#- ./#" "$work/changes" | awk 'NR == FNR {kept[$0]; next} {p = $2; sub(/^\.\//, "", p); sub(/[.:].*/, "", p)} p in kept' "$work/kept" -)
if [ -z "$changes" ]; then
  echo "api: compatible with $tag"
elif awk '/^## / {n++} n == 1' CHANGELOG.md | grep -qF '**Changes of the Go API**'; then
  printf 'api: changes since %s, which CHANGELOG.md describes:\n%s\n' "$tag" "$changes"
else
  printf 'api: these changes since %s break programs. Undo them, or say in CHANGELOG.md under **Changes of the Go API** what to do:\n%s\n' "$tag" "$changes" >&2
  exit 1
fi
