#!/usr/bin/env bash
# Builds a release for six platforms into dist/: archives, .deb, .rpm, npm packages, Python wheels and a
# container image, with checksums, an SBOM, manual pages, completions and a Homebrew formula: make release VERSION=v1.2.3
# HEAD must have the tag VERSION, and CHANGELOG.md a section of it.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
version=${1:?usage: release.sh VERSION}
fail() { echo "release.sh: $*" >&2; exit 1; }
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$version is no version such as v1.2.3"
# All demands at once, the tag last, because it is made when the others are met.
demands=0
demand() { echo "release.sh: $*" >&2; demands=1; }
for tool in go git tar gzip zip sha256sum; do
  command -v $tool > /dev/null || demand "there is no program $tool"
done
[ "$(sed -n 's/^## //p' CHANGELOG.md | head -1 | cut -d' ' -f1)" = "$version" ] || demand "the first section of CHANGELOG.md is not '## $version'"
awk '/^## / {n++} n == 1' CHANGELOG.md | grep -qxF '**Upgrade**' || demand "the first section of CHANGELOG.md has no paragraph **Upgrade**, which says what a user must do"
[ -z "$(git status --porcelain --untracked-files=no)" ] || demand "files were changed since the commit"
git tag --points-at HEAD | grep -qxF "$version" || demand "the commit has no tag $version; make it with: git tag $version"
[ $demands = 0 ] || exit 1
out=dist
rm -rf "$out" && mkdir -p "$out/completions" "$out/man"
export CGO_ENABLED=0

# build DIR [SUFFIX] builds both programs into a directory. They contain the time zones, which
# Windows and the image lack.
build() {
  go build -tags timetzdata -trimpath -buildvcs=true -ldflags "-s -w" -o "$1/stevedore${2:-}" ./cmd/stevedore
  go build -tags timetzdata -trimpath -buildvcs=true -ldflags "-s -w" -o "$1/stevedore-heartbeat${2:-}" ./cmd/heartbeat
}

build "$out/host"
said=$("$out/host/stevedore" version | cut -d' ' -f2)
[ "v$said" = "$version" ] || fail "the program says version $said"
for program in stevedore stevedore-heartbeat; do
  for shell in bash zsh fish powershell; do
    "$out/host/$program" completion $shell > "$out/completions/$program.$shell"
  done
done

# manual PROGRAM PURPOSE makes a manual page of Markdown.
manual() {
  { printf '%% %s 1 "" "Stevedore %s" "Commands"\n\n# NAME\n\n%s - %s\n\n' "${1^^}" "$version" "$1" "$2" && cat; } > "$out/man/$1.md"
  go run github.com/cpuguy83/go-md2man/v2@v2.0.7 -in "$out/man/$1.md" -out "$out/man/$1.1"
  gzip -9n "$out/man/$1.1" && rm "$out/man/$1.md"
}
sed -n 's/^## /# /; /^# stevedore$/,$p' docs/reference.md | manual stevedore "run the tools of LLM agents in workers"
{ echo '```' && "$out/host/stevedore-heartbeat" --help && echo '```'; } | manual stevedore-heartbeat "send HEARTBEAT.md to an agent from time to time"

# The modules of the programs with their versions and licences.
host=$PWD/$out/host
(cd integration/deploy/release/sbom && go run . "$host/stevedore" "$host/stevedore-heartbeat") > "$out/stevedore.cdx.json"

for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do
  os=${platform%/*} arch=${platform#*/}
  name=stevedore_${version#v}_${os}_${arch}
  mkdir -p "$out/$name"
  suffix=
  if [ "$os" = windows ]; then suffix=.exe; fi
  GOOS=$os GOARCH=$arch build "$out/$name" "$suffix"
  # What the README and the pages name; a test compares them.
  git archive HEAD README.md CHANGELOG.md LICENSE SECURITY.md docs integration/README.md integration/deploy integration/hosts integration/node integration/python bus/agents/example_test.go |
    tar -x -C "$out/$name"
  cp -r "$out/completions" "$out/man" "$out/$name/"
  if [ "$os" = linux ]; then
    mkdir -p "$out/linux" && cp "$out/$name"/stevedore* "$out/linux/" # nfpm.yaml names it
    sed 's#/usr/local/bin/#/usr/bin/#' integration/deploy/systemd/stevedore.service > "$out/linux/stevedore.service"
    : > "$out/linux/stevedore.key"
    for format in deb rpm; do
      ARCH=$arch VERSION=${version#v} go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4 \
        package -f integration/deploy/release/nfpm.yaml -p $format -t "$out/"
    done
  fi
  if [ "$os" = windows ]; then
    (cd "$out" && zip -qr "$name.zip" "$name")
  else
    tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime='2000-01-01 UTC' -czf "$out/$name.tar.gz" "$name"
  fi
done
dist=$PWD/$out
(cd integration/deploy/release/image && go run . "$version" "$dist/stevedore_${version#v}_image.tar" "$dist/stevedore_${version#v}_linux_amd64" "$dist/stevedore_${version#v}_linux_arm64")
go run ./integration/deploy/release/packages "$version" "$out" "$out"/stevedore_*_*/
rm -r "$out"/stevedore_*_*/ "$out/host" "$out/linux"
# The release on GitHub has all files in one folder.
(cd "$out" && sha256sum -- *.tar.gz *.tar *.zip *.deb *.rpm npm/* python/* stevedore.cdx.json | sed -E 's#  (npm|python)/#  #' > checksums.txt)

sum() { awk -v f="stevedore_${version#v}_$1.tar.gz" '$2 == f {print $1}' "$out/checksums.txt"; }
url="https://github.com/stevedore-bus/stevedore/releases/download/$version/stevedore_${version#v}"
cat > "$out/stevedore.rb" <<FORMULA
class Stevedore < Formula
  desc "Durable calls of the tools of LLM agents, on NATS"
  homepage "https://github.com/stevedore-bus/stevedore"
  version "${version#v}"
  license "MIT"

  on_macos do
    on_arm { url "${url}_darwin_arm64.tar.gz"; sha256 "$(sum darwin_arm64)" }
    on_intel { url "${url}_darwin_amd64.tar.gz"; sha256 "$(sum darwin_amd64)" }
  end
  on_linux do
    on_arm { url "${url}_linux_arm64.tar.gz"; sha256 "$(sum linux_arm64)" }
    on_intel { url "${url}_linux_amd64.tar.gz"; sha256 "$(sum linux_amd64)" }
  end

  def install
    bin.install "stevedore", "stevedore-heartbeat"
    man1.install Dir["man/*"]
    bash_completion.install "completions/stevedore.bash" => "stevedore"
    zsh_completion.install "completions/stevedore.zsh" => "_stevedore"
    fish_completion.install "completions/stevedore.fish"
  end

  test do
    system bin/"stevedore", "version"
  end
end
FORMULA
ls -l "$out"
