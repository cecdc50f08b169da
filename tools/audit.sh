#!/usr/bin/env bash
# audit.sh: the licences of what programs contain, and the known vulnerabilities of what they call. For make audit.
# GO, GOVULNCHECK (the program) and VULNDB (its database: a URL or file://FOLDER; by default Go's own) are read from
# the environment. Ends with 1 if a licence is not allowed, a vulnerability is called, or the database is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
# Modules with programs, and their packages.
modules=(
	". ./server ./trainer"
	"kwok/controlplane ."
	"kwok/scheduler ."
	"kwok/vpa/upstream ."
)
failed=()
for line in "${modules[@]}"; do
	read -r folder packages <<<"$line"
	# shellcheck disable=SC2086 # packages is a list
	if table=$("$GO" run ./tools/notices -C "$folder" $packages); then
		echo "licences of $folder: $(wc -l <<<"$table") modules, all allowed"
	else
		failed+=("licences of $folder")
	fi
done
for line in "${modules[@]}"; do
	read -r folder packages <<<"$line"
	status=0
	# shellcheck disable=SC2086
	"$GOVULNCHECK" -C "$folder" ${VULNDB:+-db "$VULNDB"} $packages || status=$?
	case $status in
	0) echo "vulnerabilities of $folder: none that its programs call" ;;
	3) failed+=("vulnerabilities of $folder") ;;
	*)
		failed+=("vulnerabilities: unknown, because the check of $folder did not run to its end (see above). Where the database cannot be reached, copy it and set VULNDB=file://FOLDER")
		break
		;;
	esac
done
if [ ${#failed[@]} -gt 0 ]; then
	printf 'audit failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
