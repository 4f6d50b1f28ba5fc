package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const editAbout = "An entry of a list, changed on the page beside 16,024 signature rules"

const (
	editTarget   = 50 * time.Millisecond // from the request to its answer: the entry is in use
	effectTarget = time.Second           // the same for what it would change
)

const editSettings = `listen: {proxy: "PROXY", admin: "ADMIN"}
data: DIR/data
events: {sqlite: events.db}
lists: {own: {format: domains, path: DIR/own.txt, category: own}}
checks:
  category: {lists: [own]}
  signature: {rules: [DIR/http.rules]}
policies:
  - name: everyone
    rules:
      - {name: own, action: block, category: [own]}
      - {name: signatures, action: block, category: [signature/drop]}
`

// editing changes a list of a running gateway, and asks for the effect of changes.
func editing(ctx context.Context, opt options, out io.Writer) error {
	rules := filepath.Join(os.Getenv("SHUULTUUR_DATA"), "rules", "et-open-http.rules.gz")
	text, err := unpacked(rules)
	if err != nil {
		fmt.Fprintf(out, "### %s\n\nNot measured: set SHUULTUUR_DATA to a folder with rules: %v.\n\n", editAbout, err)
		return nil
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
	for name, b := range map[string][]byte{"own.txt": []byte("bad.example\n"), "http.rules": text} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
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
	if _, err := r.start("0-1", subject, addrs[0], []string{program, "run", "-config", "FILE"}, expand(editSettings, "PROXY", addrs[0], "ADMIN", addrs[1], "DIR", dir)); err != nil {
		return err
	}
	var edits, effects []float64 // ms
	for i := range opt.rounds * 10 {
		took, err := edit(ctx, addrs[1], fmt.Sprintf("host-%d.example", i), "")
		if err != nil {
			return err
		}
		edits = append(edits, took)
	}
	first := 0.0 // it builds what answers questions
	for i := range opt.rounds * 10 {
		took, err := edit(ctx, addrs[1], fmt.Sprintf("other-%d.example", i), "?dry_run=true")
		if err != nil {
			return err
		}
		if i == 0 {
			first = took
		}
		effects = append(effects, took)
	}
	slices.Sort(edits)
	slices.Sort(effects)
	fmt.Fprintf(out, "### %s\n\n%s. %s\n`go run -C bench . edit -rounds %d`: from the request to the answer, after which the entry is in use, %d of each.\n\n| request | median ms | range | target |\n|--|--:|--:|--:|\n", editAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, len(edits))
	fmt.Fprintf(out, "| an entry | %.0f | %.0f to %.0f | ≤ %d |\n| its effect | %.0f | %.0f to %.0f (the first %.0f) | ≤ %d |\n\n", middle(edits), edits[0], edits[len(edits)-1], editTarget.Milliseconds(),
		middle(effects), effects[0], effects[len(effects)-1], first, effectTarget.Milliseconds())
	_, err = fmt.Fprintf(out, "* target of an entry: **%s**; of the first effect: **%s**\n\n", verdict(middle(edits) <= float64(editTarget.Milliseconds())), verdict(first <= float64(effectTarget.Milliseconds())))
	return err
}

// edit adds an entry to the list, and returns how many milliseconds that took.
func edit(ctx context.Context, admin, entry, query string) (float64, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+admin+"/lists/own"+query, strings.NewReader(fmt.Sprintf(`[{"entry": %q}]`, entry)))
	if err != nil {
		return 0, err
	}
	q.Header.Set("Content-Type", "application/json")
	began := time.Now()
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	said := new(bytes.Buffer)
	if _, err := said.ReadFrom(res.Body); err != nil || res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("adding %s: %s, %w: %.300s", entry, res.Status, err, said)
	}
	return float64(time.Since(began).Microseconds()) / 1000, nil
}

func unpacked(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
