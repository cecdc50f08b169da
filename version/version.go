// Package version identifies the build of a program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Number is the release. The linker sets it: -ldflags "-X
// github.com/kubernasium/kubernasium/version.Number=1.2.3".
var Number = "0.1.0-dev"

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
	if revision := settings["vcs.revision"]; revision != "" {
		commit = revision + " of " + settings["vcs.time"]
		if settings["vcs.modified"] == "true" {
			commit += ", modified"
		}
	}
	return fmt.Sprintf("%s version %s\nmodule: %s %s\ncommit: %s\ngo: %s %s/%s\n",
		program, number, info.Main.Path, info.Main.Version, commit, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}
