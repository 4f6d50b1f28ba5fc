package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"shuultuur/whatif"
)

// marker is the field in which the sender passes the recorded response to the origin, and by
// which the origin's responses are recognised.
const marker = "Shuultuur-Replay"

// marking returns the value of marker for an entry: status, bytes, type. A response of a filter
// is requested as a plain page, so that the gateway has something to filter.
func marking(e *whatif.Entry) string {
	status, size, kind := e.Status, e.Bytes, e.Type
	if e.Refused {
		status, kind = 200, "text/html"
	}
	if status < 200 || status > 599 || status == http.StatusProxyAuthRequired {
		status = 200
	}
	if _, _, err := mime.ParseMediaType(kind); err != nil || !strings.Contains(kind, "/") {
		kind = "-"
	}
	return strconv.Itoa(status) + " " + strconv.FormatInt(size, 10) + " " + kind
}

// maxBody limits a body, whatever the log says.
const maxBody = 1 << 30

// Origin is a web server that also accepts requests in absolute form and CONNECT for any host,
// as a parent proxy does. It answers with the recorded status and a body of the recorded size
// and type.
type Origin struct {
	gzip bool
	addr net.Addr
	zips sync.Pool // of *gzip.Writer: each needs a megabyte

	mu     sync.Mutex
	probed map[string]bool
}

// NewOrigin makes an origin for a listener. With zip it compresses text for clients that
// accept that.
func NewOrigin(l net.Listener, zip bool) *Origin {
	return &Origin{gzip: zip, addr: l.Addr(), probed: map[string]bool{}}
}

// Addr returns the address of the origin.
func (o *Origin) Addr() net.Addr { return o.addr }

// arrived reports whether a probe with this token has arrived.
func (o *Origin) arrived(token string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.probed[token]
}

// Serve answers on l until ctx is done.
func (o *Origin) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		Handler: o, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		// Unreadable requests are due to the log.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- s.Close() })
	defer stop()
	err := s.Serve(l)
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return <-stopped
	}
	return err
}

// ServeHTTP answers one request.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host == probeHost || r.URL.Host == probeHost {
		o.mu.Lock()
		if len(o.probed) < 1000 {
			o.probed[strings.TrimPrefix(r.URL.Path, "/")] = true
		}
		o.mu.Unlock()
	}
	if r.Method == http.MethodConnect {
		tunnel(w)
		return
	}
	// The client may leave before it has sent everything: then the response is not
	// read.
	_, _ = io.Copy(io.Discard, r.Body)
	status, size, kind := wanted(r)
	h := w.Header()
	h.Set(marker, "origin")
	h.Set("Content-Type", kind)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		h.Del("Content-Type")
		w.WriteHeader(status)
		return
	}
	if o.gzip && packs(kind) && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		o.zipped(w, r, status, size)
		return
	}
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		writeFiller(w, size)
	}
}

// zipped sends text that has about size bytes when compressed, because logs count
// compressed bytes.
func (o *Origin) zipped(w http.ResponseWriter, r *http.Request, status int, size int64) {
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Vary", "Accept-Encoding")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	z, ok := o.zips.Get().(*gzip.Writer)
	if !ok {
		// The level is valid, so this cannot fail.
		z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed)
	}
	z.Reset(w)
	writeFiller(z, min(size*fillerRatio, maxBody))
	_ = z.Close() // an error means that the client has gone
	o.zips.Put(z)
}

// packs reports whether bodies of a type are worth compressing.
func packs(kind string) bool {
	return strings.HasPrefix(kind, "text/") || strings.Contains(kind, "json") || strings.Contains(kind, "javascript") || strings.Contains(kind, "xml")
}

// wanted returns the response that the sender requests, or one that suits the request.
func wanted(r *http.Request) (status int, size int64, kind string) {
	status, size, kind = 200, 10<<10, "-"
	if f := strings.Fields(r.Header.Get(marker)); len(f) == 3 {
		if n, err := strconv.Atoi(f[0]); err == nil && n >= 200 && n <= 599 {
			status = n
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n >= 0 {
			size = min(n, maxBody)
		}
		kind = f[2]
	}
	if kind == "-" {
		kind = typeOf(r.URL.Path)
	}
	if strings.HasPrefix(kind, "text/") {
		kind += "; charset=utf-8"
	}
	return status, size, kind
}

// typeOf guesses the type from the extension. It has its own table, because that of the system
// differs between machines.
func typeOf(p string) string {
	switch strings.ToLower(path.Ext(p)) {
	case ".css":
		return "text/css"
	case ".js":
		return "text/javascript"
	case ".json":
		return "application/json"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".svg":
		return "image/svg+xml"
	case ".mp4":
		return "video/mp4"
	case ".pdf":
		return "application/pdf"
	case ".zip", ".gz", ".exe", ".bin":
		return "application/octet-stream"
	}
	return "text/html"
}

// tunnel accepts a tunnel and waits for its end.
func tunnel(w http.ResponseWriter) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "no tunnel here", http.StatusInternalServerError)
		return
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	// Read and discard everything, so that the other end sees no reset.
	_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
	_, _ = io.Copy(io.Discard, rw)
}

// fillerRatio is the approximate compression ratio of the filler by gzip.
const fillerRatio = 5

var filler = makeFiller()

// makeFiller makes 64 KiB of harmless text that compresses as web pages do.
func makeFiller() []byte {
	var b bytes.Buffer
	x := uint32(1)
	for n := 0; b.Len() < 64<<10; n++ {
		x = x*1664525 + 1013904223 // the generator of Knuth and Lewis always gives the same text
		fmt.Fprintf(&b, "<p>line %d of a made-up page, %08x</p>\n", n, x)
	}
	return b.Bytes()[:64<<10]
}

// writeFiller writes n bytes. An error means that the client has gone.
func writeFiller(w io.Writer, n int64) {
	for n > 0 {
		k, err := w.Write(filler[:min(n, int64(len(filler)))])
		if err != nil {
			return
		}
		n -= int64(k)
	}
}
