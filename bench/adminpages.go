package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/event/sqlite"
	"shuultuur/intercept"
)

const adminPagesAbout = "Every page of the admin address, with 10,000 devices, 300 policies, 2 million entries of lists and 5 million events"

const (
	manyDevices  = 10_000
	manyPolicies = 300
	manyLists    = 20
	manyEntries  = 2_000_000

	adminPageTarget = 300 * time.Millisecond
)

// elsewherePages are no pages of a gateway that is in use: providers of accounts lead to them, or
// the first steps do, or they are Go's own and measure for a while.
var elsewherePages = []string{"/login/provider", "/login/callback", "/login/invited", "/setup/connect", "/setup/first", "/setup/link", "/setup/home", "/debug/pprof", "/debug/pprof/{name}"}

// adminPages fills a gateway, and measures each page in the description of its API as a browser
// asks for it.
func adminPages(ctx context.Context, opt options, out io.Writer) error {
	root, err := repository()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "shuultuur-bench-")
	if err != nil {
		return err
	}
	r := &rig{ctx: ctx, root: root, dir: dir}
	defer r.close()
	own, err := r.folder(subject)
	if err != nil {
		return err
	}
	program := os.Getenv("BEFORE")
	if program == "" {
		if program, err = r.build(dir); err != nil {
			return err
		}
	}
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	settings, err := manySettings(own, addr)
	if err != nil {
		return err
	}
	if err := manyEvents(ctx, filepath.Join(own, "data", "events.db")); err != nil {
		return err
	}
	p, err := r.start(proxyCore, subject, addr, []string{program, "run", "-config", "FILE"}, settings)
	if err != nil {
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	site := adminSite("http://" + addr)
	pages, err := site.pages(ctx)
	if err != nil {
		return err
	}
	all := make([]pageTimes, len(pages))
	for round := range opt.rounds + 1 {
		for i, page := range pages {
			took, size, err := site.get(ctx, page)
			if err != nil {
				return fmt.Errorf("%w\n%s", err, p.tail())
			}
			t := &all[i]
			t.page, t.bytes = page, size
			if round == 0 {
				t.first = took
				continue
			}
			t.later = append(t.later, took)
		}
	}
	return printPages(out, opt, all, p.peakMB())
}

// pageTimes are the times of a page: the first time after the start, and later.
type pageTimes struct {
	page  string
	bytes int
	first time.Duration
	later []time.Duration
}

// printPages prints a row for each page, the slowest first, and judges them.
func printPages(out io.Writer, opt options, all []pageTimes, peakMB float64) error {
	for i := range all {
		slices.Sort(all[i].later)
	}
	middle := func(t pageTimes) time.Duration { return t.later[len(t.later)/2] }
	slices.SortStableFunc(all, func(a, b pageTimes) int { return cmp.Compare(middle(b), middle(a)) })
	fmt.Fprintf(out, "### %s\n\n%s. %s\n`go run -C bench . admin-pages -rounds %d`: each page as a browser asks for it, until its last byte; medians and the range over rounds. At most %.0f MB resident.\n\n| page | ms | range | the first time | kB |\n|--|--:|--:|--:|--:|\n",
		adminPagesAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, peakMB)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()*1000) }
	missed := 0
	for _, t := range all {
		fmt.Fprintf(out, "| `%s` | %s | %s to %s | %s | %d |\n", strings.ReplaceAll(t.page, "|", "\\|"), ms(middle(t)), ms(t.later[0]), ms(t.later[len(t.later)-1]), ms(t.first), t.bytes/1000)
		if middle(t) > adminPageTarget {
			missed++
		}
	}
	_, err := fmt.Fprintf(out, "\n* target ≤ %d ms for each page, missed by %d of %d: **%s**\n\n", adminPageTarget.Milliseconds(), missed, len(all), verdict(missed == 0))
	return err
}

