//go:build !small

package picture

import (
	"bytes"
	"context"
	"encoding/base64"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/check/build"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/metric/metrictest"
	"shuultuur/lib/neural/nettest"
	"shuultuur/lib/setting"
)

// modelFile writes a model that returns the means of red and of green, and its description
// with some more lines.
func modelFile(t testing.TB, more string) setting.File {
	t.Helper()
	file := filepath.Join(t.TempDir(), "means.onnx")
	text := "name: means\nsize: 32x32\nstd: [255, 255, 255]\nlabels: [red, green]\nthresholds: {red: 0.5}\n" + more
	for name, b := range map[string][]byte{file: nettest.Means(32), file + ".yaml": []byte(text)} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return setting.File(file)
}

// plainColour returns a JPEG of one colour with a darker frame.
func plainColour(t testing.TB, c color.RGBA, side int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			m.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unlimitedMemory is a Memory without limits.
type unlimitedMemory struct {
	mu sync.Mutex
	m  map[[16]byte][]byte
}

func (m *unlimitedMemory) Get(_ context.Context, k [16]byte) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.m[k]
	return v, ok
}

func (m *unlimitedMemory) Put(_ context.Context, k [16]byte, v []byte, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[[16]byte][]byte{}
	}
	m.m[k] = bytes.Clone(v)
}

