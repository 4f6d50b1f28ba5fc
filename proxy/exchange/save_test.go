package exchange

import (
	"io"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/saved"
)

const browser = "GET http://x.test/setup.exe HTTP/1.1\r\nHost: x.test\r\nAccept: text/html,*/*\r\n\r\n"

// download makes x begin a download of pieces.
func download(t *testing.T, x *Exchange, head string, b *slow, fields ...string) (answer, s *message.Response, err error) {
	t.Helper()
	read(t, x, head)
	x.T.Host, x.T.URL, x.T.Client.Addr = "x.test", "http://x.test/setup.exe?x=1", netip.MustParseAddr("192.0.2.1")
	s = slowResponse("application/octet-stream", b)
	for i := 0; i < len(fields); i += 2 {
		s.Add(fields[i], fields[i+1])
	}
	if pass, inspect := x.JudgeResponse(t.Context(), s); !pass || !inspect {
		t.Fatal("JudgeResponse does not want to inspect the download")
	}
	answer, err = x.InspectResponse(t.Context(), s)
	return answer, s, err
}

func TestADownloadIsCheckedWholeBehindAPageAndThenLedTo(t *testing.T) {
	piece := strings.Repeat("x", 50_000)
	for name, tt := range map[string]struct {
		head   string
		held   int
		pieces []string
		pause  time.Duration
		fields []string
		page   bool
		want   string // on the page
		err    error
	}{
		"slow and larger than is held":   {browser, 60_000, []string{piece, piece, piece}, time.Second, nil, true, "setup.exe", nil},
		"slow and small":                 {browser, 1 << 20, []string{"a", "b", "c"}, time.Second, []string{"Content-Disposition", `attachment; filename="a.bin"`}, true, "a.bin", nil},
		"quick and larger than is held":  {browser, 60_000, []string{piece, piece, piece}, time.Millisecond, nil, false, "", nil},
		"quick and small":                {browser, 1 << 20, []string{"a", "b", "c"}, time.Millisecond, nil, false, "", nil},
		"slow and bad at its end":        {browser, 60_000, []string{piece, piece, piece, "bad"}, time.Second, nil, true, "is not available", nil},
		"quick and bad at its end":       {browser, 60_000, []string{piece, piece, piece, "bad"}, time.Millisecond, nil, false, "", ErrRefused},
		"larger than there is disk":      {browser, 60_000, []string{strings.Repeat(piece, 120), piece, piece, piece}, time.Second, nil, true, "could not be completed", nil},
		"quickly larger than there is":   {browser, 60_000, []string{strings.Repeat(piece, 120), piece}, time.Millisecond, nil, false, "", saved.ErrFull},
		"asked for by a program":         {strings.Replace(browser, "text/html,", "", 1), 60_000, []string{piece, piece, piece}, time.Second, nil, false, "", nil},
		"a range":                        {strings.Replace(browser, "Accept", "Range: bytes=5-\r\nAccept", 1), 60_000, []string{piece, piece, piece}, time.Second, nil, false, "", nil},
		"in a frame that nobody may see": {strings.Replace(browser, "Accept", "Sec-Fetch-Dest: iframe\r\nAccept", 1), 60_000, []string{piece, piece, piece}, time.Second, nil, false, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, i := begin(t, Config{Held: 60_000, Downloads: 6 << 20, Folder: t.TempDir()}, bad("bad"))
				x.in.held = int64(tt.held)
				answer, s, err := download(t, x, tt.head, slowly(tt.pause, tt.pieces...), tt.fields...)
				if err != tt.err || (answer != nil) != tt.page {
					t.Fatalf("InspectResponse: page for the client %v, error %v", answer != nil, err)
				}
				whole := strings.Join(tt.pieces, "")
				if err != nil {
					return
				}
				if !tt.page {
					if got := all(t, s.Body); got != whole {
						t.Errorf("a quick download passed %d bytes, want %d", len(got), len(whole))
					}
					return
				}
				page := all(t, answer.Body)
				if tt.pause > 0 && strings.Count(page, "<section") < 2 || !strings.Contains(page, "MB received") {
					t.Errorf("no progress on the page: %s", page)
				}
				link := regexp.MustCompile(`<a class="button" href="(/[^"]+)"`).FindStringSubmatch(page)
				if link == nil {
					if strings.Contains(page, savePath) || !strings.Contains(page, tt.want) {
						t.Errorf("the page has a link to the file, or not its result: %s", page)
					}
					if x.T.Verdict.Action != filter.Block {
						t.Errorf("verdict on record: got %+v, want block", x.T.Verdict)
					}
					return
				}
				fetch(t, x, link[1], tt.want, whole)
				if bytes, files := kept(i); bytes == 0 || files != 1 {
					t.Errorf("while the file is kept, %d bytes of %d files are counted, want those of 1", bytes, files)
				}
				time.Sleep(saved.KeptFor + time.Second)
				if bytes, files := kept(i); bytes != 0 || files != 0 {
					t.Errorf("%d bytes of %d files are still counted at the end", bytes, files)
				}
			})
		})
	}
}

