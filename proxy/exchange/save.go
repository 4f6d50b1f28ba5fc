package exchange

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"path"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/fair"
	"shuultuur/lib/message"
	"shuultuur/proxy/page"
	"shuultuur/proxy/saved"
)

// This file handles downloads that are judged as a whole before the client gets any byte. If
// that takes longer than a moment, the download goes to a file. Until it is judged, a browser
// shows a page with its progress, which then leads to the file.

const (
	// savePath is the path to the file, on the host of the download.
	savePath = "/.well-known/shuultuur/download/"
	// saveWait is how long a client waits for the file itself before it gets the page.
	saveWait = 2 * time.Second
	// saveEvery is the interval of progress reports on the page.
	saveEvery = time.Second
)

var errSaveLeft = errors.New("client went away before its download was judged")

// Download answers a request for a kept file; it returns nil for any other request.
func Download(x *Exchange) *message.Response {
	if x.in.saved == nil || !bytes.HasPrefix(x.Q.Path, []byte(savePath)) {
		return nil
	}
	v := &x.T.Verdict
	v.Action = filter.Allow // it was already judged
	v.Reason.Finding = filter.Finding{Check: "proxy", Category: "download"}
	key, _, _ := strings.Cut(string(x.Q.Path[len(savePath):]), "?")
	f := x.in.saved.Find(key, &x.T.Client)
	if f == nil {
		return x.Fail(404, "The file is no longer here. Download it again.", "a download that is not kept, or is another client's")
	}
	s := x.Reply(200, "", nil)
	s.Del("Content-Length")
	s.Fields = append(s.Fields, f.Fields...)
	s.Add("Content-Length", strconv.FormatInt(f.Size(), 10))
	s.Length, s.Body = f.Size(), f.Body(nil)
	x.kept = f
	return s
}

// isDownload reports whether the body of s is a file that a browser saves: it is not shown in a
// page, no other request waits for it, and it fits.
func isDownload(x *Exchange, s *message.Response) bool {
	q := &x.Q
	if x.in.saved == nil || s.Status != 200 || x.part.combined || q.Get("Range") != nil || q.Method != "GET" && q.Method != "POST" {
		return false
	}
	if dest := q.Get("Sec-Fetch-Dest"); string(dest) != "document" && (dest != nil || !bytes.HasPrefix(q.Get("Accept"), []byte("text/html"))) {
		return false
	}
	disposition, _, _ := mime.ParseMediaType(string(s.Get("Content-Disposition")))
	return (disposition == "attachment" || !shown(x.T.Content().Type())) && !x.T.Content().IsStream()
}

// shown reports whether browsers show, or may show, a media type.
func shown(typ string) bool {
	kind, sub, _ := strings.Cut(typ, "/")
	if kind != "application" {
		return kind != "model" && kind != "chemical"
	}
	switch sub {
	case "pdf", "json", "xml", "javascript", "x-javascript", "ecmascript", "wasm", "x-shockwave-flash", "vnd.apple.mpegurl", "x-mpegurl":
		return true
	}
	return strings.HasSuffix(sub, "+xml") || strings.HasSuffix(sub, "+json")
}

// A heldDownload is a download that is judged before its client gets any of it. A goroutine reads
// it, which ends with the source or by stop.
type heldDownload struct {
	x      *Exchange
	b      *inspection
	s      *message.Response
	size   int64 // of the body, 0 if unknown
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine ends

	// The following belong to the goroutine until ended is closed.
	file *saved.File // nil if all of it is in memory
	err  error
	why  error // why there is no file

	out  []byte // bytes of the page to read next
	over bool   // nothing follows out
}

