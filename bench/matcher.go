package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/lua"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

const matcherAbout = "The search for the patterns of signature rules in bodies, beside Vectorscan"

//go:embed vectorscan/match.c
var vectorscan []byte

// bodyPatterns is the number of patterns to search for.
const bodyPatterns = 2049

// matchers searches the pages for the fast patterns of public rules, with the engine's
// prefilter and with Vectorscan, in turn. Both report each pattern once. Times are processor
// times. Building the peer needs cc and libvectorscan-dev or libhyperscan-dev.
func matchers(ctx context.Context, o options, out io.Writer) error {
	data := os.Getenv("SHUULTUUR_DATA")
	rules, _, err := rule.NewParser().ReadFiles(filepath.Join(data, "rules", "et-open-http.rules.gz"))
	if err != nil {
		return fmt.Errorf("no rules: set SHUULTUUR_DATA to a folder with rules/et-open-http.rules.gz: %w", err)
	}
	pages, err := filepath.Glob(filepath.Join(data, "pages", "*.html"))
	if err != nil || len(pages) == 0 {
		return errors.New("no pages: set SHUULTUUR_DATA to a folder with pages")
	}
	vars, ports := address.Groups()
	e, _, err := engine.New(engine.Config{Rules: rules, Vars: vars, Ports: ports, Scripts: lua.NewPool(lua.Limits{}).Load})
	if err != nil {
		return err
	}
	patterns := e.Patterns(rule.ToClient, rule.FileData, bodyPatterns)
	search := match.NewPrefilter(patterns)
	var seen match.Sight
	var bodies [][]byte
	size := 0
	for _, name := range pages {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		bodies, size = append(bodies, b), size+len(b)
	}
	peer, version, err := startVectorscan(ctx, patterns, pages)
	if err != nil {
		fmt.Fprintf(out, "## %s\n\nLeft out: %v\n\n", matcherAbout, err)
		return nil
	}
	defer peer.close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var own, other, ratios []float64
	found, peerFound := 0, 0
	for range max(o.rounds, 3) * 3 {
		start := processorTime()
		found = 0
		for _, b := range bodies {
			search.Scan(b, &seen, func(int32) { found++ })
		}
		a := float64(processorTime() - start)
		var b int64
		if b, peerFound, err = peer.scan(); err != nil {
			return err
		}
		own, other, ratios = append(own, a), append(other, float64(b)), append(ratios, float64(b)/a)
	}
	speed := func(times []float64) string {
		return fmt.Sprintf("%.0f", float64(size)/1e6/(middle(slices.Sorted(slices.Values(times)))/1e9))
	}
	fmt.Fprintf(out, "## %s\n\n%d patterns, %d pages of together %d KB, %d rounds.\n\n| | MB/s of processor time | found |\n|--|--:|--:|\n| shuultuur | %s | %d |\n| vectorscan %s| %s | %d |\n\n* target ≥ 0.6 × vectorscan: %.2f× (%.2f–%.2f)\n\n",
		matcherAbout, len(patterns), len(pages), size/1000, len(ratios), speed(own), found, version, speed(other), peerFound, middle(slices.Sorted(slices.Values(ratios))), slices.Min(ratios), slices.Max(ratios))
	return nil
}

// A scanner is the program that searches with Vectorscan.
type scanner struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	dir string
}

// startVectorscan compiles the program and starts it.
func startVectorscan(ctx context.Context, patterns []match.Pattern, pages []string) (s *scanner, version string, err error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, "", fmt.Errorf("%w: there is no C compiler", errMissing)
	}
	dir, err := os.MkdirTemp("", "shuultuur-bench-")
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	s = &scanner{dir: dir}
	source, program, list := filepath.Join(dir, "match.c"), filepath.Join(dir, "match"), filepath.Join(dir, "patterns")
	if err := os.WriteFile(source, vectorscan, 0o600); err != nil {
		return nil, "", err
	}
	if text, err := exec.CommandContext(ctx, cc, "-O2", "-I/usr/include/hs", "-I/usr/local/include/hs", "-o", program, source, "-lhs").CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("%w: install libvectorscan-dev: %.200s", errMissing, text)
	}
	var lines []byte
	for _, p := range patterns {
		exact := 0
		if p.Exact {
			exact = 1
		}
		lines = fmt.Appendf(lines, "%d %x\n", exact, p.Text)
	}
	if err := os.WriteFile(list, lines, 0o600); err != nil {
		return nil, "", err
	}
	s.cmd = exec.CommandContext(ctx, program, append([]string{list}, pages...)...)
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, "", err
	}
	s.out = bufio.NewReader(out)
	version, err = bufio.NewReader(stderr).ReadString(' ')
	return s, version, err
}

// scan searches all files once.
func (s *scanner) scan() (nanoseconds int64, found int, err error) {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return 0, 0, err
	}
	_, err = fmt.Fscan(s.out, &nanoseconds, &found)
	return nanoseconds, found, err
}

func (s *scanner) close() {
	s.in.Close()
	done := time.AfterFunc(5*time.Second, func() { _ = s.cmd.Process.Kill() })
	_ = s.cmd.Wait()
	done.Stop()
	os.RemoveAll(s.dir)
}
