// Package importer converts the settings of other filters to ours. [Programs] has a row for each,
// and each has a package of its own.
//
// Data moves as follows: [Run] has the program's package read its configuration. That makes
// settings, lists and policies with package build, which compiles every list once, as the gateway
// will, and writes all into a folder. The settings name the lists where they are, or copies of
// lists in formats that we cannot read. A [report.Report], written beside the settings as text and
// HTML, lists what was carried over, what was not and why, and every line of a list that does not
// have its apparent effect. [NewSource] reads the program's rules again, by package original, to
// compare decisions.
//
// A decision should be that of the other program, except for its faults. Where our settings
// cannot express it, the report says so; nothing is omitted silently.
package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/tool/importer/adguardhome"
	"shuultuur/tool/importer/blocky"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/dnsmasq"
	"shuultuur/tool/importer/e2guardian"
	"shuultuur/tool/importer/nextdns"
	"shuultuur/tool/importer/opnsense"
	"shuultuur/tool/importer/original"
	"shuultuur/tool/importer/pihole"
	"shuultuur/tool/importer/privoxy"
	"shuultuur/tool/importer/report"
	"shuultuur/tool/importer/squid"
	"shuultuur/tool/importer/squidguard"
	"shuultuur/tool/importer/technitium"
	"shuultuur/tool/importer/unbound"
)

// A Program is one whose settings can be imported.
type Program struct {
	Name   string
	Path   string // what its path is: DIR or FILE
	Reads  string // what is read there
	Import func(w *build.Work, path string) error
	Rules  func(s *original.Source, path string) (original.Rules, error) // nil if its rules cannot be compared with ours
}

// Programs has all programs. Help, completion and the tests that try each follow from it.
var Programs = []Program{
	{"e2guardian", "DIR", "the folder of e2guardian.conf", e2guardian.Import, nil},
	{"dansguardian", "DIR", "the folder of dansguardian.conf", e2guardian.Import, nil},
	{"squidguard", "FILE", "squidGuard.conf", squidguard.Import, squidguard.Rules},
	{"pihole", "DIR", "the folder of gravity.db, or an archive of Teleporter", pihole.Import, pihole.Rules},
	{"adguardhome", "FILE", "AdGuardHome.yaml", adguardhome.Import, adguardhome.Rules},
	{"blocky", "FILE", "config.yml", blocky.Import, blocky.Rules},
	{"unbound", "FILE", "unbound.conf, or a file it includes", unbound.Import, unbound.Rules},
	{"dnsmasq", "FILE", "dnsmasq.conf, or a file it includes", dnsmasq.Import, dnsmasq.Rules},
	{"squid", "FILE", "squid.conf: its http_access lines", squid.Import, squid.Rules},
	{"privoxy", "DIR", "the folder of its config, or one file of actions", privoxy.Import, privoxy.Rules},
	{"technitium", "FILE", "the answer of its API to settings/get", technitium.Import, technitium.Rules},
	{"nextdns", "FILE", "a profile as its API gives it", nextdns.Import, nextdns.Rules},
	{"opnsense", "FILE", "config.xml", opnsense.Import, opnsense.Rules},
}

// Names returns the names of all programs.
func Names() (all []string) {
	for _, p := range Programs {
		all = append(all, p.Name)
	}
	return all
}

// SettingsFile is the name of the settings file that Run writes.
const SettingsFile = build.SettingsFile

// Run reads the configuration of program at path and writes the settings, the converted lists
// and the report into the folder to, which it makes if necessary. It does not overwrite
// existing settings.
func Run(ctx context.Context, program, path, to string) (*report.Report, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(to, SettingsFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is there already; name another folder with -to", filepath.Join(to, SettingsFile))
	}
	i := slices.Index(Names(), program)
	if i < 0 {
		return nil, fmt.Errorf("%q is not a program whose settings can be imported; write one of %s", program, strings.Join(Names(), ", "))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	w := build.New(ctx, program, abs, to)
	if err := cmp.Or(Programs[i].Import(w, abs), w.Report.CheckKnown()); err != nil {
		return nil, fmt.Errorf("importing %s from %q: %w", program, path, err)
	}
	return w.Report, w.Write()
}

// NewSource reads the rules of a program at path. ok is false if they cannot be read.
func NewSource(ctx context.Context, program, path string) (s *original.Source, ok bool, err error) {
	i := slices.Index(Names(), program)
	if i < 0 || Programs[i].Rules == nil {
		return nil, false, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, true, err
	}
	if s, err = original.Read(ctx, path, Programs[i].Rules); err != nil {
		return nil, true, fmt.Errorf("reading the rules of %s: %w", program, err)
	}
	return s, true, nil
}
