package input

import (
	"fmt"
	"path/filepath"
	"strings"

	"shuultuur/tool/importer/report"
)

// OptionFiles reads files of lines "key SEP value" that include each other.
type OptionFiles struct {
	Separator string
	// included returns the files that a line names, and whether the line is an include. dir is
	// the folder of the first file.
	Included func(dir, key, value string) (files []string, is bool)
	Section  func(key string) bool // reports whether a key begins a section; nil if none does

	Dir  string
	seen map[string]bool
}

// Each calls take with the options of a file, and with those of included files in their
// place. It reads each file once.
func (o *OptionFiles) Each(file string, take func(at report.Place, key, value string)) error {
	if o.seen == nil {
		o.seen, o.Dir = map[string]bool{}, filepath.Dir(file)
	}
	if o.seen[file] {
		return nil
	}
	if o.seen[file] = true; len(o.seen) > MaxFiles {
		return fmt.Errorf("%s: more than %d files include each other", file, MaxFiles)
	}
	return Lines(file, func(n int, s []byte) error {
		text, _, _ := strings.Cut(strings.ReplaceAll(string(s), "\t#", " #"), " #")
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			return nil
		}
		key, value, _ := strings.Cut(text, o.Separator)
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if o.Section != nil && o.Section(key) && value != "" { // with an option on the same line
			take(report.Place{File: file, Line: n, Text: key + o.Separator}, key, "")
			text = value
			key, value, _ = strings.Cut(text, o.Separator)
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		}
		take(report.Place{File: file, Line: n, Text: text}, key, value)
		more, _ := o.Included(o.Dir, key, value)
		for _, path := range more {
			if err := o.Each(path, take); err != nil {
				return err
			}
		}
		return nil
	})
}
