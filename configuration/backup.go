package configuration

import (
	"io"

	"shuultuur/admin/backup"
	"shuultuur/setting"
)

// Backup writes the settings in file, and the files that belong to them, to w. It returns the
// names of the files that it left out.
func Backup(w io.Writer, file string) (left []string, err error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	from := backup.Source{Text: s.Text.Data(), Place: s.place()}
	setting.Move(s, func(path string) string {
		from.Files = append(from.Files, path)
		return path
	})
	return backup.Write(w, from)
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