// save judges the body of s as a whole. It returns the page for the client, nil if s can be
// forwarded; ok reports whether there was room.
func save(ctx context.Context, x *Exchange, s *message.Response) (answer *message.Response, ok bool, err error) {
	b, t := &x.download, &x.T
	n := max(s.Body.Remaining(), 0)
	room := x.in.saved.Claim(&t.Client, n)
	if room == nil {
		x.in.counters[downloadsFull].Add(1)
		x.Note(saved.ErrFull.Error() + ": it passes in pieces")
		return nil, false, nil
	}
	d := &heldDownload{x: x, b: b, s: s, size: n, ended: make(chan struct{})}
	ctx, d.cancel = context.WithCancel(ctx)
	b.begin(x, ctx, s.Body, filter.ResponseBody)
	b.store.room = room
	b.content.Reset(t.Content(), x.in.limits(&b.windows))
	if n > 0 {
		b.content.Expect(n)
	}
	b.own = *t // t belongs to the connection
	b.own.Body = &b.content
	b.own.Findings = append([]filter.Finding(nil), t.Findings...)
	b.own.Monitored = append([]filter.Reason(nil), t.Monitored...)
	b.own.Signatures = append([]uint32(nil), t.Signatures...)
	b.t = &b.own
	x.saving, s.Body = d, d
	go d.run()
	timer := time.NewTimer(saveWait)
	defer timer.Stop()
	select {
	case <-d.ended:
		if err := d.settle(); err != nil {
			return nil, true, err
		}
		if s.Body = message.Body(b); d.file != nil {
			s.Body, s.Length = d.file.Body(b), d.file.Size()
		}
		return nil, true, nil
	case <-timer.C:
	}
	x.in.counters[downloadPages].Add(1)
	p := x.page(200)
	kind, text := x.Engine.Pages.Render(page.Wait, page.Document, &p)
	answer = x.Reply(200, kind, nil, "Content-Security-Policy", x.Engine.Pages.Policy(page.Wait, page.Document))
	answer.Del("Content-Length")
	answer.Length, answer.Body = message.Chunked, (*savingPage)(d)
	d.out = text
	return answer, true, nil
}

// Stored returns the store of verdicts on the body, nil if the body does not come from a
// store.
func (d *heldDownload) Stored() filter.Stored { return d.b.Stored() }

// run reads the body.
func (d *heldDownload) run() {
	defer close(d.ended)
	defer func() {
		if r := recover(); r != nil {
			d.err = errors.New("internal error while a download was judged")
		}
	}()
	b := d.b
	if _, d.err = b.fill(0); d.err == nil {
		d.err = b.advance()
	}
	if d.err == nil && !b.over {
		d.err = d.spill()
	}
}

// spill moves the body to a file.
func (d *heldDownload) spill() error {
	if d.file = d.b.store.take(); d.file == nil {
		f, err := d.b.store.room.Create()
		if err != nil {
			d.why = err
			return saved.ErrFull
		}
		d.b.store.room, d.file = nil, f
	}
	for !d.b.AtEnd() {
		if _, err := d.b.Copy(d.file, saved.Step); err != nil {
			return err
		}
	}
	return nil
}

// settle copies the findings to the exchange, after the goroutine has ended.
func (d *heldDownload) settle() error {
	b, t := d.b, &d.x.T
	own := &b.own
	t.Verdict, t.Findings = own.Verdict, append(t.Findings[:0], own.Findings...)
	t.Monitored, t.Signatures = own.Monitored, own.Signatures
	t.Looked, t.Length, t.Unread, t.Picture = own.Looked, own.Length, own.Unread, own.Picture
	b.t = t
	switch {
	case d.err == ErrCut:
		d.err = ErrRefused // none of it was sent
	case d.err == saved.ErrFull:
		d.x.in.counters[downloadsFull].Add(1)
		if d.file != nil {
			d.why = d.file.Err()
		}
		if d.why != nil {
			d.x.Note(d.why.Error())
		}
	}
	return d.err
}

// stop ends the goroutine, waits for it, and reports whether it has ended.
func (d *heldDownload) stop(wait time.Duration) bool {
	select {
	case <-d.ended:
		return true
	default:
	}
	d.cancel()
	interrupt(d.x, d.b.src)()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-d.ended:
		return true
	case <-timer.C:
		return false
	}
}

// free releases everything that d holds, except a file that is kept or being read.
func (d *heldDownload) free() {
	d.stop(fair.Forever)
	d.cancel()
	if d.file != nil {
		d.file.Drop()
	}
	d.x.saving = nil
}

// The owner that gives up the response closes its body: only the goroutine reads it.

func (d *heldDownload) Close() error {
	if d.stop(time.Second / 10) {
		return d.b.Close()
	}
	d.b.unclosed = true
	return nil
}

