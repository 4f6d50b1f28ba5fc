package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
)

// Rules come from outside, so the files that they name are only these: those beside them, to be
// read, and those in a folder of their source below [Config.Saves], to be written.

// An origin says where a rule was written.
type origin struct {
	file   string // as in messages
	source string // the archive or fetched source that contains the file, "" for one on the disk
}

// key returns the name of the source for messages: rules on the disk share their folder.
func (o origin) key() string {
	if o.source != "" {
		return o.source
	}
	dir := filepath.Dir(o.file)
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return dir
}

// folder returns the folder of the source below that of all saved datasets.
func (o origin) folder() string {
	if o.source != "" && filepath.Base(o.source) == o.source {
		return filepath.Join("sources", o.source)
	}
	return filepath.Join("local", fmt.Sprintf("%x", sha256.Sum256([]byte(o.key())))[:16])
}

// read returns a file that a rule names.
func (e *Engine) read(from origin, name string) (data []byte, err error) {
	if err := rule.CheckName(name); err != nil {
		return nil, err
	}
	at := strings.LastIndexAny(from.file, "/:") + 1
	if data, ok := e.config.Beside[from.file[:at]+path.Clean(name)]; ok {
		return data, nil
	}
	if from.source != "" {
		return nil, fmt.Errorf("%s has no file %q: %w", from.source, name, fs.ErrNotExist)
	}
	dir := filepath.Dir(from.file)
	if data, err = rule.ReadBelow(dir, name); err != nil {
		return nil, err
	}
	if full := filepath.Join(dir, filepath.FromSlash(name)); !slices.Contains(e.files, full) {
		e.files = append(e.files, full)
	}
	return data, nil
}

// saves returns where a dataset that a rule names is saved.
func (e *Engine) saves(from origin, name string) (state.Saving, error) {
	if err := rule.CheckName(name); err != nil {
		return state.Saving{}, err
	}
	if e.config.Saves == "" {
		return state.Saving{}, nil
	}
	return state.Saving{Root: e.config.Saves, File: filepath.Join(from.folder(), filepath.FromSlash(path.Clean(name)))}, nil
}

// loadScript loads a script once.
func (e *Engine) loadScript(from origin, file string) (Script, error) {
	if e.config.Scripts == nil {
		return nil, errors.New("scripts are not allowed here")
	}
	key := from.source + "\x00" + filepath.Dir(from.file) + "\x00" + file
	if s, ok := e.loaded[key]; ok {
		return s, nil
	}
	text, err := e.read(from, file)
	if err != nil {
		return nil, err
	}
	s, err := e.config.Scripts(file, text)
	if err != nil {
		return nil, err
	}
	e.loaded[key] = s
	return s, nil
}

func (e *Engine) loadTransform(from origin, arg string) (match.Transform, error) {
	parts := strings.Split(arg, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	s, err := e.loadScript(from, parts[0])
	if err != nil {
		return nil, err
	}
	return func(in []byte) ([]byte, bool) { return s.Transform(in, parts[1:]) }, nil
}

// hashes reads the list of digests for a rule.
func (e *Engine) hashes(from origin, w *rule.Word) (map[string]struct{}, error) {
	data, err := e.read(from, w.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Keyword, err)
	}
	set := map[string]struct{}{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 0 && f[0][0] != '#' {
			set[strings.ToLower(f[0])] = struct{}{}
		}
	}
	return set, nil
}
