package configuration

import (
	"fmt"
	"path/filepath"
	"strings"

	"shuultuur/admin/backup"
	"shuultuur/lib/setting"
)

// Paths returns the files and folders that settings in the folder dir name, to read or to write. It
// suffices that they were read ([setting.Read]).
func (s *Settings) Paths(dir string) []string {
	c := *s
	if c.Data == "" {
		c.Data = setting.Folder(filepath.Join(dir, "data"))
	}
	return append(setting.Paths(s), c.written()...)
}

// written returns the files and folders that the gateway writes besides its data folder.
func (s *Settings) written() []string {
	all := s.logs()
	add := func(name string) {
		if name != "" && !strings.Contains(name, "://") {
			all = append(all, setting.Path(string(s.Data), name))
		}
	}
	add(s.State.File)
	if s.Votes != nil {
		add(s.Votes.Store)
	}
	return all
}

// Apart refuses logs in place of other files: what the settings name, what belongs to the settings,
// and what the gateway keeps in its data folder.
func (s *Settings) Apart() error {
	taken := map[string]bool{filepath.Clean(s.Text.File): true}
	for _, path := range append(setting.Paths(s), s.unnamed()...) {
		taken[filepath.Clean(path)] = true
	}
	for _, log := range s.eventLogs() {
		if taken[filepath.Clean(log)] {
			return setting.At("events", fmt.Errorf("%s is named elsewhere, or belongs to the settings: name another file", log))
		}
		rel, err := filepath.Rel(string(s.Data), log)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		if what := backup.Kept(filepath.ToSlash(rel)); what != "" {
			return setting.At("events", fmt.Errorf("%s is where the gateway keeps %s: name another file", log, what))
		}
	}
	return nil
}
