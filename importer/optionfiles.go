package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// optionFiles reads files of lines "key SEP value" that include each other.
type optionFiles struct {
	separator string
	// included returns the files that a line names, and whether the line is an include. dir is
	// the folder of the first file.
	included func(dir, key, value string) (files []string, is bool)
	section  func(key string) bool // reports whether a key begins a section; nil if none does

	dir  string
	seen map[string]bool
}

// eachOption calls take with the options of a file, and with those of included files in their
// place. It reads each file once.
func (o *optionFiles) eachOption(file string, take func(at place, key, value string)) error {
	if o.seen == nil {
		o.seen, o.dir = map[string]bool{}, filepath.Dir(file)
	}
	if o.seen[file] {
		return nil
	}
	if o.seen[file] = true; len(o.seen) > maxFiles {
		return fmt.Errorf("%s: more than %d files include each other", file, maxFiles)
	}
	return textLines(file, func(n int, s []byte) error {
		text, _, _ := strings.Cut(strings.ReplaceAll(string(s), "\t#", " #"), " #")
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			return nil
		}
		key, value, _ := strings.Cut(text, o.separator)
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if o.section != nil && o.section(key) && value != "" { // with an option on the same line
			take(place{file: file, line: n, what: key + o.separator}, key, "")
			text = value
			key, value, _ = strings.Cut(text, o.separator)
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		}
		take(place{file: file, line: n, what: text}, key, value)
		more, _ := o.included(o.dir, key, value)
		for _, path := range more {
			if err := o.eachOption(path, take); err != nil {
				return err
			}
		}
		return nil
	})
}

// filesOf returns the files that a pattern names.
func filesOf(dir, pattern string) (files []string) {
	for _, p := range below(dir, pattern) {
		found, _ := filepath.Glob(p)
		for _, f := range found {
			if isFile(f) {
				files = append(files, f)
			}
		}
		if len(files) > 0 {
			return files
		}
	}
	return nil
}

// unboundFiles reads the options of unbound.conf.
func unboundFiles() *optionFiles {
	section := func(key string) bool { return slices.Contains(unboundSections, key) }
	return &optionFiles{separator: ":", section: section, included: func(dir, key, value string) ([]string, bool) {
		if key != "include" && key != "include-toplevel" {
			return nil, false
		}
		return filesOf(dir, strings.Trim(value, `"`)), true
	}}
}

// dnsmasqFiles reads the options of dnsmasq.conf.
func dnsmasqFiles() *optionFiles {
	return &optionFiles{separator: "=", included: func(dir, key, value string) ([]string, bool) {
		switch key {
		case "conf-file", "servers-file":
			return filesOf(dir, value), true
		case "conf-dir":
			return confDir(dir, value), true
		}
		return nil, false
	}}
}

// confDir returns the files of a folder as dnsmasq reads them: "DIR" means all files,
// "DIR,.bak" excludes files with that end, "DIR,*.conf" selects files with that end.
func confDir(dir, value string) (files []string) {
	parts := strings.Split(value, ",")
	folder := findFile(dir, parts[0])
	all, _ := os.ReadDir(folder)
	ends := func(name string, wanted bool) bool {
		return slices.ContainsFunc(parts[1:], func(p string) bool {
			end, only := strings.CutPrefix(p, "*")
			return only == wanted && end != "" && strings.HasSuffix(name, end)
		})
	}
	chosen := slices.ContainsFunc(parts[1:], func(p string) bool { return len(p) > 1 && p[0] == '*' })
	for _, f := range all {
		name := f.Name()
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") || ends(name, false) || chosen && !ends(name, true) {
			continue
		}
		if path := filepath.Join(folder, name); isFile(path) {
			files = append(files, path)
		}
	}
	return files
}

// A yamlFile knows on which lines the values of a YAML or JSON file are.
type yamlFile struct {
	path  string
	lines map[string]int
}

// at returns the place of a value by its path.
func (f yamlFile) at(path string) place { return place{file: f.path, line: f.lines[path]} }

// placeOf returns the place of the i-th value of a list.
func (f yamlFile) placeOf(path string, i int) place { return f.at(fmt.Sprintf("%s.%d", path, i)) }

// mostLines bounds the number of values of a YAML file whose lines are recorded.
const mostLines = 1 << 18

// loadYAML reads YAML or JSON. Keys that are there twice are errors where they may have been
// written by hand: comparing each key with each takes minutes in a file of a million.
func loadYAML(data []byte, into any) error {
	return yaml.Load(data, into, yaml.WithUniqueKeys(len(data) < 1<<18))
}

// newYAMLFile finds the places of the values in a file, by path: a.b for keys,
// a.0 for values of a list.
func newYAMLFile(path string, data []byte) yamlFile {
	lines := map[string]int{}
	f := yamlFile{path, lines}
	var root yaml.Node
	if loadYAML(data, &root) != nil {
		return f // the reader of the file reports the error
	}
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		if len(lines) >= mostLines {
			return
		}
		below := strings.TrimPrefix(path+".", ".")
		switch n.Kind {
		case yaml.DocumentNode:
			for _, c := range n.Content {
				walk(c, path)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				lines[below+n.Content[i].Value] = n.Content[i].Line
				walk(n.Content[i+1], below+n.Content[i].Value)
			}
		case yaml.SequenceNode:
			for i, c := range n.Content {
				lines[fmt.Sprint(below, i)] = c.Line
				walk(c, fmt.Sprint(below, i))
			}
		}
	}
	walk(&root, "")
	return f
}