func newCheck(t testing.TB, cfg Config, m build.Memory) *Check {
	t.Helper()
	c, err := New(cfg, Parts{Memory: m})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func scoreOf(found []filter.Finding, category string) int {
	for _, f := range found {
		if f.Category == category {
			return f.Score
		}
	}
	return -1
}

func (c *Check) counted(result string) int {
	all, err := metrictest.Read(c)
	if err != nil {
		return -1
	}
	return int(all[`shuultuur_pictures_total{result="`+result+`"}`])
}

var (
	red   = color.RGBA{230, 20, 20, 255}
	dim   = color.RGBA{100, 20, 20, 255}
	every = new(int)
)

func TestTheModelScoresByItsLabelsAndThresholds(t *testing.T) {
	c := newCheck(t, Config{Model: modelFile(t, ""), Suspect: every}, nil)
	if n := scoreOf(find(t, c, plainColour(t, red, 200)), Explicit); n < 89 || n > 91 {
		t.Errorf("a red picture has %d, want 90", n)
	}
	if n := scoreOf(find(t, c, plainColour(t, dim, 200)), Explicit); n != 0 {
		t.Errorf("a picture below the threshold has %d, want 0", n)
	}
	bgr := newCheck(t, Config{Model: modelFile(t, "order: bgr\n"), Suspect: every}, nil)
	if n := scoreOf(find(t, bgr, plainColour(t, red, 200)), Explicit); n != 0 {
		t.Errorf("with blue first, a red picture has %d, want 0", n)
	}
}

func TestTheModelIsAskedWhenSignalsSuggestIt(t *testing.T) {
	limit := 50
	for name, c := range map[string]struct {
		b     []byte
		asked bool
	}{
		"much skin":  {skin(t), true},
		"none":       {plainColour(t, color.RGBA{20, 20, 230, 255}, 200), false},
		"no colours": {plainColour(t, color.RGBA{120, 120, 120, 255}, 200), true},
		"an icon":    {plainColour(t, red, 40), false},
	} {
		k := newCheck(t, Config{Model: modelFile(t, ""), Suspect: &limit}, nil)
		if got := scoreOf(find(t, k, c.b), Explicit) >= 0; got != c.asked {
			t.Errorf("%s: the model was asked: %v, want %v", name, got, c.asked)
		}
	}
}

func TestNoPictureIsJudgedTwiceByAFleet(t *testing.T) {
	m, model := new(unlimitedMemory), modelFile(t, "")
	a := newCheck(t, Config{Model: model, Suspect: every, Skin: true}, m)
	b := newCheck(t, Config{Model: model, Suspect: every, Skin: true}, m)
	first, second := find(t, a, skin(t)), find(t, b, skin(t))
	if len(first) != 2 || len(second) != 2 || first[1] != second[1] || b.counted("judged") != 0 || b.counted("known") != 1 {
		t.Errorf("found %v, then %v by the second check, which judged %d pictures", first, second, b.counted("judged"))
	}
	// The same picture, compressed once more.
	img, _, err := image.Decode(bytes.NewReader(photo(t, 1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := jpeg.Encode(&again, img, &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	find(t, a, photo(t, 1, 0))
	find(t, a, again.Bytes())
	if a.counted("near") != 1 || a.counted("asked") != 2 {
		t.Errorf("%d found near, %d asked, want 1 and 2", a.counted("near"), a.counted("asked"))
	}
	other := newCheck(t, Config{Model: model, Suspect: every}, m)
	if find(t, other, skin(t)); other.counted("known") != 0 {
		t.Error("a node with other settings takes the verdict")
	}
}

func TestAPagesPicturesCountForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 100
		c := newCheck(t, Config{Model: modelFile(t, ""), Suspect: &limit}, nil)
		c.suspect = 0
		page := "https://site.example/gallery"
		of := func(b []byte) []filter.Finding {
			x := response(b, "image/jpeg")
			x.Request.Fields = append(x.Request.Fields, message.Field{Name: []byte("Referer"), Value: []byte(page)})
			found, err := c.Find(t.Context(), x, filter.ResponseBody, nil)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		if n := scoreOf(of(plainColour(t, red, 200)), Page); n < 89 {
			t.Errorf("after one picture the page has the score %d, want at least 89", n)
		}
		if n := scoreOf(of(plainColour(t, red, 200)), Page); n > 91 {
			t.Errorf("after the same picture again the page has the score %d, want at most 91", n)
		}
		c.suspect = limit
		if n := scoreOf(of(plainColour(t, color.RGBA{200, 20, 60, 255}, 200)), Explicit); n < 0 {
			t.Error("the model is not asked about other pictures of an explicit page")
		}
		x := &filter.Transaction{URL: page, Request: &message.Request{Method: "GET"}}
		if !c.Wants(x, filter.Request) {
			t.Error("the page itself is not wanted")
		}
		if found, _ := c.Find(t.Context(), x, filter.Request, nil); scoreOf(found, Page) < 90 {
			t.Errorf("the request for the page found %v, want its score", found)
		}
		time.Sleep(pageTime + time.Second)
		if c.Wants(x, filter.Request) {
			t.Error("the score of the page outlived its time")
		}
	})
}

func TestSkinDoesNotCountTowardsAPageWhereTheModelWasAsked(t *testing.T) {
	const page = "http://test/garden"
	for name, c := range map[string]struct {
		found []filter.Finding
		want  int
	}{
		"skin alone":           {[]filter.Finding{{Category: Skin, Score: 80}}, 20},
		"skin, not explicit":   {[]filter.Finding{{Category: Skin, Score: 80}, {Category: Explicit}}, 0},
		"skin, and explicit":   {[]filter.Finding{{Category: Skin, Score: 80}, {Category: Explicit, Score: 60}}, 60},
		"listed, not explicit": {[]filter.Finding{{Category: Explicit}, {Category: Listed + "a"}}, 100},
	} {
		var p pages
		p.add(page, [32]byte{}, c.found)
		if got := p.score(page); got != c.want {
			t.Errorf("%s: the page has %d, want %d", name, got, c.want)
		}
	}
}

func TestAPictureThatIsJudgedLateCountsTowardsItsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCheck(t, Config{Model: modelFile(t, ""), Suspect: every, Workers: 1}, new(unlimitedMemory))
		c.jobs.slots <- struct{}{} // a picture that takes long
		x := response(plainColour(t, red, 200), "image/jpeg")
		x.Request.Fields = append(x.Request.Fields, message.Field{Name: []byte("Referer"), Value: []byte("http://test/page")})
		x.Verdict.Patience = time.Millisecond
		if found, err := c.Find(t.Context(), x, filter.ResponseBody, nil); err != nil || len(found) != 1 || found[0].Category != Unread {
			t.Fatalf("without patience the picture gave %v, %v; want unread", found, err)
		}
		<-c.jobs.slots
		time.Sleep(longestRest + time.Second)
		if n := c.pages.score("http://test/page"); n < 89 {
			t.Errorf("later the page has the score %d, want at least 89", n)
		}
	})
}

