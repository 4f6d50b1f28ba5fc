package phrase

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// A question is a set of lists, settings and pages whose scores are compared with those of
// Debian's e2guardian.
type question struct {
	weighted, banned, exception    string
	mode, filterMode, preserveCase int
	hex                            bool
	pages                          []string
}

func (q *question) String() string {
	return fmt.Sprintf("weightedphrasemode %d, phrasefiltermode %d, preservecase %d, hexdecodecontent %v\nweighted:\n%sbanned:\n%sexception:\n%s",
		q.mode, q.filterMode, q.preserveCase, q.hex, q.weighted, q.banned, q.exception)
}

// A guardian runs e2guardian once for each question, because it starts in milliseconds.
type guardian struct {
	version string
	shipped map[string]string // its settings files
	origin  *httptest.Server
	mu      sync.Mutex
	pages   []string // of the current question
}

func newGuardian(t *testing.T) *guardian {
	program := peer.Program(t, "e2guardian")
	out, _ := peer.Command(t, program, "-v").CombinedOutput()
	g := &guardian{version: strings.SplitN(string(out), "\n", 2)[0], shipped: map[string]string{}}
	for _, name := range []string{"e2guardian.conf", "e2guardianf1.conf", "examplef1.story", "preauth.story", "common.story", "site.story"} {
		b, err := os.ReadFile(filepath.Join("/etc/e2guardian", name))
		if err != nil {
			t.Skipf("e2guardian has other settings files than Debian's: %v", err)
		}
		g.shipped[name] = string(b)
	}
	g.origin = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, err := fmt.Sscanf(r.URL.Path, "/%d", &n)
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil || n >= len(g.pages) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, g.pages[n])
	}))
	t.Cleanup(g.origin.Close)
	return g
}

// settings returns a shipped settings file with some keys set and without its lists.
func (g *guardian) settings(name string, set map[string]string) string {
	var b strings.Builder
	for line := range strings.Lines(g.shipped[name]) {
		key, _, _ := strings.Cut(line, "=")
		if _, ours := set[strings.TrimSpace(key)]; !ours && !strings.HasSuffix(strings.TrimSpace(key), "list") {
			b.WriteString(line)
		}
	}
	for key, value := range set {
		fmt.Fprintf(&b, "\n%s = '%s'", key, value)
	}
	return b.String() + "\n"
}

// limitOf is the score above which e2guardian blocks in these tests.
const limitOf = 50

// ask returns e2guardian's answer for each page: its score, and whether it blocks the page. If
// another program takes its port at the same time, ask tries again.
func (g *guardian) ask(t *testing.T, q *question) []answer {
	t.Helper()
	var err error
	for range 3 {
		var answers []answer
		if answers, err = g.tryAsk(t, q); err == nil {
			return answers
		}
	}
	t.Fatalf("asking e2guardian: %v\n%v", err, q)
	return nil
}

func (g *guardian) tryAsk(t *testing.T, q *question) ([]answer, error) {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, []byte(text))
		return path
	}
	for _, name := range []string{"examplef1.story", "common.story", "site.story"} {
		put(name, strings.ReplaceAll(g.shipped[name], "/etc/e2guardian", dir))
	}
	put("e2guardianf1.conf", g.settings("e2guardianf1.conf", map[string]string{
		"naughtynesslimit": fmt.Sprint(limitOf), "storyboard": filepath.Join(dir, "examplef1.story"),
		"weightedphraselist": put("weighted", q.weighted), "bannedphraselist": put("banned", q.banned), "exceptionphraselist": put("exception", q.exception),
	}))
	hex := "off"
	if q.hex {
		hex = "on"
	}
	main := map[string]string{
		"filterip": "127.0.0.1", "checkip": "127.0.0.1", "httpworkers": "20",
		"loglocation": dir + "/access.log", "pidfilename": dir + "/pid", "ipcfilename": dir + "/ipc", "urlipcfilename": dir + "/urlipc",
		"filtergroupsdir": dir, "statlocation": dir + "/stats", "logfileformat": "1", "loglevel": "3", "preauthstoryboard": put("preauth.story", g.shipped["preauth.story"]),
		"daemonuser": "root", "daemongroup": "root",
		"weightedphrasemode": fmt.Sprint(q.mode), "phrasefiltermode": fmt.Sprint(q.filterMode), "preservecase": fmt.Sprint(q.preserveCase), "hexdecodecontent": hex,
	}
	g.mu.Lock()
	g.pages = q.pages
	g.mu.Unlock()
	proxy, stop := g.listen(t, filepath.Join(dir, "e2guardian.conf"), main)
	defer stop()
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for i := range q.pages {
		resp, err := client.Get(fmt.Sprintf("%s/%d", g.origin.URL, i))
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return readLog(t, filepath.Join(dir, "access.log"), len(q.pages)), nil
}

