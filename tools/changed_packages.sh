#!/usr/bin/env bash
# Prints the packages of this module whose files differ from the branch given (default: main), what
# is not committed included; all packages if none differ. A file that is not Go's belongs to the
# nearest folder above it that holds a package. With a package of envs, envs/all is one of them: it tests all environments,
# for instance their length.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
base=$(git merge-base HEAD "${1:-main}" 2>/dev/null || git rev-parse HEAD)

folders() {
	{ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | while read -r file; do
		folder=$(dirname "$file")
		until [ "$folder" = . ] || compgen -G "$folder/*.go" >/dev/null; do folder=$(dirname "$folder"); done
		[ "$folder" = . ] || echo "./$folder"
	done | sort -u
}

module=$(go list -m)
packages=()
while read -r folder; do
	# A module of its own has tests of its own.
	if package=$(go list -e -f '{{with .Module}}{{.Path}}{{end}} {{.ImportPath}}' "$folder" 2>/dev/null) && [ "${package%% *}" = "$module" ]; then
		packages+=("${package#* }")
		if [[ $folder == ./envs* ]]; then packages+=("$module/envs/all"); fi
	fi
done < <(folders)
if [ ${#packages[@]} = 0 ]; then echo ./...; else printf '%s\n' "${packages[@]}" | sort -u; fi
