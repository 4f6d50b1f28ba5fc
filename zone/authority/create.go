//go:build !small

package authority

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/lib/atomicfile"
	"shuultuur/zone"
	"shuultuur/zone/redins"
)

// Places returns where new zones may go: a folder of the settings for zone files that
// everybody sees, "" for none, and whether Redis is another place.
func (a *Authority) Places() (folder string, redis bool) {
	return a.files.Folder(), a.redis != nil
}

// Create makes a zone with its SOA and one name server, in Redis if folder is "", else as a
// file in folder, which is made if it is missing. It returns the path of the file. Serving it
// is left to the watcher of the folder or Redis.
func (a *Authority) Create(ctx context.Context, folder string, n NewZone) (path string, err error) {
	origin := zone.Canonical(strings.TrimSpace(n.Origin))
	if n.Origin == "" || strings.Trim(origin, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || strings.HasPrefix(origin, ".") {
		return "", fmt.Errorf("%q is not the name of a zone", n.Origin)
	}
	if slices.ContainsFunc(a.Show(), func(s Summary) bool { return s.Origin == origin }) {
		return "", redins.ErrTaken
	}
	server := "ns." + origin
	if n.Server != "" {
		server = strings.TrimSuffix(zone.Canonical(n.Server), ".") + "."
	}
	inside := strings.HasSuffix("."+server, "."+origin)
	if inside != n.Address.IsValid() {
		return "", errors.New("a name server in the zone needs an address, and one elsewhere has none here")
	}
	text := fmt.Sprintf("$TTL 1h\n@ SOA %[1]s hostmaster 1 2h 30m 2w 5m\n@ NS %[1]s\n", server)
	if inside {
		typ := "AAAA"
		if n.Address.Is4() {
			typ = "A"
		}
		text += fmt.Sprintf("%s %s %s\n", server, typ, n.Address)
	}
	if folder != "" {
		path = filepath.Join(folder, strings.TrimSuffix(origin, ".")+".zone")
	}
	z, err := zone.Read(strings.NewReader(text), origin, "")
	if err != nil {
		return "", err
	}
	switch {
	case n.Trial && folder == "":
		return "", nil
	case n.Trial:
		return path, free(path)
	case folder == "":
		return "", redins.Create(ctx, a.redis, z)
	}
	return path, writeNew(path, []byte(text))
}

// Restore makes a zone from its former text, in Redis if folder is "", else as a file in
// folder, and returns the path of the file.
func (a Editor) Restore(ctx context.Context, folder, origin string, text []byte) (path string, err error) {
	origin = zone.Canonical(strings.TrimSpace(origin))
	if slices.ContainsFunc(a.zones.Show(), func(s Summary) bool { return s.Origin == origin && s.View == "" }) {
		return "", redins.ErrTaken
	}
	if folder == "" {
		if a.zones.redis == nil {
			return "", fmt.Errorf("%w in Redis: %s", ErrNoZone, origin)
		}
		return "", redins.Restore(ctx, a.zones.redis, origin, text)
	}
	path = filepath.Join(folder, strings.TrimSuffix(origin, ".")+".zone")
	return path, writeNew(path, text)
}

// writeNew writes a file that does not exist, and its folder.
func writeNew(path string, text []byte) error {
	if err := free(path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.CreateBytes(path, 0o644, text) // someone else may have made it since
}

// free returns an error if there is a file.
func free(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, errors.Join(err, fs.ErrExist))
	}
	return nil
}