func (d *heldDownload) Read([]byte) (int, error)             { return 0, errSaveLeft }
func (d *heldDownload) Copy(io.Writer, int64) (int64, error) { return 0, errSaveLeft }
func (d *heldDownload) Ready(dst [][]byte) [][]byte          { return dst }
func (d *heldDownload) Skip(int)                             {}
func (d *heldDownload) Remaining() int64                     { return message.Chunked }
func (d *heldDownload) AtEnd() bool                          { return false }
func (d *heldDownload) Trailer() message.Fields              { return nil }

// A savingPage is the page as a body: it begins at once and ends with the download.
type savingPage heldDownload

// Read implements [message.Body].
func (p *savingPage) Read(dst []byte) (int, error) {
	if len(p.out) == 0 {
		if p.over {
			return 0, io.EOF
		}
		timer := time.NewTimer(saveEvery)
		select {
		case <-p.ended:
			p.over = true
			p.last()
		case <-timer.C:
			p.report()
		}
		timer.Stop()
	}
	n := copy(dst, p.out)
	p.out = p.out[n:]
	return n, nil
}

// report appends the progress of the download.
func (p *savingPage) report() {
	d := p.x.page(200)
	_, done, _, _ := p.b.state()
	d.Received = page.DownloadProgress{State: page.Coming, Bytes: p.b.received(), Size: p.size}
	if done {
		d.Received.State = page.Checked
	}
	p.out = p.x.Engine.Pages.Report(&d)
}

// last appends the result of the download and the link to the file.
func (p *savingPage) last() {
	x, s := p.x, (*heldDownload)(p)
	d := x.page(200)
	err := s.settle()
	if err == nil && s.file == nil { // it was slow rather than large
		err = s.spill()
	}
	switch {
	case err == ErrRefused:
		d = x.reasons(200)
		d.Received.State = page.Refused
	case err == saved.ErrFull:
		x.Refuse(err.Error())
		d.Received.State = page.Failed
	case err != nil:
		x.Note("download: " + err.Error())
		d.Received.State = page.Failed
	default:
		d.Received = page.DownloadProgress{State: page.Ready, Bytes: s.file.Size(), Size: s.file.Size()}
		s.file.Client, s.file.Fields = x.T.Client, keptFields(x, s.s)
		d.Continue = savePath + x.in.saved.Keep(s.file)
		s.file = nil
	}
	p.out = append(x.Engine.Pages.Report(&d), "</main>\n</body>\n</html>\n"...)
}

// keptFields returns the fields of a response that belong to its file.
func keptFields(x *Exchange, s *message.Response) (fields message.Fields) {
	for _, f := range s.Fields {
		switch strings.ToLower(string(f.Name)) {
		case "content-type", "content-disposition", "content-encoding", "last-modified":
			fields = append(fields, message.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)})
		}
	}
	if s.Get("Content-Disposition") == nil { // the path of the file is ours
		name, _, _ := strings.Cut(x.T.URL, "?")
		fields.Add("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	}
	if s.Get("X-Content-Type-Options") == nil {
		fields.Add("X-Content-Type-Options", "nosniff")
	}
	return fields
}

// Ready implements [message.Body].
func (p *savingPage) Ready(dst [][]byte) [][]byte {
	if len(p.out) > 0 {
		dst = append(dst, p.out)
	}
	return dst
}

// Skip implements [message.Body].
func (p *savingPage) Skip(n int) { p.out = p.out[n:] }

// Copy implements [message.Body].
func (p *savingPage) Copy(w io.Writer, most int64) (n int64, err error) {
	var block [4 << 10]byte
	for n < most && !p.AtEnd() {
		k, _ := p.Read(block[:min(int64(len(block)), most-n)])
		k, err = w.Write(block[:k])
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Remaining implements [message.Body].
func (p *savingPage) Remaining() int64 {
	if p.over {
		return int64(len(p.out))
	}
	return message.Chunked
}

// AtEnd implements [message.Body].
func (p *savingPage) AtEnd() bool { return p.over && len(p.out) == 0 }

// Trailer implements [message.Body].
func (p *savingPage) Trailer() message.Fields { return nil }

// Close implements [message.Body].
func (p *savingPage) Close() error { return nil }
