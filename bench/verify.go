package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// verify verifies that the subjects do the measured work. It returns notable facts about the
// others.
func (r *verifier) verify(all []*peer, s scenario) ([]string, error) {
	for _, p := range all {
		if p.filters && r.heavy == nil {
			var err error
			if r.heavy, err = heavyPage(filepath.Join(guardianFolder, "lists", "weightedphraselist")); err != nil {
				return nil, err
			}
		}
	}
	var notes []string
	for _, p := range all {
		fmt.Fprintf(os.Stderr, "verify %s\n", p.name)
		changed, plain, err := r.fidelity(p)
		if err != nil {
			return nil, fmt.Errorf("verify %s: %w", p.name, err)
		}
		if changed > 0 && p.filters {
			return nil, fmt.Errorf("verify %s: %d of %d pages do not come through as they are; nothing would be compared", p.name, changed, len(r.pages))
		}
		if changed > 0 {
			notes = append(notes, fmt.Sprintf("%s: changes %d of %d pages", p.name, changed, len(r.pages)))
		}
		if plain > 0 {
			notes = append(notes, fmt.Sprintf("%s: answers %d of %d pages without compression though the client accepts gzip", p.name, plain, len(r.pages)))
		}
		if !p.filters {
			continue
		}
		if err := r.blocks(p); err != nil {
			return nil, fmt.Errorf("verify %s: %w", p.name, err)
		}
	}
	return notes, nil
}

// client makes an ordinary client for a few fetches through a peer.
func (r *verifier) client(p *peer) *http.Client {
	t := &http.Transport{DisableCompression: true}
	if r.certs != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: r.certs.roots}
	}
	if p.proxy != "" {
		at := &url.URL{Scheme: "http", Host: p.proxy}
		if r.signIn == byPassword {
			at.User = url.UserPassword(benchUser, benchPassword)
		}
		t.Proxy = http.ProxyURL(at)
	}
	return &http.Client{Transport: t, Timeout: 30 * time.Second}
}

// answer is the response for a page.
type answer struct {
	code   int
	body   []byte // decoded
	zipped bool
}

func (r *verifier) fetch(c *http.Client, p *peer, path string, compressed bool) (answer, error) {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, cmp.Or(p.bridge, r.base())+path, nil)
	if err != nil {
		return answer{}, err
	}
	if compressed {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{code: resp.StatusCode, zipped: resp.Header.Get("Content-Encoding") == "gzip"}
	if a.body, err = io.ReadAll(resp.Body); err != nil || !a.zipped {
		return a, err
	}
	z, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return a, fmt.Errorf("decode %q: %w", path, err)
	}
	a.body, err = io.ReadAll(z)
	return a, err
}

// fidelity counts the pages that do not arrive as they are on disk, and those without the
// requested compression.
func (r *verifier) fidelity(p *peer) (changed, plain int, err error) {
	c := r.client(p)
	defer c.CloseIdleConnections()
	for _, name := range r.pages {
		want, err := os.ReadFile(filepath.Join(r.dir, "www", name))
		if err != nil {
			return 0, 0, err
		}
		same := true
		for _, compressed := range []bool{false, true} {
			got, err := r.fetch(c, p, "/"+url.PathEscape(name), compressed)
			if err != nil {
				return 0, 0, err
			}
			same = same && got.code == http.StatusOK && bytes.Equal(got.body, want)
			if compressed && !got.zipped {
				plain++
			}
		}
		if !same {
			changed++
		}
	}
	return changed, plain, nil
}

// blocks verifies that a filter inspects each response again: one address returns a harmless
// page, then a page of bad words, then the harmless one again. A filter that remembered its
// first verdict would let the second pass, so that its memory would be measured instead of its
// work. A filter that learns on purpose must also notice that the page has changed; a page
// that it has blocked stays blocked.
func (r *verifier) blocks(p *peer) error {
	c := r.client(p)
	defer c.CloseIdleConnections()
	harmless := []byte("<html><title>bread</title><p>Mix the flour with the water and wait.</p></html>")
	texts := [][]byte{harmless, r.heavy, harmless}
	if p.learns {
		texts = texts[:2]
	}
	for _, compressed := range []bool{false, true} {
		path := fmt.Sprintf("/verify/%s-%v.html", p.name, compressed)
		for i, text := range texts {
			if err := writePage(filepath.Join(r.dir, "www", path), text); err != nil {
				return err
			}
			got, err := r.fetch(c, p, path, compressed)
			if err != nil {
				return err
			}
			passed := bytes.Equal(got.body, text)
			if bad := i == 1; passed == bad {
				return fmt.Errorf("page of bad words %v (try %d), compressed %v: passed %v; it does not do the work that is to be timed", bad, i+1, compressed, passed)
			}
		}
	}
	return nil
}

// probe requests the page of bad words from a filter under load until over, because a filter
// may begin to let pages pass when it is overloaded.
func (r *verifier) probe(p *peer, over <-chan struct{}) error {
	c := r.client(p)
	defer c.CloseIdleConnections()
	path := "/verify/" + p.name + "-loaded.html"
	if err := writePage(filepath.Join(r.dir, "www", path), r.heavy); err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		got, err := r.fetch(c, p, path, false)
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		// Under load there may be an error instead of a response.
		if err == nil && bytes.Equal(got.body, r.heavy) {
			return fmt.Errorf("page of bad words passed under load (try %d): it does not do the work that is to be timed", tries)
		}
		select {
		case <-over:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var (
	includeLine  = regexp.MustCompile(`^\.Include<([^>]+)>`)
	weightedLine = regexp.MustCompile(`^<([ -;=?-~]+)><(\d+)>`)
)

// heavyPage makes a page of the plain phrases with the greatest weights that a list includes,
// far above the limit.
func heavyPage(list string) ([]byte, error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, fmt.Errorf("read phrases: %w", err)
	}
	need, err := strconv.Atoi(limit)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	page.WriteString("<html><title>words</title><body>\n")
	sum := 0
	for line := range strings.Lines(string(text)) {
		m := includeLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		phrases, err := os.ReadFile(m[1])
		if err != nil {
			return nil, fmt.Errorf("read phrases: %w", err)
		}
		for line := range strings.Lines(string(phrases)) {
			m := weightedLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			if weight, err := strconv.Atoi(m[2]); err == nil && weight >= 40 {
				fmt.Fprintf(&page, "<p> %s </p>\n", strings.TrimSpace(m[1]))
				sum += weight
			}
		}
	}
	page.WriteString("</body></html>\n")
	if sum < 3*need {
		return nil, errors.New("the phrases in " + list + " do not make a page that is surely blocked")
	}
	return page.Bytes(), nil
}
