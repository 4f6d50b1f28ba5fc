package importer

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"shuultuur/list"
)

// adGuard is what is read of AdGuardHome.yaml. Older files have some of it
// under dns.
type adGuard struct {
	Filters   []adGuardList  `yaml:"filters"`
	Allow     []adGuardList  `yaml:"whitelist_filters"`
	UserRules []string       `yaml:"user_rules"`
	Filtering map[string]any `yaml:"filtering"`
	DNS       map[string]any `yaml:"dns"`
	Clients   any            `yaml:"clients"`
}

type adGuardList struct {
	Enabled bool   `yaml:"enabled"`
	URL     string `yaml:"url"`
	Name    string `yaml:"name"`
	ID      int64  `yaml:"id"`
}

// adGuardHome reads AdGuardHome.yaml, and the lists it has fetched from
// data/filters beside it.
func (w *work) adGuardHome(file string) error {
	if !isFile(file) {
		file = filepath.Join(file, "AdGuardHome.yaml")
	}
	data, err := readWhole(file)
	if err != nil {
		return err
	}
	var known map[string]any
	var cfg adGuard
	if err := yaml.Load(data, &known); err != nil {
		return err
	}
	if err := yaml.Load(data, &cfg); err != nil {
		return err
	}
	at := place{file: file}
	for _, key := range sortedKeys(known) {
		if !slices.Contains([]string{"filters", "whitelist_filters", "user_rules", "filtering", "dns", "clients", "schema_version"}, key) {
			w.rep.add(Note{Kind: Lost, place: at, What: key, Why: "part of a DNS server: " + whyNot(key)})
		}
	}
	var allow, block []string
	filters := func(all []adGuardList, to *[]string) error {
		for _, f := range all {
			what := fmt.Sprintf("filter %q, %s", f.Name, f.URL)
			path := filepath.Join(filepath.Dir(file), "data", "filters", strconv.FormatInt(f.ID, 10)+".txt")
			switch {
			case !f.Enabled:
				w.rep.add(Note{Kind: Lost, place: at, What: what, Why: "it is switched off"})
				continue
			case !isFile(path):
				w.rep.add(Note{Kind: Lost, place: at, What: what, Why: fmt.Sprintf("there is no %q: fetch the list and name it under lists", path)})
				continue
			}
			name, err := w.addList(f.Name, list.Config{Path: path, Match: list.Boundary, Format: w.adGuardFormat(path)}, place{file: path, what: what})
			if err != nil {
				return err
			}
			if name != "" {
				*to = append(*to, "category/"+name)
			}
		}
		return nil
	}
	if err := filters(cfg.Allow, &allow); err != nil {
		return err
	}
	var own []string
	if len(cfg.UserRules) > 0 {
		path, err := w.own("user-rules", func(to io.Writer) error {
			_, err := io.WriteString(to, strings.NewReplacer("\r", "", "\x00", "").Replace(strings.Join(cfg.UserRules, "\n"))+"\n")
			return err
		})
		if err != nil {
			return err
		}
		exceptions := w.adGuardExceptions(cfg.UserRules)
		name, err := w.addList("user-rules", list.Config{Path: path, Format: list.Adblock, Match: list.Boundary}, place{file: file, what: "user_rules"})
		if err != nil {
			return err
		}
		if name != "" {
			own = append(own, "category/"+name)
		}
		if len(exceptions) > 0 {
			path, err := w.own("user-exceptions", func(to io.Writer) error {
				_, err := io.WriteString(to, strings.Join(exceptions, "\n")+"\n")
				return err
			})
			if err != nil {
				return err
			}
			if name, err = w.addList("user-exceptions", list.Config{Path: path, Format: list.Adblock, Match: list.Boundary}, place{file: file, what: "user_rules, exceptions"}); err != nil {
				return err
			}
			if name != "" {
				allow = append(allow, "category/"+name)
			}
		}
	}
	if err := filters(cfg.Filters, &block); err != nil {
		return err
	}
	p := policyOut{Name: "everyone"}
	if len(allow) > 0 {
		p.Rules = append(p.Rules, ruleOut{Name: "allowed", Action: "allow", Category: allow})
	}
	if block = append(own, block...); len(block) > 0 {
		p.Rules = append(p.Rules, ruleOut{Name: "filters", Action: "block", Category: block})
	}
	w.adGuardNames(at, cfg)
	w.adGuardServices(at, cfg, &p)
	w.set.Policies = []policyOut{p}
	return nil
}

// adGuardExceptions are the user's exceptions as rules of their own: they are
// for the lists too, while an exception in a list of ours is for that list.
func (w *work) adGuardExceptions(rules []string) (all []string) {
	for _, r := range rules {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(r), "@@"); ok && !strings.ContainsAny(rest, "\n\r") {
			all = append(all, rest)
		}
	}
	return all
}

// adGuardFormat tells hosts files from lists of rules.
func (w *work) adGuardFormat(path string) string {
	data, err := readWhole(path)
	if err != nil {
		return list.Adblock
	}
	for _, mark := range []string{"||", "##", "@@", "$"} {
		if strings.Contains(string(data[:min(len(data), 1<<20)]), mark) {
			return list.Adblock
		}
	}
	return list.Auto
}

func (w *work) adGuardServices(at place, cfg adGuard, p *policyOut) {
	settings := map[string]any{}
	for _, m := range []map[string]any{cfg.DNS, cfg.Filtering} {
		for k, v := range m {
			settings[k] = v
		}
	}
	for _, key := range sortedKeys(settings) {
		v := settings[key]
		nested, _ := v.(map[string]any)
		if adGuardCarried[key] {
			continue
		}
		switch on := v == true || nested["enabled"] == true; {
		case (key == "safe_search" || key == "safesearch_enabled") && on:
			p.SafeSearch, p.YouTube = true, "strict"
			w.rep.add(Note{Kind: Carried, place: at, What: key, Ours: "safesearch: true, youtube: strict"})
		case key == "protection_enabled" && v == false || key == "filtering_enabled" && v == false:
			w.rep.add(Note{Kind: Changed, place: at, What: key + ": false", Ours: "nothing", Why: "AdGuard Home lets everything pass; these settings filter"})
		case v == nil || v == false || v == "" || v == 0:
		default:
			if s, ok := v.([]any); ok && len(s) == 0 || nested != nil && nested["enabled"] == false {
				continue
			}
			reason := "part of a DNS server"
			switch key {
			case "blocked_services":
				reason = "services are not known by name; write a list of their hosts"
			case "parental_enabled", "safebrowsing_enabled":
				reason = "it asks AdGuard's servers; name a list of the category"
			}
			w.rep.add(Note{Kind: Lost, place: at, What: key, Why: reason})
		}
	}
	if cfg.Clients != nil {
		w.rep.add(Note{Kind: Lost, place: at, What: "clients", Why: "settings of single clients: write a policy with networks for them"})
	}
}