// listen starts e2guardian with settings written to conf and returns its address. If its ports
// were taken meanwhile, it tries others.
func (g *guardian) listen(t *testing.T, conf string, set map[string]string) (proxy *url.URL, stop func()) {
	t.Helper()
	var stderr strings.Builder
	for range 5 {
		port := peer.Port(t)
		set["filterports"], set["transparenthttpsport"] = port, peer.Port(t)
		write(t, conf, []byte(g.settings("e2guardian.conf", set)))
		cmd := peer.Command(t, "e2guardian", "-N", "-c", conf)
		cmd.Stdout, cmd.Stderr = &stderr, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		proxy := &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
		for {
			if c, err := net.Dial("tcp", proxy.Host); err == nil {
				c.Close()
				return proxy, func() {
					_ = cmd.Process.Kill() // it ends slowly when asked
					<-ended
				}
			}
			select {
			case <-ended:
			case <-time.After(2 * time.Millisecond):
				continue
			}
			break
		}
	}
	t.Fatalf("e2guardian does not start: %s", stderr.String())
	return nil, nil
}

var logLine = regexp.MustCompile(`http://127\.0\.0\.1:\d+/(\d+) (.*?)(?:GET) \d+ (-?\d+) `)

// readLog waits for n answers in e2guardian's log and returns them.
func readLog(t *testing.T, path string, n int) []answer {
	t.Helper()
	answers := make([]answer, n)
	waittest.Until(t, "e2guardian's log", func() bool {
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		defer f.Close()
		seen := 0
		for s := bufio.NewScanner(f); s.Scan(); {
			m := logLine.FindStringSubmatch(s.Text())
			if m == nil {
				t.Fatalf("a line of the log is not understood: %s", s.Text())
			}
			var i int
			_, _ = fmt.Sscan(m[1], &i)
			answers[i] = answer{Score: m[3], Blocked: strings.Contains(m[2], "DENIED")}
			seen++
		}
		return seen == n
	})
	return answers
}

// ours returns the answers of this check.
func (q *question) ours(t *testing.T) []answer {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "w"), []byte(q.weighted))
	write(t, filepath.Join(dir, "b"), []byte(q.banned))
	write(t, filepath.Join(dir, "e"), []byte(q.exception))
	c, err := New(Config{
		Weighted: located(dir, "w"), Banned: located(dir, "b"), Exception: located(dir, "e"), Compat: "e2guardian-5.3", NaughtynessLimit: limitOf,
		WeightedPhraseMode: &q.mode, PhraseFilterMode: &q.filterMode, PreserveCase: &q.preserveCase, HexDecodeContent: &q.hex,
	}, dir, noon)
	if err != nil {
		t.Fatalf("making the check: %v\n%v", err, q)
	}
	var answers []answer
	for _, page := range q.pages {
		found := scanPage(t, c, []byte(page))
		a := answerOf(found, limitOf)
		if a.Categories = ""; len(found) == 1 && found[0].Category == "exceptionphrase" {
			a.Categories = "exception"
		}
		answers = append(answers, a)
	}
	return answers
}

// compare compares the answers of both.
func (g *guardian) compare(t *testing.T, q *question) {
	t.Helper()
	theirs, ours := g.ask(t, q), q.ours(t)
	for i, page := range q.pages {
		got, want := ours[i], theirs[i]
		if want.Blocked && got.Blocked || got.Categories == "exception" {
			want.Score, want.Categories = got.Score, got.Categories // irrelevant for the verdict
		}
		if got != want {
			t.Errorf("page %q: got %+v, e2guardian answers %+v\n%v", page, got, want, q)
		}
	}
}

