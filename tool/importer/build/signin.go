package build

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/identity"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// passwordFile is the password file that an import writes, beside the settings.
const passwordFile = "passwd"

// AsksAt records that an option of the other program has people sign in.
func (w *Work) AsksAt(at report.Place) {
	if w.asks == nil {
		w.asks = &at
	}
}

// DemandSignIn has people sign in if the other program does: with a password file that lets nobody
// in if nothing that verifies them could be carried over.
func (w *Work) DemandSignIn() error {
	id := &w.Set.Identity
	switch {
	case w.asks == nil:
		return nil
	case id.Basic != nil || id.Kerberos != nil:
		w.Report.Demands = append(w.Report.Demands, fmt.Sprintf("Everybody signs in, as %s does.", w.Report.Program))
		w.asks = nil
		return nil
	}
	path := filepath.Join(w.To, passwordFile)
	err := newFile(path, 0o600, func(to io.Writer) error {
		_, err := io.WriteString(to, lockedUsers(w.Set.Policies))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrExist) { // one that is there may have people in it
		return err
	}
	id.Basic = &identity.Basic{File: w.File(path)}
	w.Report.Demands = append(w.Report.Demands, fmt.Sprintf("Everybody signs in, as with %s, but nothing that verifies passwords could be carried over. Nobody passes until %s has passwords (\"shuultuur passwd\") or identity names a directory.", w.Report.Program, path))
	w.Report.Add(&report.Note{Kind: report.Changed, Place: *w.asks, What: w.asks.Text, Ours: "identity.basic.file", Why: "sign-in is demanded, and nobody can yet: add people to " + passwordFile + " with \"shuultuur passwd\", or name ldap, radius or kerberos under identity"})
	w.asks = nil
	return nil
}

// lockedUsers returns a password file with the users that policies name, or else with one whom
// nobody is. No password fits their hashes.
func lockedUsers(policies policy.Config) string {
	users := map[string]bool{}
	for _, p := range policies {
		for _, u := range p.Users {
			if u != "" && len(u) <= 200 && !strings.ContainsFunc(u, func(r rune) bool { return r <= ' ' || r == ':' || r == '#' || r == 0x7f }) {
				users[u] = true
			}
		}
	}
	if len(users) == 0 {
		users["nobody-yet"] = true
	}
	var b strings.Builder
	b.WriteString("# Nobody knows the passwords of these users, so nobody can sign in. Set passwords, and add\n# users, with \"shuultuur passwd\".\n")
	for _, u := range slices.Sorted(maps.Keys(users)) {
		b.WriteString(u + ":" + noPassword() + "\n")
	}
	return b.String()
}

// noPassword returns a hash that no password fits.
func noPassword() string {
	salt, sum := make([]byte, 16), make([]byte, 32)
	rand.Read(salt) // never fails
	rand.Read(sum)
	return fmt.Sprintf("$argon2id$v=19$m=19456,t=2,p=1$%s$%s", base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

// Passwords returns the password file for our settings: that of the other program, or a copy in
// which those are locked whose hashes cannot be verified here. Of two lines about somebody the
// last counts. If nobody could sign in, it returns an error.
func (w *Work) Passwords(file string) (ours setting.File, locked []string, err error) {
	cfg := identity.Config{Basic: &identity.Basic{File: setting.File(file)}}
	_, whole := identity.New(cfg, identity.Parts{})
	if whole == nil {
		return w.File(file), nil, nil
	}
	data, err := input.Whole(file)
	if err != nil {
		return "", nil, err
	}
	people := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if name, _, ok := strings.Cut(line, ":"); ok && line[0] != '#' {
			people[name] = line
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(people)) {
		line := people[name]
		if identity.CheckLine(line) != nil {
			locked = append(locked, name)
			if line = name + ":" + noPassword(); identity.CheckLine(line) != nil {
				continue // nobody can have this name
			}
		}
		b.WriteString(line + "\n")
	}
	if len(locked) == len(people) {
		return "", nil, whole
	}
	path := filepath.Join(w.To, passwordFile)
	err = newFile(path, 0o600, func(to io.Writer) error {
		_, err := io.WriteString(to, b.String())
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrExist) { // one that is there may have people in it
		return "", nil, err
	}
	cfg.Basic.File = setting.File(path)
	if _, err := identity.New(cfg, identity.Parts{}); err != nil {
		return "", nil, err
	}
	return w.File(path), locked, nil
}
