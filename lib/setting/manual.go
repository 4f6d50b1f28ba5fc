package setting

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// A Row describes a key in the manual: a row of a table with the columns key, default and
// meaning. A row with several keys applies to each.
type Row struct {
	Key, Default, Meaning string
	File                  string
	Line                  int
}

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	links  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Manual reads the tables of settings in all pages (*.md) of a manual.
func Manual(pages fs.FS) (rows []Row, err error) {
	err = fs.WalkDir(pages, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".md") {
			return err
		}
		text, err := fs.ReadFile(pages, file)
		if err != nil {
			return err
		}
		inside := false
		for i, line := range strings.Split(string(text), "\n") {
			cells := tableCells(line)
			switch {
			case slices.Equal(cells, []string{"key", "default", "meaning"}):
				inside = true
			case len(cells) == 0:
				inside = false
			case inside && strings.Trim(line, "|-: ") != "":
				if len(cells) != 3 || !quoted.MatchString(cells[0]) || cells[1] == "" || cells[2] == "" {
					return fmt.Errorf("%s:%d: a row of a table of settings needs a key in backquotes, a default (none, if there is none) and a meaning", file, i+1)
				}
				for _, k := range quoted.FindAllStringSubmatch(cells[0], -1) {
					rows = append(rows, Row{k[1], plain(cells[1]), plain(cells[2]), file, i + 1})
				}
			}
		}
		return nil
	})
	return rows, err
}

// tableCells splits a row of a table, at bars that are not escaped.
func tableCells(line string) (cells []string) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	const bar = "\x00"
	line = strings.ReplaceAll(strings.Trim(line, "|"), `\|`, bar)
	for c := range strings.SplitSeq(line, "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(c, bar, "|")))
	}
	return cells
}

// plain returns the text of a cell without markup.
func plain(cell string) string {
	return strings.ReplaceAll(links.ReplaceAllString(cell, "$1"), "`", "")
}