func TestScoresAreThoseOfE2guardian(t *testing.T) {
	g := newGuardian(t)
	list := "<alpha><1>\n<beta><2>\n<a b><4>\n<GAMMA><8>\n<caf\xc3\x89><16>\n"
	pages := []string{
		"<p>alpha beta a=b gamma</p></html>", "a@b </html>", "a.b </html>", "a/b </html>", "ALPHA GAMMA gamma </html>", "caf\xc3\x89 </html>",
		"<head><meta name=alpha content='beta'>        </head>a b</html>", "<title>alpha</title>         <body><title>beta</title></html>",
		"<title>a=b</title>         </head></html>", "<title>a.b</title>         </head></html>", "<title>a@b</title>         </head></html>",
		"<meta alpha <title>beta</title> gamma>         </head></html>", "<title>a </title><title> b</title>         </head></html>", "<title x=alpha>beta</title>         </head></html>",
	}
	for filterMode := range 4 {
		for _, preserveCase := range []int{1, 0} {
			some := pages
			if preserveCase == 0 { // it cannot fold UTF-8
				some = pages[:5:5]
				some = append(some, pages[6:]...)
			}
			g.compare(t, &question{weighted: list, mode: 2, filterMode: filterMode, preserveCase: preserveCase, pages: some})
		}
	}
}

// TestRandomScoresAreThoseOfE2guardian generates lists and pages, for the time in
// E2GUARDIAN_TIME.
func TestRandomScoresAreThoseOfE2guardian(t *testing.T) {
	race.Without(t)
	g := newGuardian(t)
	long := 2 * time.Second
	if s := os.Getenv("E2GUARDIAN_TIME"); s != "" {
		var err error
		if long, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("%s, random seed %#x", g.version, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	asked := 0
	for end := time.Now().Add(long); time.Now().Before(end) && !t.Failed(); {
		q := randomQuestion(r)
		asked += len(q.pages)
		g.compare(t, q)
	}
	t.Logf("compared %d pages", asked)
}

// randomQuestion generates a question that avoids the faults of e2guardian: folding of
// non-ASCII text, a second combination where occurrences count, and the end of a page or head.
func randomQuestion(r *rand.Rand) *question {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	q := &question{mode: 1 + r.IntN(2), filterMode: r.IntN(4), preserveCase: r.IntN(3), hex: r.IntN(4) == 0}
	words := []string{"ab", "ba", "aba", "sex", "Toy", "x", "big bang", "a=b", "a@b", "a.b", "a/b", "a-b", "a  b", "%61", "meta", "title"}
	if q.preserveCase == 1 {
		words = append(words, "caf\xc3\x89", "\xd1\x88", "\xc9t\xe9")
	}
	phrase := func() string {
		p := words[r.IntN(len(words))]
		if r.IntN(3) == 0 {
			p += pick("", " ") + words[r.IntN(len(words))]
		}
		return "<" + pick("", "", " ") + p + pick("", "", " ") + ">"
	}
	combinations := 0
	line := func(weight string) string {
		s := phrase()
		if r.IntN(5) == 0 && (q.mode == 2 || combinations == 0) {
			combinations++
			for range 1 + r.IntN(3) {
				s += "," + pick(phrase(), phrase(), s[strings.LastIndexByte(s, '<'):])
			}
		}
		return s + weight + "\n"
	}
	for range 1 + r.IntN(8) {
		q.weighted += line(fmt.Sprintf("<%s>", pick("1", "2", "7", "10", "30", "-5", "-20", "20%", "60")))
	}
	if r.IntN(4) == 0 {
		q.banned = line("")
	}
	if r.IntN(4) == 0 {
		q.exception = line("")
	}
	for range 20 {
		q.pages = append(q.pages, randomPage(r, append(words, "<", ">")))
	}
	return q
}

func randomPage(r *rand.Rand, words []string) string {
	var b strings.Builder
	for range 1 + r.IntN(30) {
		switch r.IntN(14) {
		case 0:
			b.WriteString([]string{"<b>", "</b>", "<img alt=\"sex ab\">", "<!-- ab -->", "<script>x</script>", "\n", "\t", "  ", "=", "&nbsp;", "%20", "%7", "%"}[r.IntN(13)])
		case 1:
			b.WriteString([]string{"<title>", "</title>", "<meta name=\"ab\" content=\"", "\">", "<meta ", ">", "        <body>", "        </head>"}[r.IntN(8)])
		case 2, 3, 4, 5, 6:
			b.WriteString(" ")
		default:
			b.WriteString(words[r.IntN(len(words))])
		}
	}
	return b.String() + ">        end</html>"
}
