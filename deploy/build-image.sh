#!/bin/sh
# The Dockerfile's steps, for a folder as for an image: `sh deploy/build-image.sh TARGET`, where TARGET is empty or isn't there.
# Builds the package from the sources that this script lies in, and installs it there with what it needs at run time alone, in the
# versions of package-lock.json.
set -eu

sources=$(cd "$(dirname "$0")/.." && pwd)
target=${1:?where to install}
mkdir -p "$target"
target=$(cd "$target" && pwd)
if [ -n "$(ls -A "$target")" ]; then
  echo "$target is not empty" >&2
  exit 1
fi
packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT

cd "$sources"
[ -d node_modules/vite ] || npm ci --ignore-scripts --no-audit --no-fund
npm pack --loglevel=error --pack-destination "$packed"
tar -xzf "$packed"/shoal-*.tgz --strip-components=1 -C "$target"
# A package holds no lock.
cp package-lock.json "$target"
cd "$target"
# What is optional is a Node for those that have an older one.
npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund
