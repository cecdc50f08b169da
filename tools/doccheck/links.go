package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A link of a document.
type link struct {
	line   int
	target string // without its anchor
	anchor string
}

// inline matches links and images. Remove inline code from the text first.
var inline = regexp.MustCompile(`\]\(\s*<?([^()\s<>]+)>?(?:\s+"[^"]*")?\s*\)`)

// blocks calls f with each line of text outside code blocks, and its number.
func blocks(text string, f func(n int, line string)) {
	fence, n, blank, code := "", 0, true, false
	for line := range strings.Lines(text) {
		n++
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
			continue
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
			continue
		}
		code = trimmed != "" && strings.HasPrefix(line, "    ") && (blank || code) && !inList(line)
		blank = trimmed == ""
		if !code {
			f(n, line)
		}
	}
}

// inList reports whether an indented line belongs to a list or table within one.
func inList(line string) bool {
	trimmed := strings.TrimSpace(line)
	return strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "* ")
}

// linksOf returns the relative links of a text.
func linksOf(text string) (all []link) {
	blocks(text, func(n int, line string) {
		for _, m := range inline.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			all = append(all, link{n, target, anchor})
		}
	})
	return all
}

// headings returns the headings of a text, including their marks.
func headings(text string) (all []string) {
	blocks(text, func(_ int, line string) {
		if strings.HasPrefix(line, "#") && strings.HasPrefix(strings.TrimLeft(line, "#"), " ") {
			all = append(all, strings.TrimSpace(line))
		}
	})
	return all
}

// anchors returns the anchors of a text's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range headings(text) {
		h = strings.TrimSpace(strings.TrimLeft(h, "#"))
		h = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(h, "$1")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, h)
		for i, s := 1, slug; all[slug]; i++ {
			slug = fmt.Sprintf("%s-%d", s, i)
		}
		all[slug] = true
	}
	return all
}

// links checks that relative links name a file of the repository, and that anchors name one of its headings.
func links(docs map[string]string, repo fs.FS) (bad []string) {
	for _, p := range slices.Sorted(maps.Keys(docs)) {
		for _, l := range linksOf(docs[p]) {
			to := p
			if l.target != "" {
				to = path.Join(path.Dir(p), l.target)
			}
			if _, err := fs.Stat(repo, to); err != nil {
				bad = append(bad, fmt.Sprintf("%s:%d: no file %s", p, l.line, to))
				continue
			}
			if text, ok := docs[to]; ok && l.anchor != "" && !anchors(text)[l.anchor] {
				bad = append(bad, fmt.Sprintf("%s:%d: no heading #%s in %s", p, l.line, l.anchor, to))
			}
		}
	}
	return bad
}
