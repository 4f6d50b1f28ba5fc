// Package build makes what an import makes: settings, lists and policies in memory, files on disk.
//
// Data moves as follows: an importer begins a [Work], fills its [Settings], gives it lists, names
// and servers, and a note for each option it has read. Lists are compiled at once, which finds the
// lines that have no effect. At the end, Work completes the settings with what all programs have in
// common, and writes them and the report. A [Plain] collects the lists and options of programs that
// have one set of lists for all clients.
package build

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/check/category"
	"shuultuur/event/record"
	"shuultuur/event/syslog"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// SettingsFile is the name of the settings file that Run writes.
const SettingsFile = "shuultuur.yaml"

// Bounds on what is made.
const (
	MaxRules    = 500     // of a policy
	MaxPattern  = 4096    // bytes of an expression in a rule
	MaxNetworks = 100_000 // of a policy, and names with addresses
	maxServers  = 1000    // addresses of a name, and servers of a domain or of all
)

// A Work is one import in progress.
type Work struct {
	Ctx     context.Context
	program string
	To      string
	Set     Settings
	Report  *report.Report
	lists   map[string]list.Config    // by name, with the path for compiling
	hosts   *string                   // name of the list of hosts that are addresses; "" if there is none
	Origin  map[string]string         // the original file of each copy
	places  map[string][]report.Place // where the lines of a converted list were written, by its path
	Decrypt bool                      // policies decrypt TLS
	First   []policy.Rule             // rules of every policy
	asks    *report.Place             // the option that has people sign in; nil if none does
	partial map[string]bool           // lists of which lines do not compile
	lost    bool                      // a list has no line that compiles
}

// New begins the import of a program's settings at a path into the folder to.
func New(ctx context.Context, program, from, to string) *Work {
	return &Work{Ctx: ctx, program: program, To: to, lists: map[string]list.Config{}, Origin: map[string]string{}, places: map[string][]report.Place{}, partial: map[string]bool{},
		Report: &report.Report{Program: program, From: from}}
}

// Write completes the settings, and writes them and the report.
func (w *Work) Write() error {
	if err := w.DemandSignIn(); err != nil {
		return err
	}
	w.Finish()
	data, err := w.Set.marshal(w.program, w.Report.From)
	if err != nil {
		return err
	}
	if err := w.Report.Write(w.To); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.To, SettingsFile), data, 0o644)
}

// Finish adds the settings that all programs have in common.
func (w *Work) Finish() {
	if len(w.Set.Lists) > 0 {
		w.Set.Checks.Category = &category.Config{}
		w.Set.Checks.Category.Lists = append(w.Set.Checks.Category.Lists, slices.Sorted(maps.Keys(w.Set.Lists))...)
	}
	if l := &w.Set.Listen; len(l.Proxy)+len(l.Transparent)+len(l.TPROXY)+len(l.ICAP) == 0 && w.Set.DNS == nil {
		w.Set.Listen.Proxy = setting.OneOrMore[setting.Address]{"127.0.0.1:8080"}
	}
	w.Set.Data = "data"
	if w.Set.Events == (record.Config{}) {
		w.Set.Events.SQLite = "events.db"
	}
}

// Create opens a file below the output folder, for a converted list.
func (w *Work) Create(name string, write func(io.Writer) error) (path string, err error) {
	path = filepath.Join(w.To, "lists", name)
	return path, newFile(path, 0o644, write)
}

// newFile writes a file that does not exist.
func newFile(path string, mode fs.FileMode, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// AddSharedRules adds the rules that all policies share.
func (w *Work) AddSharedRules() {
	for i := range w.Set.Policies {
		p := &w.Set.Policies[i]
		p.Decrypt = p.Decrypt || w.Decrypt
		p.Rules = append(slices.Clone(w.First), p.Rules...)
	}
}

// File returns a path for our settings: relative if it is below their folder.
func (w *Work) File(path string) setting.File {
	if rel, err := filepath.Rel(w.To, path); err == nil && filepath.IsLocal(rel) {
		return setting.File(rel)
	}
	return setting.File(path)
}

// Unread reports a file that is there and could not be read to its end.
func Unread(w *Work, path string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: report.Place{File: path}, What: filepath.Base(path), Why: err.Error()})
	}
}

