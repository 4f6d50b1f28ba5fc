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
	filters := func(all []adGuardList, category string) (found bool, err error) {
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
			from := path
			if category == adGuardAllowed {
				if path, err = w.adGuardAllows(path); err != nil {
					return false, err
				}
			}
			name, err := w.addList(f.Name, list.Config{Path: path, Category: category, Match: list.Boundary, Format: w.adGuardFormat(path)}, place{file: from, what: what})
			if err != nil {
				return false, err
			}
			found = found || name != ""
		}
		return found, nil
	}
	allowed, err := filters(cfg.Allow, adGuardAllowed)
	if err != nil {
		return err
	}
	own := ""
	if len(cfg.UserRules) > 0 {
		path, err := w.own("user-rules", func(to io.Writer) error {
			_, err := io.WriteString(to, strings.NewReplacer("\r", "", "\x00", "").Replace(strings.Join(cfg.UserRules, "\n"))+"\n")
			return err
		})
		if err != nil {
			return err
		}
		if own, err = w.addList("user-rules", list.Config{Path: path, Category: adGuardFilters, Format: list.Adblock, Match: list.Boundary}, place{file: file, what: "user_rules"}); err != nil {
			return err
		}
	}
	blocked, err := filters(cfg.Filters, adGuardFilters)
	if err != nil {
		return err
	}
	p := policyOut{Name: "everyone"}
	if allowed {
		p.Rules = append(p.Rules, ruleOut{Name: "allowed", Action: "allow", Category: []string{"category/" + adGuardAllowed}})
	}
	if blocked || own != "" {
		p.Rules = append(p.Rules, ruleOut{Name: "filters", Action: "block", Category: []string{"category/" + adGuardFilters}})
	}
	w.adGuardNames(at, cfg)
	w.adGuardServices(at, cfg, &p)
	w.set.Policies = []policyOut{p}
	return nil
}

// Categories of the lists: those of one are one engine, as AdGuard Home makes of
// its filters and the user's rules, and before it of its allow lists.
const (
	adGuardFilters = "filters"
	adGuardAllowed = "allowed"
)

// adGuardAllows returns the path of an allow list in which each rule says what
// is allowed: AdGuard Home takes its exceptions for that too.
func (w *work) adGuardAllows(path string) (string, error) {
	data, err := readWhole(path)
	if err != nil || !strings.Contains("\n"+string(data), "\n@@") {
		return path, nil // what cannot be read is said when it is compiled
	}
	return w.own("allow-"+strings.TrimSuffix(filepath.Base(path), ".txt"), func(to io.Writer) error {
		_, err := io.WriteString(to, strings.ReplaceAll("\n"+string(data), "\n@@", "\n")[1:])
		return err
	})
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
