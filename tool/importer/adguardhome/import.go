// Package adguardhome imports AdGuardHome.yaml: filters and the user's rules as lists of one category,
// clients as users and policies, and the name server's settings key by key, by a table.
package adguardhome

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// config has those parts of AdGuardHome.yaml that are read. Older files have some of them
// under dns.
type config struct {
	Filters   []filterList   `yaml:"filters"`
	Allow     []filterList   `yaml:"whitelist_filters"`
	UserRules []string       `yaml:"user_rules"`
	Filtering map[string]any `yaml:"filtering"`
	DNS       map[string]any `yaml:"dns"`
	Clients   yaml.Node      `yaml:"clients"`
}

type filterList struct {
	Enabled bool   `yaml:"enabled"`
	URL     string `yaml:"url"`
	Name    string `yaml:"name"`
	ID      int64  `yaml:"id"`
}

// Import reads AdGuardHome.yaml, and the fetched lists in data/filters beside it.
func Import(w *build.Work, file string) error {
	file = input.In(file, "AdGuardHome.yaml")
	data, err := input.Whole(file)
	if err != nil {
		return err
	}
	var known map[string]any
	var cfg config
	if err := setting.LoadYAML(data, &known); err != nil {
		return err
	}
	if err := setting.LoadYAML(data, &cfg); err != nil {
		return err
	}
	lines := input.NewTree(file, data)
	allowed, err := addFilters(w, lines, "whitelist_filters", cfg.Allow, allowedCategory)
	if err != nil {
		return err
	}
	cfg.UserRules = append(cfg.UserRules, blockedHosts(cfg.DNS)...)
	own, err := addUserRules(w, lines, cfg.UserRules)
	if err != nil {
		return err
	}
	blocked, err := addFilters(w, lines, "filters", cfg.Filters, blockedCategory)
	if err != nil {
		return err
	}
	p := policy.Policy{Name: "everyone"}
	if allowed {
		p.Rules = append(p.Rules, policy.Rule{Name: "allowed", Action: "allow", Category: []string{"category/" + allowedCategory}})
	}
	if blocked || own {
		p.Rules = append(p.Rules, policy.Rule{Name: "filters", Action: "block", Category: []string{"category/" + blockedCategory}})
	}
	convertNames(w, lines, cfg)
	convertSettings(w, lines, known, &p)
	clients, err := readClients(cfg.Clients)
	if err != nil {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: lines.At("clients"), What: "clients", Why: "they cannot be read: " + err.Error()})
	}
	w.Set.Policies = append(convertClients(w, lines, clients, p), p)
	return nil
}

// addFilters makes lists of the filters under a key, and reports whether there
// are any.
func addFilters(w *build.Work, file input.Tree, key string, all []filterList, category string) (found bool, err error) {
	for i, f := range all {
		at := file.ValueAt(key, i)
		what := fmt.Sprintf("filter %q, %s", f.Name, f.URL)
		path := filepath.Join(filepath.Dir(file.Path), "data", "filters", strconv.FormatInt(f.ID, 10)+".txt")
		switch {
		case !f.Enabled:
			w.Report.Add(&report.Note{Kind: report.Default, Place: at, What: what, Why: "it is switched off"})
			continue
		case !input.IsFile(path) && input.IsURL(f.URL):
			w.Fetched(f.URL, category)
			w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: what, Ours: "lists: url", Why: "fetched when the gateway starts"})
			found = true
			continue
		case !input.IsFile(path):
			n := &report.Note{Kind: report.Lost, Place: at, What: what, Why: fmt.Sprintf("there is no %q: name the list under lists", path)}
			if n.Effect = report.Opens; category == allowedCategory {
				n.Effect = report.Closes
			}
			w.Report.Add(n)
			continue
		}
		from := path
		if category == allowedCategory {
			if path, err = allowing(w, path); err != nil {
				return false, err
			}
		}
		name, err := w.AddList(f.Name, list.Config{Path: setting.Source(path), Category: category, Match: list.Boundary, Format: list.Adblock, Subdomains: new(bool)}, report.Place{File: at.File, Line: at.Line, Text: what})
		if err != nil {
			return false, err
		}
		if name != "" && path == from {
			if err := w.KeepFetching(name, f.URL); err != nil {
				return false, err
			}
		}
		found = found || name != ""
	}
	return found, nil
}

// addUserRules makes a list from the user's rules, and reports whether
// there are any.
func addUserRules(w *build.Work, file input.Tree, rules []string) (bool, error) {
	if len(rules) == 0 {
		return false, nil
	}
	var lines []report.Place
	for i, rule := range rules {
		at := file.ValueAt("user_rules", i)
		at.Text = rule
		lines = append(lines, at)
	}
	path, err := w.OwnLines("user-rules", lines)
	if err != nil {
		return false, err
	}
	at := file.At("user_rules")
	at.Text = "user_rules"
	name, err := w.AddList("user-rules", list.Config{Path: setting.Source(path), Category: blockedCategory, Format: list.Adblock, Match: list.Boundary, Subdomains: new(bool)}, at)
	return name != "", err
}

// These are the categories of the lists. The lists of a category are one engine, because
// AdGuard Home combines its filters with the user's rules, and evaluates its allow lists before
// them.
const (
	blockedCategory = "filters"
	allowedCategory = "allowed"
)

// allowing returns the path of an allow list in which each rule names an
// allowed host. In AdGuard Home, exceptions in it allow names, too.
func allowing(w *build.Work, path string) (string, error) {
	data, err := input.Whole(path)
	if err != nil || !strings.Contains("\n"+string(data), "\n@@") {
		return path, nil // compiling the list reports the error
	}
	return w.Create("allow-"+strings.TrimSuffix(filepath.Base(path), ".txt"), func(to io.Writer) error {
		_, err := io.WriteString(to, strings.ReplaceAll("\n"+string(data), "\n@@", "\n")[1:])
		return err
	})
}

// blockedHosts returns rules for the names that AdGuard Home does not answer. It leaves
// out those that we never forward.
func blockedHosts(dns map[string]any) (rules []string) {
	for _, s := range input.Strings(dns["blocked_hosts"]) {
		if s != "version.bind" && s != "id.server" && s != "hostname.bind" && s != "" {
			rules = append(rules, s)
		}
	}
	return rules
}

// safeSearch switches SafeSearch on if one of the search engines has it on; YouTube's is a
// separate service. Only newer files name services.
func safeSearch(p *policy.Policy, services map[string]any) {
	p.SafeSearch = true
	for name, on := range services {
		if name != "enabled" && name != "youtube" && on == false {
			p.SafeSearch = false
		}
	}
	for name, on := range services {
		if name != "enabled" && name != "youtube" && on == true {
			p.SafeSearch = true
		}
	}
	if services["youtube"] != false {
		p.YouTube = "strict"
	}
}