// Lines calls take with the lines of a file, if it exists.
func (w *Work) Lines(file string, take func(at report.Place, s string)) {
	Unread(w, file, input.Lines(file, func(n int, s []byte) error {
		take(report.Place{File: file, Line: n}, string(s))
		return nil
	}))
}

// PlainURL reports whether a redirect may lead to s: a URL without placeholders that we do not
// know.
func PlainURL(s string) bool {
	s = strings.NewReplacer("{url}", "x", "{host}", "x", "{category}", "x", "{policy}", "x", "{id}", "x", "{client}", "x", "{login}", "x").Replace(s)
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && !strings.ContainsAny(s, "{}")
}

// MainPolicy returns the policy for all clients, which is made on first use.
func (w *Work) MainPolicy() *policy.Policy {
	if len(w.Set.Policies) == 0 {
		w.Set.Policies = policy.Config{{Name: "everyone"}}
	}
	return &w.Set.Policies[len(w.Set.Policies)-1]
}

// KeepRecord sets how long the record is kept.
func (w *Work) KeepRecord(d time.Duration) {
	w.Set.Events.SQLite, w.Set.Events.Keep = "events.db", setting.Duration(d)
}

// LeaveOutQueries keeps queries out of the record.
func (w *Work) LeaveOutQueries() {
	_ = w.Set.UseDNS().Server.Log.UnmarshalText([]byte("off")) // a valid text
}

// LocalLog is where log daemons accept events, if they listen.
const LocalLog = "udp://127.0.0.1:514"

// SendTo sends events to a log server.
func SendTo(w *Work, server string) *report.Note {
	e := &w.Set.Events
	switch {
	case e.Syslog == nil:
		e.SQLite, e.Syslog = "events.db", &syslog.Config{To: server}
	case e.Syslog.To != server:
		return report.ByHand("events.syslog", "one log server is sent to, "+e.Syslog.To+": have it pass events on")
	}
	if server == LocalLog {
		return report.Differs("events.syslog", "in the form of RFC 5424, by UDP: have the log daemon listen there (rsyslog: imudp), or write another address")
	}
	return report.Differs("events.syslog", "in the form of RFC 5424")
}

// HostExpression converts an expression for a host to one for host and path.
func HostExpression(v string) string {
	if all := alternatives(v); len(all) > 1 {
		for i := range all {
			all[i] = HostExpression(all[i])
		}
		return "(?:" + strings.Join(all, "|") + ")"
	}
	rest, begins := strings.CutPrefix(v, "^")
	if !begins {
		rest = "[^/]*" + rest
	}
	if r, ends := strings.CutSuffix(rest, "$"); ends {
		rest = r + "(?:/|$)"
	}
	return "^" + rest
}

// alternatives divides an expression at the bars that are in no brackets.
func alternatives(v string) (all []string) {
	depth, class, from := 0, false, 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			all, from = append(all, v[from:i]), i+1
		}
	}
	return append(all, v[from:])
}

// Tenant makes a policy restrict an application, as a field of requests does, and returns our
// name for it, or "" if there is none.
func Tenant(p *policy.Policy, field, value string) (ours string) {
	list := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	t := &p.Tenants
	microsoft := func() *policy.Microsoft {
		if t.Microsoft == nil {
			t.Microsoft = &policy.Microsoft{}
		}
		return t.Microsoft
	}
	switch strings.ToLower(field) {
	case "x-googapps-allowed-domains":
		t.Google = list
		return "tenants.google"
	case "restrict-access-to-tenants":
		microsoft().Allow = list
		return "tenants.microsoft.allow"
	case "restrict-access-context":
		microsoft().Context = value
		return "tenants.microsoft.context"
	case "x-dropbox-allowed-team-ids":
		t.Dropbox = list
		return "tenants.dropbox"
	case "youtube-restrict":
		if v := strings.ToLower(value); v == "strict" || v == "moderate" {
			p.YouTube = v
			return "youtube"
		}
	}
	return ""
}
