// Package version identifies the build of a program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// The linker sets these of a release: -ldflags "-X
// github.com/kubernasium/kubernasium/version.Number=1.2.3 -X ….Commit=abc -X ….Date=2030-01-02T03:04:05Z".
var (
	Number = "0.1.0-dev" // the release
	Commit string        // its commit; by default what Go has recorded
	Date   string        // the date of the commit, so that builds of one commit have equal bytes
)

// Text returns the output of the flag --version: a line each with the program and its release, its
// module and the module's version, the commit and its date, and the version of Go.
func Text(program string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return text(program, Number, info)
}

func text(program, number string, info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := "unknown: built without version control"
	if Commit != "" {
		commit = Commit + " of " + Date
	} else if revision := settings["vcs.revision"]; revision != "" {
		commit = revision + " of " + settings["vcs.time"]
		if settings["vcs.modified"] == "true" {
			commit += ", modified"
		}
	}
	return fmt.Sprintf("%s version %s\nmodule: %s %s\ncommit: %s\ngo: %s %s/%s\n",
		program, number, info.Main.Path, info.Main.Version, commit, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}
