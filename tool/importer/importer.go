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
	"regexp"
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
	Names  bool                                                          // it decides about names alone
	Log    Log                                                           // in a format of [shuultuur/whatif.Source]; zero for none
}

// A Log says where a program writes its log.
type Log struct {
	Key    *regexp.Regexp // the option that names it in the configuration, as its first group
	Beside string         // its place beside the configuration
	Usual  string         // where it is if the configuration is installed and does not say
}

var (
	squidLog      = Log{Key: regexp.MustCompile(`(?m)^\s*access_log\s+(?:(?:stdio|daemon):)?(/\S+)`), Usual: "/var/log/squid/access.log"}
	e2guardianLog = regexp.MustCompile(`(?m)^\s*loglocation\s*=\s*'([^']+)'`)
	piholeLog     = Log{Key: regexp.MustCompile(`(?m)^\s*dnsmasq\s*=\s*"(/[^"]+)"`), Usual: "/var/log/pihole/pihole.log"}
	dnsmasqLog    = Log{Key: regexp.MustCompile(`(?m)^\s*log-facility\s*=\s*(/\S+)`)}
	unboundLog    = Log{Key: regexp.MustCompile(`(?m)^\s*logfile\s*:\s*"?(/[^"\s]+)`)}
)

// Programs has all programs. Help, completion and the tests that try each follow from it.
var Programs = []Program{
	{"e2guardian", "DIR", "the folder of e2guardian.conf", e2guardian.Import, nil, false, Log{e2guardianLog, "", "/var/log/e2guardian/access.log"}},
	{"dansguardian", "DIR", "the folder of dansguardian.conf", e2guardian.Import, nil, false, Log{e2guardianLog, "", "/var/log/dansguardian/access.log"}},
	{"squidguard", "FILE", "squidGuard.conf", squidguard.Import, squidguard.Rules, false, Log{}},
	{"pihole", "DIR", "the folder of gravity.db, or an archive of Teleporter", pihole.Import, pihole.Rules, true, piholeLog},
	{"adguardhome", "FILE", "AdGuardHome.yaml", adguardhome.Import, adguardhome.Rules, true, Log{Beside: "data/querylog.json"}},
	{"blocky", "FILE", "config.yml", blocky.Import, blocky.Rules, true, Log{}},
	{"unbound", "FILE", "unbound.conf, or a file it includes", unbound.Import, unbound.Rules, true, unboundLog},
	{"dnsmasq", "FILE", "dnsmasq.conf, or a file it includes", dnsmasq.Import, dnsmasq.Rules, true, dnsmasqLog},
	{"squid", "FILE", "squid.conf: its http_access lines", squid.Import, squid.Rules, false, squidLog},
	{"privoxy", "DIR", "the folder of its config, or one file of actions", privoxy.Import, privoxy.Rules, false, Log{}},
	{"technitium", "FILE", "the answer of its API to settings/get", technitium.Import, technitium.Rules, true, Log{}},
	{"nextdns", "FILE", "a profile as its API gives it", nextdns.Import, nextdns.Rules, true, Log{}},
	{"opnsense", "FILE", "config.xml", opnsense.Import, opnsense.Rules, true, Log{}},
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
	p, known := ProgramOf(program)
	if !known {
		return nil, fmt.Errorf("%q is not a program whose settings can be imported; write one of %s", program, strings.Join(Names(), ", "))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	w := build.New(ctx, program, abs, to)
	if err := cmp.Or(p.Import(w, abs), w.Report.CheckKnown()); err != nil {
		return nil, fmt.Errorf("importing %s from %q: %w", program, path, err)
	}
	return w.Report, w.Write()
}

// ProgramOf returns the program with a name.
func ProgramOf(name string) (Program, bool) {
	i := slices.Index(Names(), name)
	if i < 0 {
		return Program{}, false
	}
	return Programs[i], true
}

// NewSource reads the rules of a program at path. ok is false if they cannot be read.
func NewSource(ctx context.Context, program, path string) (s *original.Source, ok bool, err error) {
	p, known := ProgramOf(program)
	if !known || p.Rules == nil {
		return nil, false, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, true, err
	}
	if s, err = original.Read(ctx, path, p.Rules); err != nil {
		return nil, true, fmt.Errorf("reading the rules of %s: %w", program, err)
	}
	return s, true, nil
}
