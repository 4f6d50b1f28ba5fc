package configuration

import (
	"io"
	"os"
	"strings"

	"shuultuur/admin/backup"
	"shuultuur/admin/hook"
	"shuultuur/intercept"
	"shuultuur/lib/setting"
)

// Backup writes the settings in file, and the files that belong to them, to w. also are further
// files from which a gateway was built, such as included ones. It says what is in the backup.
func Backup(w io.Writer, file string, also ...string) (c backup.Contents, err error) {
	s, err := Read(file)
	if err != nil {
		return c, err
	}
	from := backup.Source{Text: s.Text.Data(), Place: s.place(), Logs: s.logs()}
	if info, err := os.Stat(file); err == nil {
		from.Mode = info.Mode()
	}
	setting.Move(s, func(path string) string {
		from.Files = append(from.Files, path)
		return path
	})
	from.Files = append(from.Files, s.unnamed()...)
	for _, path := range also { // the settings are in the backup already
		if path != file {
			from.Files = append(from.Files, path)
		}
	}
	return backup.Write(w, from)
}

// unnamed returns files that belong to the settings although these do not name them.
func (s *Settings) unnamed() []string {
	all := []string{hook.Path(s.Text.File)}
	if s.Intercept != nil && s.Intercept.Root != "" {
		all = append(all, intercept.KeyFile(string(s.Intercept.Root)))
	}
	if s.DNS != nil {
		for _, z := range s.DNS.Zones.Transfer.Sign {
			for _, key := range z.Keys { // both files of a key, whichever of the names is given
				base := strings.TrimSuffix(strings.TrimSuffix(string(key), ".key"), ".private")
				all = append(all, base+".key", base+".private")
			}
		}
	}
	return all
}

// logs returns the files and folders with events, and that of the cache: neither is in a backup.
func (s *Settings) logs() []string {
	all := s.eventLogs()
	if s.Cache != nil && s.Cache.Folder != "" {
		all = append(all, string(s.Cache.Folder))
	}
	return all
}

// eventLogs returns the files and folders with events.
func (s *Settings) eventLogs() (all []string) {
	c, err := s.Events.WithDefaults()
	if err != nil {
		c = s.Events
	}
	for _, name := range c.Places() {
		all = append(all, setting.Path(string(s.Data), name))
	}
	return all
}

// Restore restores a backup by [Backup], beside and around the settings in file, and
// returns the names of the files.
func Restore(r io.Reader, file string) (names []string, err error) {
	return backup.Restore(r, file, func(text []byte) (backup.Place, error) {
		s, err := Parse(file, text)
		if err != nil {
			return backup.Place{}, err
		}
		return s.place(), nil
	})
}

func (s *Settings) place() backup.Place {
	return backup.Place{Dir: s.Dir, Data: string(s.Data)}
}
