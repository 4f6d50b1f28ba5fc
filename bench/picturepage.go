package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const picturePageAbout = "A page with 50 pictures in Chromium"

// The targets: how much longer loading the page may take than without the check.
const (
	pageKnown = 1.10
	pageNew   = 150 // ms
)

// picturePage loads a page of 50 pictures of 640 × 480 through gateways without the check,
// with known pictures, and with new ones. MODEL names a network, with its description beside
// it. Each load uses a new browser without stored data.
func picturePage(ctx context.Context, opt options, out io.Writer) error {
	browser, err := find("chromium")
	if err != nil {
		_, err = fmt.Fprintf(out, "### %s\n\n* left out, %v\n\n", picturePageAbout, err)
		return err
	}
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	dir, err := r.folder("picture-page")
	if err != nil {
		return err
	}
	program, err := r.build(dir)
	if err != nil {
		return err
	}
	origin, closeOrigin, err := pictureOrigin()
	if err != nil {
		return err
	}
	defer closeOrigin()
	look := "skin: true"
	about := "skin only"
	if model := os.Getenv("MODEL"); model != "" {
		look += ", model: " + model
		about = "skin and " + filepath.Base(model) + " where skin suggests it"
	}
	kinds := []struct{ name, checks, path string }{
		{"no check of pictures", "", "/page?known"},
		{"all pictures known", "checks: {picture: {" + look + "}}", "/page?known"},
		{"no picture known", "checks: {picture: {" + look + "}}", "/page?new="},
	}
	gateways := map[string]*pictureGateway{}
	for _, k := range kinds {
		if gateways[k.checks] == nil {
			if gateways[k.checks], err = r.beginPictures(program, dir, k.checks, len(gateways)); err != nil {
				return err
			}
		}
	}
	var rounds [][]pageLoad // by kind
	for round := range opt.rounds + 1 {
		now := make([]pageLoad, len(kinds))
		for i := range kinds {
			i = (i + round) % len(kinds) // change the order
			path := kinds[i].path
			if strings.HasSuffix(path, "=") {
				path += strconv.Itoa(round)
			}
			g := gateways[kinds[i].checks]
			before := g.cpu()
			if now[i].ms, err = loadPage(ctx, browser, dir, g.addr, origin+path); err != nil {
				return fmt.Errorf("%s: %w", kinds[i].name, err)
			}
			now[i].cpu = float64((g.cpu() - before).Milliseconds())
			time.Sleep(restOfPictures) // remaining pictures are judged now, and must not disturb the next load
			g.settle(ctx)
		}
		if round > 0 { // the first load makes pictures known
			rounds = append(rounds, now)
		}
	}
	fmt.Fprintf(out, "### %s\n\n640 × 480 pixels each, %s, the default patience of 300 ms, gateway, origin and browser on the same two cores; by turns, medians of %d loads, each with a new browser. The processor time is that of the gateway until the browser has ended. shuultuur %s.\n\n", picturePageAbout, about, opt.rounds, r.revision())
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return reportPageLoads(out, names, rounds)
}

// reportPageLoads writes a table of rounds. The first kind is without the check, the second
// with known pictures, the third with new ones.
func reportPageLoads(out io.Writer, names []string, rounds [][]pageLoad) error {
	fmt.Fprint(out, "| pictures | ms until loaded | range | CPU ms | than without the check |\n|--|--:|--:|--:|--:|\n")
	for i, name := range names {
		var ms []float64
		for _, now := range rounds {
			ms = append(ms, now[i].ms)
		}
		slices.Sort(ms)
		more := median(rounds, func(now []pageLoad) float64 { return now[i].ms - now[0].ms })
		fmt.Fprintf(out, "| %s | %.0f | %.0f–%.0f | %.0f | %+.0f ms |\n", name, middle(ms), ms[0], ms[len(ms)-1], median(rounds, func(now []pageLoad) float64 { return now[i].cpu }), more)
	}
	known := median(rounds, func(now []pageLoad) float64 { return now[1].ms / now[0].ms })
	fresh := median(rounds, func(now []pageLoad) float64 { return now[2].ms - now[0].ms })
	fmt.Fprintln(out)
	say(out, "≤ 1.1 × the time without the check, all known, median of rounds", known, "×", known <= pageKnown)
	say(out, fmt.Sprintf("≤ %d ms more, none known, median of rounds", pageNew), fresh, " ms", fresh <= pageNew)
	_, err := fmt.Fprintln(out)
	return err
}

// restOfPictures exceeds the delay of pictures that no request waits for.
const restOfPictures = 400 * time.Millisecond

// A pageLoad is one load of the page.
type pageLoad struct {
	ms, cpu float64 // until it was complete, and of the gateway
}

type pictureGateway struct {
	*process
	addr string
}

// beginPictures starts a gateway with some checks, on both cores.
func (r *rig) beginPictures(program, dir, checks string, n int) (*pictureGateway, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	rules := "[]"
	if checks != "" {
		rules = "[{name: skin, action: blur, category: [picture/skin], over: 95}]"
	}
	p, err := r.start("0,1", fmt.Sprintf("gateway-%d", n), addr, []string{program, "run", "-config", "FILE"},
		fmt.Sprintf("listen: {proxy: %s, admin: off}\ndata: %s\nproxy: {private: [127.0.0.0/8]}\n%s\npolicies: [{name: all, rules: %s}]\n", addr, filepath.Join(dir, fmt.Sprintf("data-%d", n)), checks, rules))
	return &pictureGateway{p, addr}, err
}

// pictureOrigin serves the page and its pictures. The pictures of a new page contain a comment
// that makes them different files.
func pictureOrigin() (url string, end func(), err error) {
	var all [][]byte
	for i := range 50 {
		b, err := photo(uint64(i), 640, 480)
		if err != nil {
			return "", nil, err
		}
		all = append(all, b)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><title>pictures</title><body onload="document.body.dataset.ms=performance.now()">`)
		for i := range all {
			fmt.Fprintf(w, `<img src="/%d.jpg?%s" width=160 height=120>`, i, q.URL.RawQuery)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(q.URL.Path, "/"), ".jpg"))
		if err != nil || i < 0 || i >= len(all) {
			http.NotFound(w, q)
			return
		}
		comment := q.URL.RawQuery
		w.Header().Set("Content-Type", "image/jpeg")
		_, _ = w.Write(append(append([]byte{0xff, 0xd8, 0xff, 0xfe, 0, byte(2 + len(comment))}, comment...), all[i][2:]...))
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String(), func() { _ = s.Close() }, nil
}

var loadedAfter = regexp.MustCompile(`data-ms="([0-9.]+)"`)

// loadPage loads a page in a browser and returns the milliseconds until it was complete.
func loadPage(ctx context.Context, browser, dir, proxy, url string) (float64, error) {
	profile, err := os.MkdirTemp(dir, "profile-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(profile)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+profile, "--proxy-server=http://"+proxy,
		"--proxy-bypass-list=<-loopback>", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--dump-dom", url)
	output, err := c.Output()
	if err != nil {
		return 0, err
	}
	m := loadedAfter.FindSubmatch(output)
	if m == nil {
		return 0, fmt.Errorf("the page was not loaded: %.300s", output)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
