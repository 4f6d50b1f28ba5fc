//go:build !small

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"shuultuur/cache/admission"
	"shuultuur/cache/simulate"
	"shuultuur/lib/setting"
)

const simulateHelp = `
Says what a cache would have done with the requests of LOG, "-" for standard
input: squid's access log, the combined log of web servers, events as JSON
lines, or a trace of time, object and size; also compressed with gzip. Each
policy of admission is tried at several sizes beside a plain LRU. The result is
exact, and logs with many millions of URLs are sorted in files.`

func cacheSimulate(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "cache simulate", "[flags] LOG", simulateHelp)
	asJSON := f.Bool("json", false, "write JSON")
	html := f.String("html", "", "write an HTML page with plots to `file`")
	sizes := f.String("sizes", "", "sizes to try, as a `list`: 1GiB,10GiB; default parts of all bytes")
	only := f.String("admission", "", "policies to try, as a `list`; default "+strings.Join(admission.Names(), ","))
	base := f.String("base", "", "`URL` of the site, for logs that have paths only: http://www.example.com")
	temp := f.String("temp", "", "`folder` for files; default the system's")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	o := simulate.Options{Temp: *temp, Base: *base}
	if *only != "" {
		o.Policies = strings.Split(*only, ",")
	}
	for s := range strings.SplitSeq(*sizes, ",") {
		if s == "" {
			continue
		}
		var n setting.Size
		if err := n.UnmarshalText([]byte(s)); err != nil || n <= 0 {
			return fail(e, fmt.Errorf("-sizes: %q is not a size", s))
		}
		o.Sizes = append(o.Sizes, int64(n))
	}
	if err := runSimulation(ctx, e, f.Arg(0), o, *asJSON, *html); err != nil {
		return fail(e, err)
	}
	return 0
}

func runSimulation(ctx context.Context, e env, file string, o simulate.Options, asJSON bool, html string) error {
	in, err := e.open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	t, err := simulate.Read(in, o.Temp, o.Base)
	if err != nil {
		return err
	}
	defer t.Close()
	r, err := simulate.Run(ctx, t, o)
	if err != nil {
		return err
	}
	if html != "" {
		f, err := os.Create(html)
		if err != nil {
			return err
		}
		if err := errors.Join(r.HTML(f), f.Close()); err != nil {
			return err
		}
	}
	if asJSON {
		out := json.NewEncoder(e.stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	return r.Table(e.stdout)
}
