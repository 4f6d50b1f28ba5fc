package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A benchmark is one section of the page with all figures.
type benchmark struct {
	name, about string
	// needs names what it cannot do without: programs, files (with a slash), and files of the
	// data folder (DATA/…). The page is not begun while one is missing, because a table that
	// is left out is not missed by those who read the rest.
	needs []string
	short bool // part of the short run
	run   func(ctx context.Context, opt options, out io.Writer) error
}

const (
	phrases   = guardianFolder + "/lists"
	openRules = "DATA/rules/et-open-http.rules.gz"
	certgen   = "/usr/lib/squid/security_file_certgen"
)

// benchmarks returns them in the order of the page.
func benchmarks() []benchmark {
	var all []benchmark
	for _, s := range scenarios() {
		needs := []string{"nginx", "e2guardian", "squid", "privoxy", "haproxy", phrases, openRules}
		if s.tls {
			needs = append(needs, certgen)
		}
		all = append(all, benchmark{s.name, s.about, needs, s.short, func(ctx context.Context, opt options, out io.Writer) error {
			return compare(ctx, s, opt, out)
		}})
	}
	ours := []string{"nginx", phrases}
	return append(all, []benchmark{
		{"tls-idle", idleAbout, []string{"nginx", "squid", certgen, phrases}, false, idle},
		{"websocket", websocketAbout, append(ours, "haproxy"), false, websockets},
		{"slow", slowAbout, []string{"nginx", "e2guardian", "squid", "privoxy", phrases}, false, slow},
		{"scanner", scannerAbout, ours, false, scanning},
		{"http2", http2About, append(ours, "haproxy"), true, clients2},
		{"generator", generatorAbout, []string{"nginx", "wrk"}, false, generator},
		{"dns", dnsAbout, []string{"nsd", "dnsperf"}, false, dnsGenerators},
		{"overload", overloadAbout, ours, false, overload},
		{"starve", starveAbout, ours, false, starve},
		{"adblock", adblockAbout, []string{"cargo", "DATA/lists/easylist.txt.gz"}, true, adblockers},
		{"auth", authAbout, []string{"dnsperf", "nsd", "knotd"}, true, auth},
		{"flood", floodAbout, []string{"nsd"}, false, flood},
		{"subdomains", subdomainsAbout, []string{"unbound", "dnsmasq"}, false, subdomains},
		{"silence", silenceAbout, []string{"unbound", "dnsmasq"}, false, silence},
		{"encrypted", encryptedAbout, []string{"unbound", "dnsdist"}, false, encrypted},
		{"resolver", resolverAbout, []string{"nsd", "unbound", "dnsmasq"}, true, resolver},
		{"redis-zone", redisZoneAbout, []string{"redis-server"}, false, redisZones},
		{"cache", cacheAbout, []string{"nginx", "traffic_server", "squid", "varnishd"}, true, caching},
		{"bloom", bloomAbout, nil, false, bloomFilters},
		{"state", stateAbout, append(ours, "redis-server"), false, shared},
		{"record", recordAbout, nil, false, record},
		{"record-postgres", recordPostgresAbout, []string{"postgres"}, false, recordPostgres},
		{"live", liveAbout, ours, false, live},
		{"what-if", whatIfAbout, []string{"DATA/lists/easylist.txt.gz"}, false, whatIf},
		{"edit", editAbout, []string{openRules}, false, editing},
		{"admin-pages", adminPagesAbout, nil, false, adminPages},
		{"votes", votesAbout, []string{"nginx", "redis-server", "postgres"}, false, votes},
		{"icap", icapAbout, []string{"nginx", "e2guardian", "c-icap", "squid", phrases}, true, icaps},
		{"signature", signatureAbout, []string{openRules}, false, signatures},
		{"matcher", matcherAbout, []string{"cc", "/usr/include/hs/hs.h", phrases}, false, matchers},
		{"picture", pictureAbout, nil, false, pictures},
		{"picture-page", picturePageAbout, []string{"chromium"}, false, picturePage},
	}...)
}

// lacking returns what the benchmarks need and this machine does not have.
func lacking(all []benchmark, data string) (missing []string) {
	for _, b := range all {
		for _, need := range b.needs {
			file, ofData := strings.CutPrefix(need, "DATA/")
			var err error
			switch {
			case ofData:
				_, err = os.Stat(filepath.Join(data, file))
			case strings.Contains(need, "/"):
				_, err = os.Stat(need)
			case need == "postgres":
				if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
					_, err = find(need)
				}
			default:
				_, err = find(need)
			}
			if err != nil && !slices.Contains(missing, need) {
				missing = append(missing, need)
			}
		}
	}
	return missing
}

// preface begins the page; the commit and the machine follow.
const preface = `# Benchmarks

Shuultuur side by side with Debian's programs for the same work, on one core each, in the same run. ` + "`make bench`" + ` writes this page, all of it, from one commit on one machine; [measurements.md](measurements.md) has what was measured once, and what did not help. Trust the ratios within a table, not the figures across tables or machines.

"shuultuur" judges every page anew; "shuultuur-learn" remembers verdicts (` + "`learn`" + ` in the policy) and asks the origin's validators whether the page is still the same; "shuultuur-rules" tries 16,024 public signature rules as well; "shuultuur-compat" reads the bytes of a page in two passes, as e2guardian 5.3 does, with the same scores. squid and haproxy only forward. All filters use the phrase lists that e2guardian ships and enables.

`

