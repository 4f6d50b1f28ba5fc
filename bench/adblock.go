package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shuultuur/check/category"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/list"
)

const adblockAbout = "Rules of ad blockers: EasyList and EasyPrivacy, asked about requests of web pages"

// The targets: processor time of a request relative to the peer's, and µs of processor time to
// look up the changes to a page.
const (
	adblockTarget = 1.2
	pageTarget    = 5.0
)

//go:embed adblockrust/Cargo.toml adblockrust/main.rs
var adblockRust embed.FS

// An adblockAsk is a request made by a page.
type adblockAsk struct{ typ, page, url string }

// An adblockRound is the result of one round.
type adblockRound struct {
	cost    float64 // µs of processor time per request
	blocked int     // blocked ones of all requests
}

// adblockers runs this program's check and adblock-rust in turn, each in one thread. Building
// the peer needs cargo and a crate registry.
func adblockers(ctx context.Context, opt options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "bench-adblock-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lists, asks, err := adblockData(dir)
	if err != nil {
		return err
	}
	ours, err := newAdblockCheck(ctx, dir, lists)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "### %s\n\n%s. %s\n`go run -C bench . adblock -rounds %d -seconds %g`, %d requests, one thread each, by turns.\n\n",
		adblockAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, len(asks))
	rust, err := startAdblockRust(ctx, dir, lists, asks)
	if err != nil {
		fmt.Fprintf(out, "* adblock-rust is left out: %v\n", err)
		rust = nil
	} else {
		defer rust.stop()
	}
	var we, they []adblockRound
	for range opt.rounds {
		r, err := ours.round(ctx, asks, opt.seconds)
		if err != nil {
			return err
		}
		we = append(we, r)
		if rust == nil {
			continue
		}
		if r, err = rust.round(len(asks), opt.seconds); err != nil {
			return err
		}
		they = append(they, r)
	}
	return printAdblock(out, we, they, ours.pages(asks, opt))
}

func printAdblock(out io.Writer, we, they []adblockRound, pages []float64) error {
	cost := func(r adblockRound) float64 { return r.cost }
	row := func(name string, all []adblockRound) {
		fmt.Fprintf(out, "| %s | %s | %s–%s | %d |\n", name, figure(median(all, cost)),
			figure(slices.MinFunc(all, lessCost).cost), figure(slices.MaxFunc(all, lessCost).cost), all[0].blocked)
	}
	fmt.Fprint(out, "| engine | µs of the processor for a request | range over rounds | blocked |\n|--|--:|--:|--:|\n")
	row(subject, we)
	verdict := func(reached bool) string {
		if reached {
			return "reached"
		}
		return "missed"
	}
	if len(they) > 0 {
		row("adblock-rust 0.10", they)
		var all []float64
		for i := range we {
			all = append(all, we[i].cost/they[i].cost)
		}
		slices.Sort(all)
		fmt.Fprintf(out, "\n* at most %g × adblock-rust's processor time for a request: %.2f× (%.2f–%.2f over rounds): **%s**\n",
			adblockTarget, middle(all), all[0], all[len(all)-1], verdict(middle(all) <= adblockTarget))
	}
	slices.Sort(pages)
	_, err := fmt.Fprintf(out, "\n* at most %g µs of the processor to look up what is changed in a page: %.1f µs (%.1f–%.1f over rounds): **%s**\n\n",
		pageTarget, middle(pages), pages[0], pages[len(pages)-1], verdict(middle(pages) <= pageTarget))
	return err
}
func lessCost(a, b adblockRound) int {
	switch {
	case a.cost < b.cost:
		return -1
	case a.cost > b.cost:
		return 1
	}
	return 0
}

// adblockData unpacks the lists and generates requests: those for the content of real pages,
// and two requests that match rules for every three of them.
func adblockData(dir string) (lists []string, asks []adblockAsk, err error) {
	r := new(rig)
	if r.root, err = repository(); err != nil {
		return nil, nil, err
	}
	data, err := r.dataFolder()
	if err != nil {
		return nil, nil, err
	}
	var rules []string
	for _, name := range []string{"easylist", "easyprivacy"} {
		packed, err := os.ReadFile(filepath.Join(data, "lists", name+".txt.gz"))
		if err != nil {
			return nil, nil, err
		}
		zr, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, nil, err
		}
		text, err := io.ReadAll(zr)
		if err != nil {
			return nil, nil, err
		}
		rules = append(rules, strings.Split(string(text), "\n")...)
		lists = append(lists, filepath.Join(dir, name+".txt"))
		if err := os.WriteFile(lists[len(lists)-1], text, 0o644); err != nil {
			return nil, nil, err
		}
	}
	pages, err := filepath.Glob(filepath.Join(data, "pages", "*.html"))
	if err != nil {
		return nil, nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, nil, err
		}
		asks = append(asks, asksOfPage(text)...)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	ours := len(asks)
	for len(asks) < ours*5/3 {
		if a, ok := askOfRule(rules[rnd.IntN(len(rules))], asks[rnd.IntN(ours)].page, rnd.Uint32()); ok {
			asks = append(asks, a)
		}
	}
	rnd.Shuffle(len(asks), func(i, j int) { asks[i], asks[j] = asks[j], asks[i] })
	return lists, asks, nil
}

