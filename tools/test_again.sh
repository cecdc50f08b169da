#!/usr/bin/env bash
# Runs Go tests that depend on real servers or a browser. A test that fails runs once more, and the last
# line says so; none does if more than two fail, or one panics or runs out of time.
#
#   tools/test_again.sh PACKAGES [argument of go test ...]
#
# PACKAGES is a list in one argument. GO names the go command.
set -euo pipefail

packages=$1
shift
go=$(command -v "${GO:-go}")
report=$(mktemp)
trap 'rm -f "$report"' EXIT
code=0
PATH=$(dirname "$go"):$PATH "$go" run gotest.tools/gotestsum@v1.13.0 --format standard-verbose \
	--rerun-fails=1 --rerun-fails-max-failures=2 --rerun-fails-run-root-test --rerun-fails-report "$report" \
	--packages "$packages" -- "$@" || code=$?
sed 's/^/== failed, and ran again: /' "$report"
exit $code
