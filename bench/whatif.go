package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const whatIfAbout = "What a change of the settings would have altered, over 1 million events of the last day"

const (
	whatIfRows   = 1_000_000
	whatIfSpan   = 23 * time.Hour // all of it stays within the last day during the rounds
	whatIfTarget = 5 * time.Second
)

// whatIfSettings have the lists of hosts of a school, and rules that can be judged by a log.
const whatIfSettings = `listen: {proxy: "PROXY", admin: "ADMIN"}
data: DIR/data
lists:
  hosts: {format: auto, path: HOSTS, category: ads}
  easy: {format: auto, path: RULES, category: trackers}
checks:
  category: {lists: [hosts, easy]}
identity: {groups: {pupils: [10.1.0.0/23]}}
policies:
  - name: pupils
    groups: [pupils]
    rules:
      - {name: trackers, action: block, category: [trackers]}
      - {name: advertising, action: block, category: [ads]}
      - {name: games, action: block, host: [games.example]}
  - name: everyone
    rules: []
events: {sqlite: events.db}
`

// whatIf asks a running gateway for the effect of a change, as a page does before it saves.
func whatIf(ctx context.Context, opt options, out io.Writer) error {
	lists := filepath.Join(os.Getenv("SHUULTUUR_DATA"), "lists")
	hosts, rules := filepath.Join(lists, "stevenblack.domains.txt.gz"), filepath.Join(lists, "easylist.txt.gz")
	for _, file := range []string{hosts, rules} {
		if _, err := os.Stat(file); err != nil {
			fmt.Fprintf(out, "### %s\n\nNot measured: set SHUULTUUR_DATA to a folder with lists: %v.\n\n", whatIfAbout, err)
			return nil
		}
	}
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	dir, err := r.folder(subject)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		return err
	}
	if err := longRecord(ctx, filepath.Join(dir, "data", "events.db"), whatIfRows, whatIfSpan); err != nil {
		return err
	}
	program, err := r.build(dir)
	if err != nil {
		return err
	}
	var addrs [2]string
	for i := range addrs {
		if addrs[i], err = freeAddr(); err != nil {
			return err
		}
	}
	text := expand(whatIfSettings, "PROXY", addrs[0], "ADMIN", addrs[1], "DIR", dir, "HOSTS", hosts, "RULES", rules)
	p, err := r.start("0-1", subject, addrs[0], []string{program, "run", "-config", "FILE"}, text)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "### %s\n\n%s. %s\n`go run -C bench . what-if -rounds %d`: rows of 500 clients and 100,000 hosts in SQLite, lists of %s and %s, medians and the range over rounds. Where other work leaves too little of the cores, the gateway judges fewer rows; the target is about the processor time that 1 million take, on two cores.\n\n| change | judged | altered | s by the clock | s of two cores for 1 million | range | RSS MB peak | target |\n|--|--:|--:|--:|--:|--:|--:|--:|\n",
		whatIfAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, filepath.Base(hosts), filepath.Base(rules))
	var slow error
	for _, c := range []struct{ name, old, with string }{
		{"a rule that blocks one host of many", "host: [games.example]", "host: [games.example, example-7.com]"},
		{"another page of a request without one", "lists: [hosts, easy]", "lists: [hosts, easy], unknown-page: first-party"},
		{"a policy for fewer", "10.1.0.0/23", "10.1.0.0/24"},
		{"a quota: events are judged in order", "    rules: []", "    quotas: [{category: ads, time: 20m}, {time: 2h}]\n    rules: []"},
	} {
		var took, cpu []float64
		var e whatIfEffect
		for range opt.rounds {
			began := p.cpu()
			if e, err = askWhatIf(ctx, addrs[1], strings.Replace(text, c.old, c.with, 1)); err != nil {
				return fmt.Errorf("%s: %w; %s", c.name, err, p.tail())
			}
			if e.Judged == 0 {
				return fmt.Errorf("%s: nothing was judged in %.1f s", c.name, e.Took)
			}
			took, cpu = append(took, e.Took), append(cpu, (p.cpu()-began).Seconds()/2*whatIfRows/float64(e.Judged))
		}
		slices.Sort(took)
		slices.Sort(cpu)
		fmt.Fprintf(out, "| %s | %d | %d | %.1f | %.2f | %.2f to %.2f | %.0f | ≤ %.0f |\n", c.name, e.Judged, e.Changed, middle(took), middle(cpu), cpu[0], cpu[len(cpu)-1], p.peakMB(), whatIfTarget.Seconds())
		if middle(cpu) > whatIfTarget.Seconds() {
			slow = fmt.Errorf("%s takes %.2f s of two cores", c.name, middle(cpu))
		}
	}
	fmt.Fprintln(out)
	return slow
}

// whatIfEffect is the effect of a change that the gateway reports.
type whatIfEffect struct {
	Judged  int64   `json:"judged"`
	Changed int64   `json:"changed"`
	Took    float64 `json:"seconds"`
}

func askWhatIf(ctx context.Context, admin, text string) (e whatIfEffect, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+admin+"/settings?dry_run=true", strings.NewReader(text))
	if err != nil {
		return e, err
	}
	began := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return e, err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		return e, err
	}
	var answer struct{ Effect *whatIfEffect }
	if err := json.Unmarshal(all, &answer); err != nil || answer.Effect == nil {
		return e, fmt.Errorf("%s: %.300s", res.Status, all)
	}
	e = *answer.Effect
	e.Took = time.Since(began).Seconds() // including the check of the text, for which people also wait
	return e, nil
}