var (
	pageAddress = regexp.MustCompile(`(?i)<(?:link[^>]*rel="canonical"[^>]*href|meta[^>]*property="og:url"[^>]*content)="(https?://[^"/]+[^"]*)"`)
	pagePart    = regexp.MustCompile(`(?i)<(script|img|link|iframe)[^>]*?\b(?:src|href)="((?:https?:)?//[^"\s]+)"`)
	partTypes   = map[string]string{"script": "script", "img": "image", "link": "stylesheet", "iframe": "subdocument"}
)

// asksOfPage returns the requests for the content of a page.
func asksOfPage(text []byte) (asks []adblockAsk) {
	page := "https://www.example.com/"
	if m := pageAddress.FindSubmatch(text); m != nil {
		page = string(m[1])
	}
	for _, m := range pagePart.FindAllSubmatch(text, -1) {
		u := strings.ReplaceAll(string(m[2]), "&amp;", "&")
		if strings.HasPrefix(u, "//") {
			u = "https:" + u
		}
		if p, err := url.Parse(u); err == nil && p.Host != "" {
			asks = append(asks, adblockAsk{partTypes[strings.ToLower(string(m[1]))], page, u})
		}
	}
	return asks
}

// askOfRule generates a request that a rule may match.
func askOfRule(rule, page string, n uint32) (a adblockAsk, ok bool) {
	if rule == "" || strings.HasPrefix(rule, "!") || strings.HasPrefix(rule, "@@") || strings.Contains(rule, "#") || strings.HasPrefix(rule, "/") && strings.HasSuffix(rule, "/") {
		return a, false
	}
	pattern, options, _ := strings.Cut(rule, "$")
	a = adblockAsk{"script", page, ""}
	for option := range strings.SplitSeq(options, ",") {
		switch name, value, _ := strings.Cut(option, "="); name {
		case "image", "stylesheet", "subdocument", "xmlhttprequest", "ping", "websocket", "media", "font", "other":
			a.typ = name
		case "domain":
			if site, _, _ := strings.Cut(value, "|"); !strings.HasPrefix(site, "~") {
				a.page = "https://www." + site + "/"
			}
		}
	}
	pattern = strings.NewReplacer("^", "/", "*", fmt.Sprintf("%x", n), "|", "").Replace(strings.TrimPrefix(pattern, "||"))
	switch {
	case strings.HasPrefix(rule, "||"):
		a.url = "https://" + pattern
	case strings.HasPrefix(rule, "|"):
		a.url = pattern
	default:
		a.url = fmt.Sprintf("https://cdn%d.example.net/static/%s", n%7, pattern)
	}
	a.url += fmt.Sprintf("x%d.js?v=%x", n%97, n)
	u, err := url.Parse(a.url)
	return a, err == nil && u.Host != "" && !strings.ContainsAny(a.url, " \t")
}

// An adblockCheck is the check as used by the proxy.
type adblockCheck struct {
	check *category.Check
	files []*list.File
}

func newAdblockCheck(ctx context.Context, dir string, lists []string) (*adblockCheck, error) {
	c := &adblockCheck{}
	files := map[string]*list.File{}
	var names []string
	for _, path := range lists {
		dst := path + ".list"
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if _, err := list.Compile(ctx, name, list.Config{Format: list.Adblock, Path: setting.Source(path), Category: "ads"}, dst); err != nil {
			return nil, err
		}
		f, err := list.Open(dst)
		if err != nil {
			return nil, err
		}
		files[name] = f
		c.files = append(c.files, f)
		names = append(names, name)
	}
	var err error
	c.check, err = category.New(category.Config{Lists: names}, files)
	return c, err
}

// secFetchDest has the value that a browser sends for a type.
var secFetchDest = map[string]string{
	"image": "image", "stylesheet": "style", "subdocument": "iframe", "xmlhttprequest": "empty", "script": "script",
	"ping": "report", "websocket": "websocket", "media": "video", "font": "font", "other": "manifest",
}