// manySettings writes the files that the settings name, and returns the settings of a large school.
func manySettings(dir, addr string) (string, error) {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return "", err
	}
	root, err := intercept.NewRoot(intercept.RootConfig{Name: "School filter"})
	if err != nil {
		return "", err
	}
	if err := root.Write(filepath.Join(dir, "root.pem"), false); err != nil {
		return "", err
	}
	zone := "$ORIGIN school.example.\n$TTL 1h\n@ SOA ns hostmaster 1 1h 10m 1w 5m\n@ NS ns\nns A 192.0.2.1\n"
	if err := os.WriteFile(filepath.Join(dir, "school.example.zone"), []byte(zone), 0o644); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "own.txt"), []byte("own.example\n"), 0o644); err != nil {
		return "", err
	}
	var lists, names, addresses, groups, policies strings.Builder
	for i := range manyLists {
		name := fmt.Sprintf("list%02d", i)
		if err := writeList(filepath.Join(dir, name+".txt"), i); err != nil {
			return "", err
		}
		fmt.Fprintf(&lists, "  %s: {format: domains, path: %s.txt, category: kind%02d}\n", name, name, i)
		fmt.Fprintf(&names, "%s, ", name)
	}
	members := make([][]string, manyPolicies)
	for i := range manyDevices {
		name := fmt.Sprintf("pupil%03d", i)
		fmt.Fprintf(&addresses, "    %s: [10.1.%d.%d]\n", name, i>>8, i&255)
		members[i%manyPolicies] = append(members[i%manyPolicies], name)
	}
	for i, m := range members {
		fmt.Fprintf(&groups, "    class%03d: [%s]\n", i, strings.Join(m, ", "))
		fmt.Fprintf(&policies, `  - name: class%03[1]d
    base: everyone
    groups: [class%03[1]d]
    schedule: [{days: mon-fri, hours: "08:00-13:00"}, {days: sat, hours: "09:00-12:00"}]
    quotas: [{service: [roblox], time: 30m}]
    rules:
      - {name: kinds, action: block, category: [kind%02[2]d, kind%02[3]d]}
      - {name: own, action: block, host: [a%03[1]d.example, b%03[1]d.example]}
      - {name: videos, action: block, service: [youtube], schedule: {hours: "08:00-15:00"}}
`, i, i%manyLists, (i+7)%manyLists)
	}
	return fmt.Sprintf(`listen: {proxy: 127.0.0.1:0, admin: %q, portal: 127.0.0.1:0}
data: %s
lists:
  own: {format: domains, path: own.txt, category: own}
%schecks:
  category: {lists: [%s, own]}
identity:
  addresses:
%s  groups:
%spolicies:
%s  - name: everyone
    rules:
      - {name: common, action: block, category: [kind00, kind01]}
alerts: {themes: {exams: {search: [exam answers], severity: high}}}
votes: {listen: 127.0.0.1:0}
dns: {listen: 127.0.0.1:0, forward: {upstreams: [192.0.2.53]}, zones: {files: [{path: school.example.zone}]}}
cache: {memory: 64MiB}
intercept: {root: root.pem}
events: {sqlite: events.db}
`, addr, data, lists.String(), strings.TrimSuffix(names.String(), ", "), addresses.String(), groups.String(), policies.String()), nil
}

// writeList writes the i-th of the lists. It has hosts that the record names.
func writeList(file string, i int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for n := range manyEntries / manyLists {
		if n < 50 {
			fmt.Fprintf(w, "example-%d.com\n", 40*n+i)
			continue
		}
		fmt.Fprintf(w, "site%d-%x.example\n", i, n*2654435761)
	}
	return errors.Join(w.Flush(), f.Close())
}

// manyEvents writes the record of many devices.
func manyEvents(ctx context.Context, file string) error {
	s, err := sqlite.Open(file, 365*24*time.Hour)
	if err != nil {
		return err
	}
	gen := newRowMaker()
	gen.people = manyDevices
	_, err = gen.fillRecord(ctx, s, time.Now().UTC().Truncate(time.Microsecond), recordRows, recordSpan)
	return errors.Join(err, s.Close())
}

