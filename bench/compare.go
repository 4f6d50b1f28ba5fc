package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dearer is how much more processor time a row may take than at the other commit.
const dearer = 1.03

// compareCommits measures this tree and that of another commit by turns, each with its own
// benchmarks, and prints what each row of ours costs relative to the other. It fails if a row is
// dearer by more than 3 %: by the median, and not by chance, that is in every round.
func compareCommits(ctx context.Context, args []string, opt options) error {
	if len(args) == 0 {
		return errors.New("compare with which commit?")
	}
	names := args[1:]
	if len(names) == 0 {
		for _, b := range benchmarks() {
			if b.short {
				names = append(names, b.name)
			}
		}
	}
	root, err := repository()
	if err != nil {
		return err
	}
	data, err := (&rig{root: root}).dataFolder() // relative to this tree, unless it is set
	if err != nil {
		return err
	}
	if err := os.Setenv("SHUULTUUR_DATA", data); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "shuultuur-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	old := filepath.Join(dir, "old")
	if out, err := exec.CommandContext(ctx, "git", "-C", root, "worktree", "add", "--detach", old, args[0]).CombinedOutput(); err != nil {
		return fmt.Errorf("check out %s: %w: %s", args[0], err, out)
	}
	defer exec.Command("git", "-C", root, "worktree", "remove", "--force", old).Run()
	programs := make([]string, 2)
	for i, tree := range []string{root, old} {
		programs[i] = filepath.Join(dir, "bench"+strconv.Itoa(i))
		build := exec.CommandContext(ctx, "go", "build", "-o", programs[i], ".")
		build.Dir = filepath.Join(tree, "bench")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the benchmarks of %s: %w: %s", tree, err, out)
		}
	}
	fmt.Printf("Processor time of %s relative to %s, by turns, medians and the range over %d rounds.\n\n| benchmark | row | figure | ratio | range |\n|---|---|---|--:|--:|\n",
		(&rig{root: root}).revision(), args[0], opt.rounds)
	var worse []string
	for _, name := range names {
		ratios, err := compareOne(ctx, name, opt, programs, []string{root, old})
		if err != nil {
			return fmt.Errorf("benchmark %s: %w", name, err)
		}
		for _, r := range ratios {
			slices.Sort(r.ratios)
			low, high := r.ratios[0], r.ratios[len(r.ratios)-1]
			fmt.Printf("| %s | %s | %s | %.3f | %.3f–%.3f |\n", name, r.row, r.figure, middle(r.ratios), low, high)
			if middle(r.ratios) > dearer && low > 1 {
				worse = append(worse, fmt.Sprintf("%s, %s, %s: %.3f", name, r.row, r.figure, middle(r.ratios)))
			}
		}
	}
	if len(worse) > 0 {
		return fmt.Errorf("dearer than at %s:\n%s", args[0], strings.Join(worse, "\n"))
	}
	return nil
}

// A ratio is the cost of one row relative to another commit, in each round.
type ratio struct {
	row, figure string
	ratios      []float64
}

// compareOne runs one benchmark at both commits by turns.
func compareOne(ctx context.Context, name string, opt options, programs, trees []string) (all []*ratio, err error) {
	for round := range opt.rounds {
		var rows [2][]measuredRow
		for _, i := range turns([]int{0, 1}, round) {
			var out, log bytes.Buffer
			cmd := exec.CommandContext(ctx, programs[i], name, "-rounds", "1", "-seconds", fmt.Sprint(opt.seconds), "-peers", subject)
			cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(trees[i], "bench"), &out, &log
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = 20 * time.Second
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("%w:\n%s", err, log.String()[max(0, log.Len()-2000):])
			}
			rows[i] = rowsOf(out.String())
		}
		all = addRatios(all, rows[0], rows[1])
	}
	if len(all) == 0 {
		return nil, errors.New("it has no row with processor time of ours")
	}
	return all, nil
}

// addRatios adds those of one round: for each row of ours that both have, each figure of
// processor time.
func addRatios(all []*ratio, now, then []measuredRow) []*ratio {
	for _, n := range now {
		at := slices.IndexFunc(then, func(t measuredRow) bool { return t.Table == n.Table && t.Row == n.Row })
		if at < 0 || !ofOurs(n.Row) {
			continue
		}
		for _, figure := range slices.Sorted(maps.Keys(n.Figures)) {
			a, b := number(n.Figures[figure]), number(then[at].Figures[figure])
			if !strings.Contains(figure, "CPU µs") || a <= 0 || b <= 0 {
				continue
			}
			i := slices.IndexFunc(all, func(r *ratio) bool { return r.row == n.Row && r.figure == figure })
			if i < 0 {
				i = len(all)
				all = append(all, &ratio{row: n.Row, figure: figure})
			}
			all[i].ratios = append(all[i].ratios, a/b)
		}
	}
	return all
}

// ofOurs reports whether a row is about this program: it has its name, or begins with that of a protocol.
func ofOurs(row string) bool {
	return strings.HasPrefix(row, subject) || strings.HasPrefix(row, "HTTP/") && strings.HasSuffix(row, subject)
}

// number reads a figure as tables print it, 0 if it is none.
func number(s string) float64 {
	v, _ := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
	return v
}
