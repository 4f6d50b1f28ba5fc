package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/tool/warm"
)

// cacheCommands are the subcommands of cache.
func cacheCommands() []command {
	return append(simulateCommands(),
		command{name: "look", args: "URL", what: "show what is stored for a URL, and what would happen", run: cacheLook},
		command{name: "warm", args: "FILE", what: "fetch the URLs of a file, one on a line, through the gateway", run: cacheWarm, here: ofLoad},
		command{name: "purge", args: "KIND X", what: "take out what is stored: of a url, prefix, host, tag or category", run: cachePurge})
}

func cacheCommand(ctx context.Context, e env, args []string) int {
	return group(ctx, e, "cache", "Asks the cache of the running gateway, fills it and empties it.", cacheCommands(), args)
}

func cacheLook(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "cache look", "[-config FILE] [-field \"NAME: VALUE\"] URL", "\nShows what the cache of the running gateway holds for URL, why and how fresh it\nis, and what would happen to a request.")
	config := f.String("config", "", "settings `file` of the gateway")
	asJSON := f.Bool("json", false, "write JSON")
	var fields []string
	f.Func("field", "`field` of the request, where responses vary by it; may be repeated", func(s string) error { fields = append(fields, s); return nil })
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	running, err := e.gateway(*config)
	if err != nil {
		return fail(e, err)
	}
	l, err := running.CacheLook(ctx, f.Arg(0), fields)
	if err != nil {
		return fail(e, err)
	}
	if *asJSON {
		e.stdout.Write(append(l, '\n'))
		return 0
	}
	var shown struct {
		URL, Where, Part, Age, Fresh, Why, Next string
		Stored                                  bool
		Status, Verdicts                        int
		Since                                   time.Time
		Bytes                                   int64
		Varies, Tags, Categories                []string
		Fields                                  [][]string
	}
	if err := json.Unmarshal(l, &shown); err != nil {
		return fail(e, err)
	}
	w := e.stdout
	fmt.Fprintln(w, printable(shown.URL))
	if len(shown.Varies) > 0 {
		fmt.Fprintf(w, "  varies by   %s\n", printable(strings.Join(shown.Varies, ", ")))
	}
	if shown.Stored {
		part := ""
		if shown.Part != "" {
			part = ", " + shown.Part
		}
		fmt.Fprintf(w, "  stored      in %s since %s: status %d, %d bytes%s\n", shown.Where, shown.Since.Local().Format(time.DateTime), shown.Status, shown.Bytes, printable(part))
		fmt.Fprintf(w, "  age         %s\n  fresh for   %s: %s\n", shown.Age, shown.Fresh, shown.Why)
		fmt.Fprintf(w, "  verdicts    %d\n", shown.Verdicts)
		for _, x := range [...]struct {
			name string
			list []string
		}{{"tags", shown.Tags}, {"categories", shown.Categories}} {
			if len(x.list) > 0 {
				fmt.Fprintf(w, "  %-11s %s\n", x.name, printable(strings.Join(x.list, ", ")))
			}
		}
		for _, x := range shown.Fields {
			fmt.Fprintf(w, "    %s\n", printable(strings.Join(x, ": ")))
		}
	}
	fmt.Fprintf(w, "  next        %s\n", shown.Next)
	if !shown.Stored {
		return 1
	}
	return 0
}

func cachePurge(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "cache purge", "[-config FILE] url|prefix|host|tag|category VALUE", "\nTakes out of the cache of the running gateway what is stored of a URL, of all\nURLs that begin with VALUE, of a host and everything below it, with a tag of the\norigin, or of hosts in a category.")
	config := f.String("config", "", "settings `file` of the gateway")
	if status := parse(args, 2, 2); status >= 0 {
		return status
	}
	running, err := e.gateway(*config)
	if err == nil {
		err = running.CachePurge(ctx, f.Arg(0), f.Arg(1))
	}
	if err != nil {
		return fail(e, err)
	}
	fmt.Fprintf(e.stdout, "purged %s %s\n", printable(f.Arg(0)), printable(f.Arg(1)))
	return 0
}

func cacheWarm(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "cache warm", "[-config FILE] FILE", "\nFetches the URLs of FILE, \"-\" for standard input, one on a line, through the\ngateway, so that they are stored. Policies judge these requests like any other.")
	config := f.String("config", "", "settings `file` of the gateway")
	workers := f.Int("workers", 4, "requests at once")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	if *workers < 1 {
		return reportMistake(e, f, "-workers is at least 1")
	}
	file := askedFile(*config)
	proxy, err := configuration.ProxyURL(file)
	if err != nil {
		return fail(e, err)
	}
	in, err := e.open(f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	defer in.Close()
	w := warm.Warmer{Proxy: proxy, Failed: func(u string, err error) { fmt.Fprintf(e.stderr, "%s: %v\n", printable(u), err) }}
	c, err := w.Run(ctx, in, *workers)
	fmt.Fprintf(e.stdout, "stored %d, had %d, cannot be stored %d, failed %d\n", c.Stored, c.Had, c.Not, c.Failed)
	if err != nil {
		return fail(e, err)
	}
	return min(c.Failed, 1)
}