// An adminSite is the base of the admin address.
type adminSite string

// get returns how long a page took, and its size.
func (s adminSite) get(ctx context.Context, page string) (time.Duration, int, error) {
	began := time.Now()
	text, err := s.ask(ctx, page, "text/html,application/xhtml+xml,*/*;q=0.8")
	return time.Since(began), len(text), err
}

func (s adminSite) ask(ctx context.Context, page, accept string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, "GET", string(s)+page, nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", accept)
	q.Header.Set("Accept-Language", "en")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode >= 500 { // a page that says no is a page
		err = fmt.Errorf("%s: status %d: %.2000s", page, a.StatusCode, text)
	}
	return text, err
}

// json decodes what programs get, of several values the first.
func (s adminSite) json(ctx context.Context, page string, v any) error {
	text, err := s.ask(ctx, page, "application/json")
	if err != nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(v); err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return nil
}

// pages returns the pages in the description of the API, with values for what is in braces, and
// some of them with questions.
func (s adminSite) pages(ctx context.Context) ([]string, error) {
	// A change of the settings, so that there is a version before.
	a, err := http.PostForm(string(s)+"/clients", url.Values{"what": {"name"}, "address": {"10.9.0.9"}, "name": {"carl"}})
	if err != nil {
		return nil, err
	}
	a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("naming a device: status %d", a.StatusCode)
	}
	var versions []struct{ ID string }
	var event struct{ ID string }
	if err := s.json(ctx, "/settings/versions", &versions); err != nil {
		return nil, err
	}
	if err := s.json(ctx, "/events?filter=action:block", &event); err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, errors.New("no versions of the settings")
	}
	values := map[string]string{
		"/events/{id}": "/events/" + event.ID, "/settings/versions/{id}": "/settings/versions/" + versions[0].ID,
		"/lists/{name}": "/lists/list00", "/lists/{name}/text": "/lists/own/text", "/zones/{origin}": "/zones/school.example",
		"/policies/rule": "/policies/rule?policy=class007&rule=videos", "/policies/group": "/policies/group?name=class007",
		"/clients/one": "/clients/one?who=pupil007", "/quotas": "/quotas?client=10.1.0.7", "/cache/look": "/cache/look?url=http://a.example/",
	}
	var api struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Content map[string]any }
		}
	}
	if err := s.json(ctx, "/openapi.json", &api); err != nil {
		return nil, err
	}
	var all []string
	for path, methods := range api.Paths {
		if _, page := methods["get"].Responses["200"].Content["text/html"]; !page || slices.Contains(elsewherePages, path) {
			continue
		}
		page := cmp.Or(values[path], path)
		if strings.Contains(page, "{") {
			if path == "/alerts/{id}" || path == "/pictures/{id}" { // there are none
				continue
			}
			return nil, fmt.Errorf("no value for %s", path)
		}
		all = append(all, page)
	}
	all = append(all, "/policies?name=class007", "/clients?q=pupil007", "/clients?group=class007", "/clients?all=yes", "/day?person=pupil007",
		"/events?filter="+url.QueryEscape("host:example-3.com since:7d"), "/events?filter=user:pupil007", "/events?filter=category:gambling",
		"/reports?span=today", "/reports?span=7d", "/reports?span=30d", "/reports?span=30d&person=pupil007", "/why?url=http://www0.example-3.com/&client=10.1.0.7",
		"/lists?q=example-3.com", "/lists/list00?q=example", "/rulings?site=example-3.com&who=pupil007", "/services?policy=class007", "/find?q=open+youtube+for+pupil007+1h", "/inbox.json")
	slices.Sort(all)
	return slices.Compact(all), nil
}