// writePageOfFigures runs benchmarks and writes their tables to a file, if one is named, and
// their rows to the history.
func writePageOfFigures(ctx context.Context, all []benchmark, opt options, file string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	r := &rig{ctx: ctx, root: root}
	data, err := r.dataFolder()
	if err != nil {
		return err
	}
	// Some benchmarks read it where no rig is.
	if err := os.Setenv("SHUULTUUR_DATA", data); err != nil {
		return err
	}
	if missing := lacking(all, data); len(missing) > 0 {
		return fmt.Errorf("not measured, because these are missing: %s; \"sh bench/setup.sh\" installs Debian's packages, and SHUULTUUR_DATA names the folder of the data", strings.Join(missing, ", "))
	}
	dir, err := os.MkdirTemp("", "shuultuur-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if r.program, err = r.build(dir); err != nil {
		return err
	}
	if err := os.Setenv(programOf, r.program); err != nil {
		return err
	}
	var page bytes.Buffer
	out := io.MultiWriter(os.Stdout, &page)
	begin := time.Now()
	at, commit := begin.UTC().Format("2006-01-02 15:04 MST"), r.revision() // before the page itself is a change
	fmt.Fprintf(out, "%sCommit %s, %s. %s\n\n", preface, commit, at, machine("before the first table"))
	if len(all) < len(benchmarks()) {
		fmt.Fprint(out, "This is the short run, which leaves out what shows less; measurements.md has earlier tables of that.\n\n")
	}
	var failed []error
	for _, b := range all {
		from := time.Now()
		if err := runElsewhere(ctx, b.name, opt, out); err != nil {
			failed = append(failed, fmt.Errorf("benchmark %s: %w", b.name, err))
		}
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintln(out)
		fmt.Fprintf(os.Stderr, "%s took %s\n", b.name, time.Since(from).Round(time.Second))
	}
	fmt.Fprintf(os.Stderr, "all took %s\n", time.Since(begin).Round(time.Second))
	if file == "" {
		return errors.Join(failed...)
	}
	if len(failed) > 0 { // the tables that there are took an hour
		failed = append(failed, fmt.Errorf("%s stays as it is; what was measured is in %s", file, file+".unfinished"), os.WriteFile(file+".unfinished", page.Bytes(), 0o644))
		return errors.Join(failed...)
	}
	if err := os.WriteFile(file, page.Bytes(), 0o644); err != nil {
		return err
	}
	return remember(filepath.Join(root, "bench", "history.jsonl"), page.String(), at, commit)
}

// A measured row is one line of a table, and of the history.
type measuredRow struct {
	At      string            `json:"at"`
	Commit  string            `json:"commit"`
	Machine string            `json:"machine"`
	Table   string            `json:"table"`
	Row     string            `json:"row"`
	Figures map[string]string `json:"figures"` // by the heads of their columns, as printed
}

// rowsOf reads the tables of a page. The first cell of a line names the row, without the
// revision of the program, which the line has in "commit".
func rowsOf(page string) (rows []measuredRow) {
	var title string
	var heads []string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case strings.HasPrefix(line, "#"):
			title, heads = strings.TrimSpace(strings.TrimLeft(line, "#")), nil
		case !strings.HasPrefix(line, "|"):
			heads = nil
		case heads == nil:
			heads = distinct(cells)
		case strings.Trim(line, "|-: ") == "":
		default:
			row := measuredRow{Table: title, Row: withoutRevision(cells[0]), Figures: map[string]string{}}
			for i, c := range cells[1:] {
				if i+1 < len(heads) {
					row.Figures[heads[i+1]] = c
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// distinct puts the head of the column before in front of heads that occur again, as in a pair of
// columns for each of several kinds.
func distinct(heads []string) []string {
	all := slices.Clone(heads)
	for i, h := range heads {
		if i > 0 && (slices.Contains(heads[:i], h) || slices.Contains(heads[i+1:], h)) {
			all[i] = heads[i-1] + ", " + h
		}
	}
	return all
}

// withoutRevision removes a commit from the name of a row, as in "shuultuur 59699fef-dirty".
func withoutRevision(name string) string {
	before, last, ok := strings.Cut(name, " ")
	if hash := strings.TrimSuffix(last, "-dirty"); ok && len(hash) >= 7 && strings.Trim(hash, "0123456789abcdef") == "" {
		return before
	}
	return name
}

// remember appends the rows of a page to the history, one line of JSON each.
func remember(file, page, at, commit string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(f)
	lines.SetEscapeHTML(false)
	for _, row := range rowsOf(page) {
		row.At, row.Commit, row.Machine = at, commit, processor()
		if err := lines.Encode(row); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// programOf names the variable with the program that the runs of one page share, so that each
// need not build it.
const programOf = "SHUULTUUR_BENCH_PROGRAM"

// runElsewhere runs one benchmark in a process of its own: it moves itself to one core, and what
// follows would stay there.
func runElsewhere(ctx context.Context, name string, opt options, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, name, "-rounds", strconv.Itoa(opt.rounds), "-seconds", fmt.Sprint(opt.seconds), "-peers", opt.peers, "-profile", opt.profile)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd.Run()
}
