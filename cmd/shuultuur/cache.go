package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"shuultuur/configuration"
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
		fmt.Fprintf(w, "  stored      in %s since %s: status %d, %d bytes%s\n", shown.Where, shown.Since.Local().Format(time.DateTime), shown.Status, shown.Bytes, printable(prefixed(", ", shown.Part)))
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

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
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
	in := e.stdin
	if name := f.Arg(0); name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return fail(e, err)
		}
		defer file.Close()
		in = file
	}
	w := warmer{env: e, client: &http.Client{Timeout: 10 * time.Minute, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), DisableCompression: true,
		// The gateway verifies the origin's certificate, and its own certificate is for
		// this machine. The answers are not used.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}}
	return w.run(ctx, in, *workers)
}

// A warmer fetches URLs.
type warmer struct {
	env
	client *http.Client
	mu     sync.Mutex
	counts struct{ stored, had, not, failed int }
}

func (w *warmer) run(ctx context.Context, in io.Reader, workers int) int {
	urls := make(chan string)
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for u := range urls {
				w.fetch(ctx, u)
			}
		})
	}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<20)
	for s.Scan() && ctx.Err() == nil {
		if u := strings.TrimSpace(s.Text()); u != "" && u[0] != '#' {
			urls <- u
		}
	}
	close(urls)
	work.Wait()
	c := w.counts
	fmt.Fprintf(w.stdout, "stored %d, had %d, cannot be stored %d, failed %d\n", c.stored, c.had, c.not, c.failed)
	if err := errors.Join(s.Err(), ctx.Err()); err != nil {
		return fail(w.env, err)
	}
	if c.failed > 0 {
		return 1
	}
	return 0
}

func (w *warmer) fetch(ctx context.Context, u string) {
	status, err := w.get(ctx, u)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.counts.failed++
		fmt.Fprintf(w.stderr, "%s: %v\n", printable(u), err)
	case strings.Contains(status, "; hit"), strings.Contains(status, "; collapsed"), strings.Contains(status, "; fwd-status=304"):
		w.counts.had++
	case strings.Contains(status, "; stored"):
		w.counts.stored++
	default:
		w.counts.not++
	}
}

func (w *warmer) get(ctx context.Context, u string) (status string, err error) {
	if p, err := url.Parse(u); err != nil || p.Scheme != "http" && p.Scheme != "https" {
		return "", errors.New("not a URL with http or https")
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return "", err
	}
	q.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	r, err := w.client.Do(q)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return "", err
	}
	if r.StatusCode >= 400 {
		return "", fmt.Errorf("status %s", r.Status)
	}
	return r.Header.Get("Cache-Status"), nil
}
