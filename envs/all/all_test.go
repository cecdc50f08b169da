package all_test

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
)

// mentionsFiles finds options that read files by their descriptions.
var mentionsFiles = regexp.MustCompile(`\b(files?|folder)\b`)

// noFiles are options that speak of files and name none.
var noFiles = []string{"forecaster", "format"}

// TestFileOptions: an option that names files says so by its mark, which keeps those whom a server
// does not trust from them; its words are values that name none.
func TestFileOptions(t *testing.T) {
	marked := 0
	for _, spec := range envs.Specs() {
		if strings.HasPrefix(spec.ID, "test/") {
			continue
		}
		for _, o := range envs.DescribeOptions(spec.Options) {
			if want := mentionsFiles.MatchString(o.Doc) && !slices.Contains(noFiles, o.Name); o.File != want {
				t.Errorf("%s: option %s (%s) is marked as naming files: %v, want %v", spec.ID, o.Name, o.Doc, o.File, want)
			}
			for _, w := range o.Words {
				if _, err := spec.Open(map[string]any{o.Name: w}); err != nil {
					t.Errorf("%s: %s is %q, which is to name no file: %v", spec.ID, o.Name, w, err)
				}
			}
			if o.File {
				marked++
			}
			if o.NamesFile(o.Default) || o.NamesFile(nil) || o.NamesFile("/etc/passwd") != o.File || o.NamesFile([]any{"/etc/passwd"}) != o.File {
				t.Errorf("%s: option %s, by default %v, of which files does it name?", spec.ID, o.Name, o.Default)
			}
		}
	}
	if marked < 15 {
		t.Errorf("%d options name files, want 15 at least", marked)
	}
}

// TestOptionsAreBounded: each number says what is valid unless its bounds depend on other options, and
// the greatest value is taken where the next one is refused. So a reader, a server and a client know
// how large an environment can be asked for.
func TestOptionsAreBounded(t *testing.T) {
	depends := []string{
		"start_cpu_m", "increment_cpu_m", "size_high", "duration_high", "replicas_max", "usage_max",
		"load_start", "constrained_low", "multi_gpu", "hold", "initial_high", "max_allowed_cpu_m",
		"max_allowed_memory_mib", "node_cpu_m", "node_memory_mib", "neighbour_size_high",
	}
	for _, spec := range envs.Specs() {
		if strings.HasPrefix(spec.ID, "test/") {
			continue
		}
		for _, o := range envs.DescribeOptions(spec.Options) {
			number := o.Type == "int" || o.Type == "float"
			switch {
			case !number:
			case o.Max == nil && !slices.Contains(depends, o.Name):
				t.Errorf("%s: option %s does not say what is valid", spec.ID, o.Name)
			case o.Max != nil:
				if _, err := spec.Open(map[string]any{o.Name: *o.Max + max(1, math.Floor(*o.Max/1e6))}); !errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), o.Name+" is") {
					t.Errorf("%s: %s above %v gives %v, want an error that names it", spec.ID, o.Name, *o.Max, err)
				}
			}
		}
	}
}