func TestAPictureIsHeldForThePatienceAndLearned(t *testing.T) {
	m := new(unlimitedMemory)
	c := newCheck(t, Config{Skin: true, Workers: 1}, m)
	c.jobs.slots <- struct{}{} // a picture that takes long
	b := skin(t)
	x := response(b, "image/jpeg")
	x.Verdict.Patience = time.Millisecond
	found, err := c.Find(t.Context(), x, filter.ResponseBody, nil)
	if err != nil || len(found) != 1 || found[0].Category != Unread || !strings.Contains(found[0].Evidence, "patience") {
		t.Fatalf("with short patience the picture gave %v, %v; want unread", found, err)
	}
	<-c.jobs.slots
	x.Verdict.Patience = 0
	if found, _ = c.Find(t.Context(), x, filter.ResponseBody, nil); scoreOf(found, Skin) < 50 {
		t.Errorf("the next request found %v, want the remembered verdict", found)
	}
	if n := c.counted("judged"); n != 1 {
		t.Errorf("the picture was judged %d times, want once", n)
	}
}

func TestPicturesOfAPageAreHeldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h holdLimits
		const patience = 300 * time.Millisecond
		join := func(client, page string, want time.Duration) *hold {
			t.Helper()
			got, b := h.join(holdKey{netip.MustParseAddr(client), page}, patience)
			if got != want {
				t.Errorf("a picture of %q is held for %v for %s, want %v", page, got, client, want)
			}
			return b
		}
		first := join("10.0.0.1", "http://a/", patience)
		join("10.0.0.1", "http://a/", patience/5)
		join("10.0.0.1", "http://b/", patience)
		join("10.0.0.2", "http://a/", patience)
		join("10.0.0.1", "", patience)
		join("10.0.0.1", "", patience/5)
		time.Sleep(60 * time.Millisecond)
		join("10.0.0.1", "http://a/", 0)
		select {
		case <-first.many:
			t.Errorf("%d pictures already count as many", few)
		default:
		}
		join("10.0.0.1", "http://a/", 0)
		<-first.many
		if got := first.remaining(patience); got != 0 {
			t.Errorf("the first of many is held for %v more", got)
		}
		time.Sleep(60 * time.Millisecond)
		join("10.0.0.1", "http://a/", 0)
		time.Sleep(burst - 100*time.Millisecond) // pictures go on coming
		join("10.0.0.1", "http://a/", patience)
		for i := range maxPages + 10 {
			join("10.0.0.3", strconv.Itoa(i), patience)
		}
		if len(h.by) > maxPages {
			t.Errorf("%d pages are remembered, want at most %d", len(h.by), maxPages)
		}
	})
}

// TestPicturesWithoutWaitingRequestsComeLast: the model first judges pictures of pages that are being
// loaded. It judges pictures that passed unread when no page is loading.
func TestPicturesWithoutWaitingRequestsComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newJobs(1)
		q.last = time.Now()
		left := &job{news: make(chan struct{}, 1)}
		begun := time.Now()
		if slot := q.turn(left); slot != q.spare || time.Since(begun) != quiet {
			t.Errorf("the model is asked after %v, want %v", time.Since(begun), quiet)
		}
		q.last = time.Now()
		begun = time.Now()
		go func() {
			time.Sleep(quiet / 2)
			left.waiting.Add(1)
			left.notifyWaiters()
		}()
		if slot := q.turn(left); slot != q.asks || time.Since(begun) != quiet/2 {
			t.Errorf("a picture that is wanted again waits for %v, want %v", time.Since(begun), quiet/2)
		}
		<-q.spare
		<-q.asks
		left.waiting.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		var pages sync.WaitGroup
		defer pages.Wait()
		defer cancel()
		pages.Go(func() { // endless
			for ctx.Err() == nil {
				q.mu.Lock()
				q.last = time.Now()
				q.mu.Unlock()
				time.Sleep(quiet / 2)
			}
		})
		begun = time.Now()
		if slot := q.turn(left); slot != q.spare || time.Since(begun) != longestRest {
			t.Errorf("beside pages without end the model is asked after %v, want %v", time.Since(begun), longestRest)
		}
	})
}

