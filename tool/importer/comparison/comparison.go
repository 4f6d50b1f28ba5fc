// Package comparison asks the rules of an imported program and the settings made of them the same
// questions, and says where their answers differ.
//
// Data moves as follows: [Run] draws names and URLs (sample.go) from the compiled lists of the
// result, from its settings and from the configuration that was imported, so that what the import
// lost is asked about as well. It finds the log that the configuration names (log.go), and has a
// [whatif.Comparison] judge both. The differences become a [report.Comparison] for each, which is
// printed and added to the report.
package comparison

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/netip"
	"os"
	"time"

	"shuultuur/filter"
	"shuultuur/tool/importer"
	"shuultuur/tool/importer/report"
	"shuultuur/whatif"
)

// Bounds on what is asked.
const (
	questions = 1000
	logged    = 200_000
	longest   = time.Minute // for the log
)

// Rules returns a judge that decides by the rules of the program at path, and what of them it cannot
// ask; nil if the program's rules cannot be read at all. nobody is the client of entries that have
// none. The returned function releases the rules.
func Rules(ctx context.Context, program, path string, nobody netip.Addr) (j *whatif.Judge, unknown []string, done func(), err error) {
	rules, ok, err := importer.NewSource(ctx, program, path)
	if err != nil || !ok {
		return nil, nil, func() {}, err
	}
	client := func(_ context.Context, x *whatif.Entry) filter.Client {
		addr := x.Client
		if !addr.IsValid() {
			addr = nobody
		}
		return filter.Client{Addr: addr, User: x.User}
	}
	name := fmt.Sprintf("the rules of %s in %s", program, path)
	return &whatif.Judge{Name: name, Decider: rules, Client: client}, rules.Unknown, func() { _ = rules.Close() }, nil
}

// drawn is what is asked about if there is no log.
const drawn = "names and URLs drawn from lists and settings"

// Run compares the rules of the program at path with those of ours, which an import has written into
// the folder to. Programs whose rules cannot be asked are compared by the verdicts of their log
// alone. The report gets what was found.
func Run(ctx context.Context, program, path, to string, ours whatif.Judge, r *report.Report) error {
	old, unknown, done, err := Rules(ctx, program, path, Nobody)
	if err != nil { // the import has read what it needs
		r.Comparisons = append(r.Comparisons, report.Comparison{Of: drawn, Failed: err.Error()})
		return ctx.Err()
	}
	defer done()
	if old != nil {
		s, err := draw(program, path, to)
		if err != nil {
			return err
		}
		if err := compare(ctx, r, drawn, unknown, old, ours, s.entries()); err != nil {
			return err
		}
	}
	log, err := openLog(program, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		r.Comparisons = append(r.Comparisons, report.Comparison{Of: "requests of a log", Failed: err.Error()})
		return nil
	case err != nil:
		return err
	}
	defer log.Close()
	err = compare(ctx, r, "requests of "+log.Name(), unknown, old, ours, most(logEntries(ctx, log)))
	if err != nil && ctx.Err() == nil { // a log of another form is no fault of the import
		r.Comparisons = append(r.Comparisons, report.Comparison{Of: "requests of " + log.Name(), Failed: err.Error()})
		return nil
	}
	return err
}

// compare adds to a report how old and new decide about entries.
func compare(ctx context.Context, r *report.Report, of string, unknown []string, old *whatif.Judge, ours whatif.Judge, entries iter.Seq2[whatif.Entry, error]) error {
	c := &whatif.Comparison{New: ours, Old: old, Outcome: true}
	found, err := c.Run(ctx, entries)
	if err != nil {
		return fmt.Errorf("comparing %s: %w", of, err)
	}
	x := report.Comparison{Of: of, Judged: found.Judged, Unknown: unknown}
	for _, d := range found.Changes {
		diff := report.Difference{Count: d.Count, Policy: d.Policy, Rule: d.Rule, Was: d.Was, Is: d.Is}
		for _, e := range d.Examples {
			diff.Examples = append(diff.Examples, whatif.Printable(e))
		}
		if refuses(d.Was) {
			x.Opened = append(x.Opened, diff)
			continue
		}
		x.Closed = append(x.Closed, diff)
	}
	r.Comparisons = append(r.Comparisons, x)
	return nil
}

// refuses reports whether an action lets no request pass.
func refuses(action string) bool {
	for a := filter.Pass; a < filter.Warn; a++ {
		if action == a.String() {
			return false
		}
	}
	return true
}

// most ends entries after a number of them, and after a time.
func most(entries iter.Seq2[whatif.Entry, error]) iter.Seq2[whatif.Entry, error] {
	return func(yield func(whatif.Entry, error) bool) {
		n, end := 0, time.Now().Add(longest)
		for e, err := range entries {
			if n++; n > logged || n%1024 == 0 && time.Now().After(end) || !yield(e, err) {
				return
			}
		}
	}
}

// exists reports whether there is a regular file.
func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
