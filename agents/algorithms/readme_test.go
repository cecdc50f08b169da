package algorithms

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestReadmes: the README beside each algorithm has the hyperparameters of its configuration with
// their defaults, and no others. Those that ppo_lstm shares with ppo stand in the first table.
func TestReadmes(t *testing.T) {
	for _, a := range slices.Concat(All, Offline) {
		folder := filepath.Base(reflect.TypeOf(a.Defaults()).Elem().PkgPath())
		text := envstest.Read(t, filepath.Join("..", folder, "README.md"))
		if n := strings.Count(text, "\n"); n > 120 {
			t.Errorf("%s: the README has %d lines, want at most 120", folder, n)
		}
		sections := regexp.MustCompile("(?m)^## Hyperparameters of ").Split(text, -1)[1:]
		got, own := map[string]string{}, false
		for i, section := range sections {
			section, _, _ = strings.Cut(section, "\n## ")
			is := strings.HasPrefix(section, "`"+a.Name+"`")
			if own = own || is; i == 0 || is {
				for name, value := range defaultsIn(section) {
					got[name] = value
				}
			}
		}
		if !own {
			t.Errorf("%s: no section \"Hyperparameters of `%s`\"", folder, a.Name)
		}
		want := map[string]string{}
		for name, value := range values(t, a.Defaults()) {
			want[name] = written(t, value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s in the README of %s (-defaults +README):\n%s", a.Name, folder, diff)
		}
	}
}

// defaultsIn returns the defaults of a table with the columns name, default and meaning; a row may
// have several names.
func defaultsIn(section string) map[string]string {
	defaults := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| ([^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range strings.Split(row[1], ", ") {
			defaults[strings.Trim(name, "`")] = row[2]
		}
	}
	return defaults
}

// written returns a default as a table has it.
func written(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.Trim(string(text), `"`), ",", ", ")
}