func TestPicturesInATextBeyondTheLimitAreUnread(t *testing.T) {
	c := newCheck(t, Config{Skin: true}, nil)
	one := `<img src="data:image/jpeg;base64,` + base64.StdEncoding.EncodeToString(skin(t)) + `">`
	for n, want := range map[int]bool{maxEmbedded: false, maxEmbedded + 1: true} {
		found, err := c.Find(t.Context(), response([]byte(strings.Repeat(one, n)), "text/html"), filter.ResponseBody, nil)
		if err != nil {
			t.Fatal(err)
		}
		unread := slices.ContainsFunc(found, func(f filter.Finding) bool { return f.Category == Unread })
		if unread != want {
			t.Errorf("with %d pictures one is unread: %v, want %v", n, unread, want)
		}
	}
}

func TestAPictureWithoutRoomIsUnread(t *testing.T) {
	c := newCheck(t, Config{Skin: true, Workers: 1}, nil)
	c.jobs.most = 0
	if found := find(t, c, skin(t)); len(found) != 1 || found[0].Evidence != "no capacity" {
		t.Errorf("without capacity the check found %v", found)
	}
	if c.counted("busy") != 1 {
		t.Error("the picture was not counted as busy")
	}
}

func TestPicturesInTextAreJudged(t *testing.T) {
	c := newCheck(t, Config{Skin: true}, nil)
	var b bytes.Buffer
	m := image.NewRGBA(image.Rect(0, 0, 200, 200))
	for i := range m.Pix {
		m.Pix[i] = uint8(i * i >> 3)
	}
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	data := "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(skin(t))
	noise := "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
	for media, text := range map[string]string{
		"image/svg+xml":    `<svg xmlns="http://www.w3.org/2000/svg"><image href="` + data + `"/></svg>`,
		"text/html":        `<p>text<img src='` + data + `'> <video poster="` + noise + `"></video>`,
		"text/css":         `a { background: url(` + data + `) }`,
		"application/json": `{"thumbnail": "` + strings.ReplaceAll(data, "/", `\/`) + `"}`,
		"text/javascript":  `document.images[0].src = "` + data + `"`,
	} {
		x := response([]byte(text), media)
		if !c.Wants(x, filter.ResponseBody) {
			t.Errorf("%s is not wanted", media)
		}
		found, err := c.Find(t.Context(), x, filter.ResponseBody, nil)
		if err != nil || scoreOf(found, Skin) < 50 || !strings.HasPrefix(found[0].Evidence, "data: URL 1: ") {
			t.Errorf("a data: URL in %s gave %v, %v", media, found, err)
		}
	}
}

func TestMistakesInDescriptionsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"size: 9\n":          "size:",
		"fit: squeeze\n":     "fit:",
		"mean: [1]\n":        "mean:",
		"std: [0, 1, 1]\n":   "std:",
		"labels: [a]\n":      "labels: the output of the model has 2 numbers",
		"thresholds: {x: 1}": `"x" is not one of the labels`,
		"kind: boxes\n":      "for boxes would be",
		"colour: red\n":      "colour",
		"output: 3\n":        "there is no output 3",
	} {
		file := modelFile(t, "")
		key, _, _ := strings.Cut(text, ":")
		var lines []string
		for _, l := range []string{"size: 32x32", "labels: [red, green]", "thresholds: {red: 0.5}"} {
			if key == "labels" && strings.HasPrefix(l, "thresholds") {
				l = "thresholds: {a: 0.5}"
			}
			if !strings.HasPrefix(l, key+":") {
				lines = append(lines, l)
			}
		}
		if err := os.WriteFile(string(file)+".yaml", []byte(strings.Join(lines, "\n")+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Model: file}, Parts{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".yaml") {
			t.Errorf("the description %q gave %v, want an error with %q", text, err, want)
		}
	}
	file := modelFile(t, "")
	if err := os.WriteFile(string(file), nettest.New(13, 1, 3, 32, 32).Op("GRU", "out", nil, "in").File("out"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Model: file}, Parts{}); err == nil || !strings.Contains(err.Error(), "GRU (1 times)") {
		t.Errorf("with an unsupported operator New returned %v", err)
	}
	if err := os.Remove(string(file) + ".yaml"); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Model: file}, Parts{}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without a description New returned %v", err)
	}
}
