package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shuultuur/tool/load"
)

// rounds makes windows of 100 fetches with this rate and processor time per
// fetch.
func rounds(cpu time.Duration, rates ...float64) []window {
	var all []window
	for _, rate := range rates {
		all = append(all, window{
			report: &load.Report{Fetches: 100, Bytes: 100_000, Seconds: 100 / rate, Errors: map[string]int64{}},
			cpu:    100 * cpu, peakMB: 42,
		})
	}
	return all
}

func testTable() *table {
	s := scenario{name: "pages", about: "Pages", unit: "pages", connections: 10, targets: []target{
		{"e2guardian", perCore, 40}, {"haproxy", perCore, 0.25}, {"squid", cpuPerFetch, 0.5}, {"", noErrors, 0}, {"", residentMB, 150}, {"", p99, 5},
	}}
	running := &process{}
	t := newTable(s, options{rounds: 3, seconds: 1, peers: "x"}, []*peer{
		{name: "direct"}, {name: subject, proc: running}, {name: "e2guardian", proc: running}, {name: "haproxy", proc: running},
	})
	t.rows["direct"] = rounds(0, 5000)
	t.rows[subject] = rounds(time.Millisecond, 900, 1000, 100)
	t.rows["e2guardian"] = rounds(50*time.Millisecond, 20, 21, 19)
	t.rows["haproxy"] = rounds(200*time.Microsecond, 4000, 5000, 3000)
	t.notes = []string{"squid: left out, not asked for"}
	return t
}

func TestTableTakesMediansAndJudgesTargets(t *testing.T) {
	var b bytes.Buffer
	if err := testTable().print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| shuultuur |  | 900 | 100–1,000 | 0.9 |",
		"| e2guardian |  | 20.0 | 19.0–21.0 |",
		"| direct |  | 5,000 | 5,000–5,000 | 5.0 | 0.00 | 0.00 | 0.0 | - | - | - | 0 | 0 |",
		"| haproxy | 0.23× (0.03–0.23) | 0.20× | 5.000× (5.000–5.000) | 1.00× |",
		"40 × e2guardian's pages/s per core: 50.00× (by the clock 45.00×): **reached**",
		"0.25 × haproxy's pages/s per core: 0.20× (by the clock 0.23×): **missed**",
		"target against squid: not judged, it was not measured",
		"0 errors, 0 changed: **reached**",
		"< 150 MB resident: 42 MB: **reached**",
		"p99 ≤ 5 ms in each round: 0 ms: **reached**",
		"* squid: left out, not asked for",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

func TestErrorsOfEveryRoundAreShown(t *testing.T) {
	tab := testTable()
	tab.rows[subject][0].report.Errors = map[string]int64{"timeout": 3, "changed body": 2}
	tab.rows[subject][0].report.BadBodies = 2
	tab.rows[subject][2].report.Errors = map[string]int64{"timeout": 1, "reset": 1}
	tab.rows[subject][1].report.Unfinished = 5
	got, changed := tab.errors(subject)
	if want := "1 reset, 4 timeout, 5 unfinished"; got != want || changed != 2 {
		t.Errorf("errors %q, changed %d; want %q, 2", got, changed, want)
	}
	if reached, _ := tab.judge(target{"", noErrors, 0}); reached {
		t.Error("the target of no errors counts as reached despite errors")
	}
}

func TestFiguresAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", 1.25: "1.2", 99.96: "100.0", 100: "100", 999.6: "1,000", 12345: "12,345", 1234567.8: "1,234,568"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%g) = %q, want %q", v, got, want)
		}
	}
}

func TestHeavyPageIsMadeOfTheListsOwnPhrases(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var many strings.Builder
	for i := range 40 {
		many.WriteString("< word" + strconv.Itoa(i) + " ><90>\n")
	}
	phrases := write("weighted", "#comment\n<light><10>\n<two>,<words><90>\n<good><-90>\n"+many.String())
	page, err := heavyPage(write("list", "# .Include<none>\n.Include<"+phrases+"> # why\n"))
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{"word0": true, "word39": true, "light": false, "two": false, "good": false} {
		if got := bytes.Contains(page, []byte("<p> "+word+" </p>")); got != want {
			t.Errorf("word %q on the page: %v, want %v", word, got, want)
		}
	}
	if _, err := heavyPage(write("weak", ".Include<"+write("few", "<word><90>\n")+">\n")); err == nil {
		t.Error("heavyPage accepted a list with too little weight to block surely")
	}
}

func TestOwnProcessorTimeIsRead(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system has no /proc")
	}
	parent, ticks, ok := stat(os.Getpid())
	if !ok || parent != os.Getppid() || ticks < 0 {
		t.Errorf("stat of this process: parent %d (want %d), %d ticks, %v", parent, os.Getppid(), ticks, ok)
	}
	if tree := processTree(os.Getpid()); tree[0] != os.Getpid() {
		t.Errorf("family is %v, want this process first", tree)
	}
}

func TestEveryScenarioIsComplete(t *testing.T) {
	for _, s := range scenarios() {
		if s.name == "" || s.about == "" || s.unit == "" || s.connections == 0 || s.urls == nil || s.timeout == 0 || s.most == 0 || len(s.targets) == 0 {
			t.Errorf("scenario %q lacks a field: %+v", s.name, s)
		}
		if s.connections >= 100 && !s.queues {
			t.Errorf("scenario %q may hide timeouts, because its requests queue", s.name)
		}
		if s.queues && (s.seconds(options{seconds: 2}) < 3*s.timeout.Seconds() || !slices.ContainsFunc(s.targets, func(g target) bool { return g.what == p99 })) {
			t.Errorf("scenario %q ends before three timeouts, or has no limit of p99", s.name)
		}
	}
}

func TestMistakesOnTheCommandLineAreNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "which benchmark"},
		{"dance", `"dance" is unknown`},
		{"pages -rounds 0", "rounds must be"},
		{"pages -seconds 0", "seconds more than 0"},
	} {
		if err := run(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("bench %s: got error %v, want %q", c.args, err, c.want)
		}
	}
}
