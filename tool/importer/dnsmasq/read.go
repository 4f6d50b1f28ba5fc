// Package dnsmasq imports dnsmasq.conf and the files it includes, option by option: names, servers,
// blocked domains and the listener.
package dnsmasq

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// Files reads the options of dnsmasq.conf.
func Files() *input.OptionFiles {
	return &input.OptionFiles{Separator: "=", Included: func(dir, key, value string) ([]string, bool) {
		switch key {
		case "conf-file", "servers-file":
			return input.Glob(dir, value), true
		case "conf-dir":
			return confDir(dir, value), true
		}
		return nil, false
	}}
}

// confDir returns the files of a folder as dnsmasq reads them: "DIR" means all files,
// "DIR,.bak" excludes files with that end, "DIR,*.conf" selects files with that end.
func confDir(dir, value string) (files []string) {
	parts := strings.Split(value, ",")
	folder := input.Find(dir, parts[0])
	all, _ := os.ReadDir(folder)
	ends := func(name string, wanted bool) bool {
		return slices.ContainsFunc(parts[1:], func(p string) bool {
			end, only := strings.CutPrefix(p, "*")
			return only == wanted && end != "" && strings.HasSuffix(name, end)
		})
	}
	chosen := slices.ContainsFunc(parts[1:], func(p string) bool { return len(p) > 1 && p[0] == '*' })
	for _, f := range all {
		name := f.Name()
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") || ends(name, false) || chosen && !ends(name, true) {
			continue
		}
		if path := filepath.Join(folder, name); input.IsFile(path) {
			files = append(files, path)
		}
	}
	return files
}

func Import(w *build.Work, file string) error {
	file = input.In(file, "dnsmasq.conf")
	w.Set.UseDNS()
	o := &Options{Port: "53", Files: Files()}
	err := build.ReadOptions(w, file, o.Files, func(p *build.Plain, _ report.Place, key, value string) *report.Note {
		p.Flags = true
		return o.Option(p, key, value)
	})
	o.Listeners(w)
	if err != nil {
		return err
	}
	if err := o.Rest(w); err != nil {
		return err
	}
	if o.Port == "0" { // dnsmasq answers no queries
		w.Set.DNS = nil
	}
	return nil
}

// Rest adds the rules that are not about names in lists.
func (o *Options) Rest(w *build.Work) error {
	p := w.MainPolicy()
	if err := build.RefuseAnswers(w, p, o.bogus); err != nil {
		return err
	}
	if o.dotted {
		path, err := w.OwnLines("without-dot", []report.Place{{File: o.Files.Dir, Text: "^[^./:]+(?:/|$)"}})
		if err != nil {
			return err
		}
		made, err := w.AddList("without-dot", list.Config{Path: setting.Source(path), Category: "without-dot", Format: list.Expressions, Match: list.Boundary}, report.Place{File: o.Files.Dir, Text: "names without a dot"})
		if err != nil {
			return err
		}
		if made != "" {
			p.Rules = append(p.Rules, policy.Rule{Name: "names without a dot", Action: "block", Category: []string{"category/without-dot"}, Query: []string{"A", "AAAA"}, Answer: filter.NXDomain})
		}
	}
	if !o.everything {
		return nil
	}
	all := policy.Rule{Name: "all other names", Action: "block"}
	if len(o.open) > 0 {
		path, err := w.OwnLines("resolved", o.open)
		if err != nil {
			return err
		}
		made, err := w.AddList("resolved", build.ListOfZones(path, "resolved"), report.Place{File: o.Files.Dir, Text: "names with a server"})
		if err != nil {
			return err
		}
		if made != "" {
			all.Unless = []string{"category/resolved"}
		}
	}
	p.Rules = append(p.Rules, all)
	return nil
}