// round judges all requests for some seconds, as the proxy does: first the host, then the
// request.
func (c *adblockCheck) round(ctx context.Context, asks []adblockAsk, seconds float64) (adblockRound, error) {
	all := make([]filter.Transaction, len(asks))
	for i, a := range asks {
		u, err := url.Parse(a.url)
		if err != nil {
			return adblockRound{}, err
		}
		q := &message.Request{Method: "GET", Path: []byte(u.RequestURI())}
		q.Add("Host", u.Host)
		q.Add("Referer", a.page)
		q.Add("Sec-Fetch-Dest", secFetchDest[a.typ])
		all[i] = filter.Transaction{Host: strings.ToLower(u.Hostname()), URL: a.url, Request: q, Last: filter.ResponseBody, Terse: true}
	}
	times, blocked := 0, 0
	found := make([]filter.Finding, 0, 16)
	start := processorTime()
	for processorTime()-start < time.Duration(seconds*float64(time.Second)) {
		times++
		blocked = 0
		for i := range all {
			t := &all[i]
			t.Findings = nil
			var err error
			for _, stage := range []filter.Stage{filter.Name, filter.Request} {
				if found, err = c.check.Find(ctx, t, stage, found[:len(t.Findings)]); err != nil {
					return adblockRound{}, err
				}
				t.Findings = found
			}
			if slices.ContainsFunc(found, func(f filter.Finding) bool { return f.Category == "ads" }) {
				blocked++
			}
			found = found[:0]
		}
	}
	return adblockRound{microseconds(processorTime()-start, times*len(all)), blocked}, nil
}

// pages returns for each round the µs of processor time to look up the changes to the pages
// from which the requests come.
func (c *adblockCheck) pages(asks []adblockAsk, opt options) (cost []float64) {
	pages := list.NewPages(c.files)
	var page filter.Changes
	pages.Look("https://example.com/", false, &page) // makes the style sheet for all pages
	for range opt.rounds {
		times := 0
		start := processorTime()
		for processorTime()-start < time.Duration(opt.seconds*float64(time.Second)) {
			times++
			for _, a := range asks {
				pages.Look(a.page, false, &page)
			}
		}
		cost = append(cost, microseconds(processorTime()-start, times*len(asks)))
	}
	return cost
}

func microseconds(took time.Duration, n int) float64 {
	return float64(took.Nanoseconds()) / 1000 / float64(n)
}

// processorTime returns the processor time used by this process.
func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// An adblockDriver is the program that runs adblock-rust.
type adblockDriver struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startAdblockRust(ctx context.Context, dir string, lists []string, asks []adblockAsk) (*adblockDriver, error) {
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		return nil, fmt.Errorf("%w: cargo", errMissing)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	build := filepath.Join(cache, "shuultuur-bench", "adblockrust")
	if err := os.MkdirAll(build, 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{"Cargo.toml", "main.rs"} {
		text, err := adblockRust.ReadFile("adblockrust/" + name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(build, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	make := exec.CommandContext(ctx, cargo, "build", "--quiet", "--release")
	make.Dir = build
	if output, err := make.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the driver: %w: %.500s", err, output)
	}
	var b strings.Builder
	for _, a := range asks {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", a.typ, a.page, a.url)
	}
	requests := filepath.Join(dir, "requests")
	if err := os.WriteFile(requests, []byte(b.String()), 0o644); err != nil {
		return nil, err
	}
	d := &adblockDriver{cmd: exec.CommandContext(ctx, filepath.Join(build, "target", "release", "adblockrust"), append([]string{requests}, lists...)...)}
	d.cmd.Stderr = os.Stderr
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewReader(out)
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = d.out.ReadString('\n') // the driver is ready
	return d, err
}

func (d *adblockDriver) stop() {
	d.in.Close()
	_ = d.cmd.Wait() // its output was read
}

// round judges once to measure the duration, then for about some seconds.
func (d *adblockDriver) round(requests int, seconds float64) (r adblockRound, err error) {
	var took time.Duration
	times := 1
	for range 2 {
		if _, err := fmt.Fprintln(d.in, times); err != nil {
			return r, err
		}
		line, err := d.out.ReadString('\n')
		if err != nil {
			return r, err
		}
		var ns int64
		if _, err := fmt.Sscan(line, &ns, &r.blocked); err != nil {
			return r, err
		}
		took = time.Duration(ns)
		r.cost = microseconds(took, times*requests)
		times = max(1, int(seconds*float64(time.Second)/float64(took)))
	}
	return r, nil
}
