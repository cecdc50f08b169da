// Package version identifies the build of a program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// The linker sets these in releases: -ldflags "-X github.com/kubernasium/kubernasium/version.Number=1.2.3 -X
// ….Commit=abc -X ….Date=2030-01-02T03:04:05Z".
var (
	Number = "0.1.0-dev" // the release
	Commit string        // its commit; by default the one that Go has recorded
	Date   string        // the date of the commit, so that builds of one commit have equal bytes
)

// Text returns the output of the flag --version: lines with the program and its release, the module and its
// version, the commit and its date, and the version of Go. The date is never that of the build, so that two
// builds of a commit have equal bytes.
func Text(program string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return text(program, Number, info)
}

func text(program, number string, info *debug.BuildInfo) string {
	return fmt.Sprintf("%s version %s\nmodule: %s %s\ncommit: %s\ngo: %s %s/%s\n", program, release(number, info.Main.Version),
		info.Main.Path, info.Main.Version, commit(info), info.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// release returns number, or the release that `go install module@v1.2.3` has built.
func release(number, v string) string {
	if Commit != "" || !semver.IsValid(v) || module.IsPseudoVersion(v) || semver.Build(v) != "" {
		return number
	}
	return strings.TrimPrefix(v, "v")
}

// commit returns the commit and its date: those that the linker has set, that Go has recorded in a repository,
// or that a pseudo-version names. The zip of a tagged module has neither.
func commit(info *debug.BuildInfo) string {
	if Commit != "" {
		return Commit + " of " + Date
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		text := revision + " of " + settings["vcs.time"]
		if settings["vcs.modified"] == "true" {
			text += ", modified"
		}
		return text
	}
	v := info.Main.Version
	if !module.IsPseudoVersion(v) {
		if semver.IsValid(v) {
			return "that of the tag " + v
		}
		return "unknown: built without version control"
	}
	revision, err1 := module.PseudoVersionRev(v)
	date, err2 := module.PseudoVersionTime(v)
	if err1 != nil || err2 != nil {
		return "unknown: pseudo-version " + v
	}
	return revision + " of " + date.UTC().Format(time.RFC3339)
}
