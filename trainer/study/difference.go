package study

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// longest is the number of bytes above which difference names a value without showing it, such as a search space.
const longest = 80

// difference describes how a study's specification differs from the one given, by the fields that differ.
func difference(was, given json.RawMessage) string {
	var lines []string
	appendDifferences(&lines, "", was, given)
	return strings.Join(lines, "; ")
}

// appendDifferences appends a line for each field below path that differs.
func appendDifferences(lines *[]string, path string, was, given json.RawMessage) {
	if bytes.Equal(was, given) {
		return
	}
	var a, b map[string]json.RawMessage
	if json.Unmarshal(was, &a) == nil && json.Unmarshal(given, &b) == nil && a != nil && b != nil {
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			appendDifferences(lines, strings.TrimPrefix(path+"."+name, "."), a[name], b[name])
		}
		return
	}
	if path == "" || len(was) > longest || len(given) > longest {
		*lines = append(*lines, "another "+cmp.Or(path, "specification"))
		return
	}
	*lines = append(*lines, fmt.Sprintf("%s %s, not %s", path, orNone(was), orNone(given)))
}

func orNone(v json.RawMessage) string {
	if v == nil {
		return "none"
	}
	return string(v)
}
