package configuration

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"shuultuur/admin/backup"
	"shuultuur/admin/hook"
	"shuultuur/intercept"
	"shuultuur/lib/setting"
	"shuultuur/zone/sign"
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
				base := sign.Base(string(key))
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
	b, err := backup.Read(r)
	if err != nil {
		return nil, err
	}
	return PutBack(b, file)
}

// PutBack is Restore for a backup that was read.
func PutBack(b *backup.Backup, file string) (names []string, err error) {
	s, err := Parse(file, b.Text())
	if err != nil {
		return nil, err
	}
	return b.Restore(file, s.place())
}

// Unpacked returns the settings of a backup that is to be restored as file, with the files that the
// backup has in the folder dir instead of their places: to check it before anything is written.
func Unpacked(b *backup.Backup, file, dir string) (*Settings, error) {
	s, err := Parse(file, b.Text())
	if err != nil {
		return nil, err
	}
	if err := errors.Join(b.Unpack(dir), os.MkdirAll(filepath.Join(dir, "data"), 0o700)); err != nil {
		return nil, fmt.Errorf("unpacking the backup for a check: %w", err)
	}
	place := s.place()
	setting.Move(s, func(path string) string {
		if rel, err := filepath.Rel(place.Data, path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(dir, "data", rel)
		}
		return standIn(path, place.Dir, filepath.Join(dir, "files"))
	})
	s.Data = setting.Folder(filepath.Join(dir, "data"))
	return s, nil
}

// StandIns has the settings read the files in a folder in place of those of the same names beside them:
// to check files before they take their places.
func (s *Settings) StandIns(folder string) {
	setting.Move(s, func(path string) string { return standIn(path, s.Dir, folder) })
}

// standIn returns the path in a folder that takes the place of one below dir, or path if there is none.
func standIn(path, dir, folder string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		to := filepath.Join(folder, rel)
		if _, err := os.Stat(to); err == nil {
			return to
		}
	}
	return path
}

// listens are the keys under which addresses of the machine are.
var listens = []string{"listen", "dns.listen", "dns.tls", "dns.https", "dns.quic", "dns.http", "votes.listen", "cache.peers.listen"}

// Elsewhere returns the addresses on which settings listen and which this machine does not have.
func Elsewhere(text []byte) (all []netip.Addr, err error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("asking for the addresses of this machine: %w", err)
	}
	values, err := setting.Values(text, listens...)
	for _, s := range values {
		a, err := netip.ParseAddrPort(s)
		ip := a.Addr().Unmap().WithZone("")
		mine := func(n net.Addr) bool {
			p, err := netip.ParsePrefix(n.String())
			return err == nil && p.Addr().Unmap().WithZone("") == ip
		}
		if err == nil && !ip.IsUnspecified() && !ip.IsLoopback() && !slices.Contains(all, ip) && !slices.ContainsFunc(own, mine) {
			all = append(all, ip)
		}
	}
	return all, err
}

// Readdress returns settings for a machine with the address to: it stands for the address of the other
// machine wherever that is written. Without that, they stay as they are.
func Readdress(text []byte, to string) ([]byte, error) {
	elsewhere, err := Elsewhere(text)
	if err != nil || to == "" || len(elsewhere) == 0 {
		return text, err
	}
	a, err := netip.ParseAddr(to)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not an address of this machine; write it like 192.0.2.1", to)
	case len(elsewhere) > 1:
		return nil, fmt.Errorf("the settings listen on several addresses that this machine does not have (%v), so that one cannot stand for all: restore them as they are, and change them", elsewhere)
	case a.Is4() != elsewhere[0].Is4():
		return nil, fmt.Errorf("the settings listen on %v, and %v is of the other family", elsewhere[0], a)
	}
	old := regexp.MustCompile(`(^|[^0-9A-Za-z:.])` + regexp.QuoteMeta(elsewhere[0].String()) + `($|[^0-9A-Za-z.:]|[:.](?:[^0-9A-Fa-f]|$)|:[0-9]{1,5}(?:[^0-9A-Fa-f:.]|$))`)
	out := old.ReplaceAll(text, []byte("${1}"+a.String()+"${2}"))
	return old.ReplaceAll(out, []byte("${1}"+a.String()+"${2}")), nil // those that share a separator
}

func (s *Settings) place() backup.Place {
	return backup.Place{Dir: s.Dir, Data: string(s.Data)}
}