// kept is the set of downloads that i keeps for clients, or is about to.
func kept(i *Inspector) (bytes int64, files int) {
	return i.saved.Used()
}

// fetch follows the link of a page, as its client and as another.
func fetch(t *testing.T, x *Exchange, path, name, whole string) {
	t.Helper()
	for client, status := range map[string]int{"192.0.2.1": 200, "192.0.2.2": 404} {
		x.End()
		x.Begin(x.Engine, time.Now(), "second")
		read(t, x, "GET http://x.test"+path+" HTTP/1.1\r\nHost: x.test\r\n\r\n")
		x.T.Client.Addr = netip.MustParseAddr(client)
		s := Download(x)
		if s == nil {
			t.Fatalf("Download(%s) = nil, want a response", path)
		}
		body := all(t, s.Body)
		if s.Status != status {
			t.Errorf("client %s: status %d, want %d", client, s.Status, status)
		}
		if status == 200 && (body != whole || !strings.Contains(string(s.Get("Content-Disposition")), name) || string(s.Get("Content-Type")) != "application/octet-stream") {
			t.Errorf("the file has %d of %d bytes, fields %s", len(body), len(whole), s.Fields)
		}
	}
	x.End() // readers of a file keep it
}

func TestADownloadEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, i := begin(t, Config{Held: 60_000, Folder: t.TempDir()}, bad("bad"))
		b := slowly(time.Hour, "a", "b")
		answer, s, err := download(t, x, browser, b)
		if answer == nil || err != nil {
			t.Fatalf("a download: got answer %v, %v, want one", answer, err)
		}
		if _, err := io.ReadFull(answer.Body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		x.Interrupt = func() { b.Close() }
		s.Body.Close()
		x.End()
		if bytes, files := kept(i); time.Since(x.T.Start) > time.Minute || bytes != 0 || files != 0 {
			t.Errorf("after %v, %d bytes of %d files are still counted", time.Since(x.T.Start), bytes, files)
		}
	})
}

func TestADownloadThatFindsNoRoomPassesPieceByPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, i := begin(t, Config{Held: 60_000, Downloads: 1 << 20, Folder: t.TempDir()}, bad("bad"))
		b := slowly(time.Second, "a", "b", "c")
		b.left = 2 << 20
		answer, s, err := download(t, x, browser, b)
		if answer != nil || err != nil {
			t.Fatalf("a download without room for it: got answer %v, %v, want none", answer, err)
		}
		if got := all(t, s.Body); got != "abc" || i.counters[downloadsFull].Load() != 1 || !strings.Contains(x.T.Note, "proxy.downloads") {
			t.Errorf("download without room: passed %q, note %q", got, x.T.Note)
		}
	})
}
